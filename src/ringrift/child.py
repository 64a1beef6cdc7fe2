"""Child processes: spawn, keep the last output, exchange lines over pipes, end the whole process group.

    parent ── lines ──▶ child      (stdin; it ends when the parent does, so a child that reads it cannot outlive us)
    parent ◀── lines ── child      (stdout: readiness, progress, results; each line is a sign of life)
               stderr              (its end is kept: it explains how the child died; whoever starts it may get it all)

:class:`Child` serves code on the event loop: daemons that are programs, and workers.  :func:`run_program` serves code
that may block, inside a worker: the program stays in the worker's process group and ends with it.
"""

import asyncio
import os
import selectors
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import IO

from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import ChildDied, printable

OnOutput = Callable[[bytes], None]
_Output = tuple[asyncio.StreamReader, asyncio.BaseTransport]
KILL_SECONDS_MAX = 5.0  #: How long a child that was killed may take to be gone.
DRAIN_SECONDS_MAX = 1.0  #: How long the rest of a dead child's output is awaited: a grandchild may keep it open.
_LAST_OUTPUT_BYTES_MAX, _LAST_LINES_MAX, _LINE_CHARACTERS_MAX = 4096, 8, 300
_READ_BYTES = 64 * 1024
_POLL_SECONDS = 0.1  # how late a wish to stop may reach a program
_LAST_READS_MAX = 64  # a pipe holds 64 KiB, or 1 MiB where it was enlarged


class _LastOutput:
    """The end of what a process has printed, up to 4 KiB."""

    _data = b""

    def feed(self, data: bytes) -> None:
        self._data = (self._data + data)[-_LAST_OUTPUT_BYTES_MAX:]

    def text(self) -> str:
        return self._data.decode(errors="replace").strip()

    def lines(self) -> list[str]:
        """The last lines, printable, of a long one its end."""
        lines = [line.rstrip()[-_LINE_CHARACTERS_MAX:] for line in self.text().splitlines()[-_LAST_LINES_MAX:]]
        return [printable(line, _LINE_CHARACTERS_MAX) for line in lines]


class Child:
    """A child process in its own process group, used from one event loop; *name* is what error messages call it."""

    def __init__(
        self, name: str, process: "subprocess.Popen[bytes]", input: asyncio.WriteTransport, *outputs: _Output
    ) -> None:
        self.pid, self._name, self._process, self._last_output = process.pid, name, process, _LastOutput()
        self._on_errors: Callable[[bytes], bytes] = bytes
        (self._output, _), (errors, _) = outputs
        self._input, self._pipes, loop = input, [input, *(pipe for _, pipe in outputs)], asyncio.get_running_loop()
        self._draining = loop.create_task(self._drain(errors), name=f"stderr:{self.pid}")
        self._ending = loop.create_task(self._reap(), name=f"exit:{self.pid}")

    @classmethod
    async def start(
        cls, name: str, argv: Sequence[str], *, line_bytes_max: int, on_errors: Callable[[bytes], bytes] = bytes
    ) -> "Child":
        """Start *argv*; a line of its output may be *line_bytes_max* long.  Raises OSError if it cannot be started.

        *on_errors* gets all that it prints to stderr and returns what of it may be in errors.  It must not block.
        """
        pipe = subprocess.PIPE
        process = subprocess.Popen(  # noqa: ASYNC220 - it does not wait
            argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
        )
        try:
            input, _ = await asyncio.get_running_loop().connect_write_pipe(asyncio.BaseProtocol, process.stdin)
            outputs = [await _open_reader(pipe, line_bytes_max) for pipe in (process.stdout, process.stderr)]
        except BaseException:
            process.kill()
            process.wait()
            raise
        child = cls(name, process, input, *outputs)
        child._on_errors = on_errors
        return child

    async def _drain(self, errors: asyncio.StreamReader) -> None:
        while data := await errors.read(_READ_BYTES):
            self._last_output.feed(self._on_errors(data))

    def last_output(self) -> str:
        """The end of what it has printed to stderr."""
        return self._last_output.text()

    async def _reap(self) -> int:
        """Wait for the end of the child, kill what is left of its group, and return its exit code.

        Until it is reaped, its number names this group and no other: afterwards nothing is signalled any more.
        """
        await _wait_for_exit(self.pid)
        self.kill()
        return self._process.wait()

    def write_line(self, line: bytes) -> None:
        """Send one line; that the child is gone shows when the next line is read."""
        self._input.write(line + b"\n")

    async def read_line(self) -> bytes:
        """The next line.  Raises ChildDied with exit and last output at the end, ValueError for a line too long."""
        if line := await self._next_line():
            return line
        code = await asyncio.shield(self._ending)
        await asyncio.wait((self._draining,), timeout=DRAIN_SECONDS_MAX)
        reason = f"signal {-code}" if code < 0 else f"exit {code}"
        raise ChildDied("\n  ".join((f"{self._name} ended with {reason}", *self._last_output.lines())))

    async def _next_line(self) -> bytes:
        is_too_long = False
        while True:
            try:
                line = await self._output.readuntil()
            except asyncio.IncompleteReadError as end:
                line = end.partial
            except asyncio.LimitOverrunError as overrun:
                await self._output.read(overrun.consumed)
                is_too_long = True  # and its rest must not be taken for a line of its own
                continue
            if is_too_long:
                raise ValueError(f"{self._name} printed a line that is too long")
            return line

    async def lines(self) -> AsyncIterator[bytes]:
        """Every line until the child ends; lines that are too long are left out.  Raises ChildDied at the end."""
        while True:
            with suppress(ValueError):
                yield await self.read_line()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send *number* to the whole group, unless the child was reaped: what it has started must not stay behind."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    async def end(self, grace_seconds: float, *, close_input: bool = False) -> None:
        """Ask the group to stop, kill it after *grace_seconds*, and leave neither process nor zombie behind.

        With *close_input* the end of its stdin comes together with SIGTERM; otherwise only after its death.
        """
        try:
            if self._process.returncode is None and grace_seconds > 0:
                self.kill(signal.SIGTERM)
                if close_input:
                    self._input.close()
                await asyncio.wait((self._ending,), timeout=grace_seconds)
        finally:
            self.kill()
        await asyncio.wait((self._ending,), timeout=KILL_SECONDS_MAX)
        await asyncio.wait((self._draining,), timeout=DRAIN_SECONDS_MAX)
        self._draining.cancel()
        for pipe in self._pipes:
            pipe.close()


async def _open_reader(pipe: IO[bytes] | None, bytes_max: int) -> _Output:
    reader = asyncio.StreamReader(bytes_max)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    return reader, transport


async def _wait_for_exit(pid: int) -> None:
    """Return when the child *pid* has ended; it still is to be reaped."""
    try:
        handle = os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or no descriptor is free
        flags = os.WEXITED | os.WNOWAIT | os.WNOHANG
        while os.waitid(os.P_PID, pid, flags) is None:  # noqa: ASYNC110, ASYNC222 - there is no event to wait for
            await asyncio.sleep(_POLL_SECONDS)
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def run_program(
    argv: Sequence[str],
    on_output: OnOutput,
    should_stop: Callable[[], bool],
    *,
    stop_seconds_max: float,
    clock: Clock,
    passes_errors: bool = False,
) -> tuple[int, str]:
    """Run *argv* to its end and return its exit code and the end of its stderr.  Blocks.

    *on_output* gets its stdout as it comes; if that raises, it is killed.  *passes_errors*: its stderr goes to ours.
    Once *should_stop* holds it gets SIGTERM, and is killed *stop_seconds_max* later.  Raises OSError if it cannot be
    started.
    """
    last_output, pipe = _LastOutput(), subprocess.PIPE

    def consume_errors(data: bytes) -> None:
        last_output.feed(data)
        if passes_errors:
            os.write(2, data)

    with (
        subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, bufsize=0) as process,
        selectors.DefaultSelector() as outputs,
    ):
        try:
            for stream, consume in ((process.stdout, on_output), (process.stderr, consume_errors)):
                assert stream is not None
                os.set_blocking(stream.fileno(), False)
                outputs.register(stream, selectors.EVENT_READ, consume)
            deadline = None
            while process.poll() is None:
                _read_outputs(process, outputs, _POLL_SECONDS)
                if deadline is None and should_stop():
                    process.terminate()
                    deadline = clock.tick() + stop_seconds_max
                if deadline is not None and clock.tick() > deadline:
                    process.kill()
            # Its last lines may still be in the pipes; a pipe that a grandchild keeps open is not waited for.
            for _ in range(_LAST_READS_MAX):
                if not _read_outputs(process, outputs, 0):
                    break
        finally:
            process.kill()  # of no effect on one that has ended; leaving the block waits for it
    return process.returncode, last_output.text()


def _read_outputs(process: subprocess.Popen[bytes], outputs: selectors.BaseSelector, seconds: float) -> bool:
    """Hand on what the program prints within *seconds*; whether it printed anything."""
    if not outputs.get_map():
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return False
    ready = outputs.select(seconds)
    for key, _ in ready:
        if data := os.read(key.fd, _READ_BYTES):
            key.data(data)
        else:
            outputs.unregister(key.fileobj)
    return bool(ready)
