"""Programs that carry bytes, such as ssh: started without a shell, read and fed in pieces, ended with their block."""

import asyncio
import fcntl
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from ringrift.kernel.errors import printable
from ringrift.kernel.wire_errors import LinkBroken
from ringrift.sync.transports.ports import Endpoint

_BUFFER_BYTES_MAX = 1024 * 1024
_ERRORS_BYTES_MAX, _ERROR_CHARACTERS_MAX = 4096, 300
_NOISE_LINES_MAX = 1000  # what a login shell may print before the answer
_END_SECONDS_MAX = 5.0  # how long a program that was killed may take to be gone, and its last output to be read


class Program:
    """A running program.  Its input takes bytes, its output gives them, the end of its stderr explains its end."""

    def __init__(self, process: asyncio.subprocess.Process, output: asyncio.StreamReader) -> None:
        assert process.stdin is not None
        assert process.stderr is not None
        self._process, self.input, self.output, self._errors = process, process.stdin, output, process.stderr
        self._last = b""
        self._draining = asyncio.get_running_loop().create_task(self._drain(), name=f"stderr:{process.pid}")

    @classmethod
    @asynccontextmanager
    async def run(cls, argv: Sequence[str], endpoint: Endpoint) -> AsyncIterator["Program"]:
        """Start *argv*; all of its group has ended when the body has.  Raises LinkBroken if it cannot be started."""
        async with _open_pipe() as (output, descriptor):
            pipe = asyncio.subprocess.PIPE
            try:
                process = await asyncio.create_subprocess_exec(
                    *argv, stdin=pipe, stdout=descriptor, stderr=pipe, start_new_session=True
                )
            except OSError as error:
                reason = f"{argv[0]} cannot be started: {error.strerror}"
                raise LinkBroken(endpoint.node, endpoint.transport, reason) from error
            finally:
                os.close(descriptor)  # the program has its own
            program = cls(process, output)
            try:
                yield program
            finally:
                await program._end()

    async def _drain(self) -> None:
        while data := await self._errors.read(_ERRORS_BYTES_MAX):
            self._last = (self._last + data)[-_ERRORS_BYTES_MAX:]

    async def read_answer(self, tag: str) -> str | None:
        """The word behind *tag* in the next line that has it, whatever is printed before; None if there is none."""
        for _ in range(_NOISE_LINES_MAX):
            try:
                line = await self.output.readline()
            except ValueError:  # longer than the buffer: no answer of ours
                return None
            if not line:
                return None
            if line.startswith(f"ringrift {tag} ".encode()):
                return line.split()[-1].decode(errors="replace")
        return None

    async def write(self, data: bytes) -> bool:
        """Whether *data* went to the program, as far as the buffers of the system; False if it reads no more."""
        try:
            self.input.write(data)
            await self.input.drain()
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        return await self._process.wait()

    async def explain(self) -> str:
        """The last line that it printed to stderr, once that is at its end; otherwise its exit code."""
        await asyncio.wait((self._draining,), timeout=_END_SECONDS_MAX)
        lines = [line.strip() for line in self.errors().splitlines() if line.strip()]
        return printable(lines[-1], _ERROR_CHARACTERS_MAX) if lines else f"exit code {self._process.returncode}"

    def errors(self) -> str:
        """The end of its stderr so far."""
        return self._last.decode(errors="replace")

    async def _end(self) -> None:
        if self._process.returncode is None:  # once it was reaped, its number may be another's
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self.input.close()
        rest = asyncio.gather(self._process.wait(), self._draining, return_exceptions=True)
        await asyncio.wait((rest,), timeout=_END_SECONDS_MAX)
        rest.cancel()


@asynccontextmanager
async def _open_pipe() -> AsyncIterator[tuple[asyncio.StreamReader, int]]:
    """A reader, and the descriptor to write to.  The pipe holds as much as a chunk: fewer and larger pieces come."""
    read, write = os.pipe()
    with suppress(OSError):  # a limit of this user
        fcntl.fcntl(read, fcntl.F_SETPIPE_SZ, _BUFFER_BYTES_MAX)
    reader = asyncio.StreamReader(_BUFFER_BYTES_MAX)
    protocol = asyncio.StreamReaderProtocol(reader)
    pipe = os.fdopen(read, "rb", 0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    try:
        yield reader, write
    finally:
        transport.close()
