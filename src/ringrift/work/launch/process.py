"""Workers as child processes: own process group, words over a pipe, no orphan whatever happens to us.

    node ── {"run": spec, "resume": blob, "traceparent": …} ──▶ child          (stdin)
    node ◀── {"done": 0.4} · {"result": …} · {"error": …} ── child   (stdout; the workload's own prints go to stderr)

A child ends when its stdin ends, so it cannot outlive a node that was killed.
"""

import asyncio
import logging
import os
import signal
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path

import msgspec

from ringrift.bus import spans, trace
from ringrift.bus.spans import Span
from ringrift.kernel.errors import ChildDied, JobFailed
from ringrift.work.launch.ports import Report, Word
from ringrift.workload.api import JobResult, JobSpec

LINE_BYTES_MAX = 8 * 1024 * 1024
START_SECONDS_MAX = 60.0
STDERR_LINES_KEPT = 40
SPANS_PER_JOB_MAX = 1000
log = logging.getLogger(__name__)


class Said(msgspec.Struct):
    """One line from a child."""

    ready: bool = False
    done: float | None = None
    metrics: dict[str, float] = {}
    checkpoint: str | None = None
    result: JobResult | None = None
    error: str | None = None
    retry: bool = True
    blob: str | None = None
    memory: int = 0
    spans: tuple[Span, ...] = ()
    """Of the workload's own code, with the last line of a job: the node keeps them as its own."""
    spans_dropped: int = 0


class Told(msgspec.Struct, omit_defaults=True):
    """One line to a child."""

    run: JobSpec | None = None
    resume: str | None = None
    traceparent: str = ""
    """Where the job stands in its trace, as W3C writes it; its last digit says whether anybody keeps spans."""
    stop: bool = False


class Process:
    """One child, serving many jobs of one workload, one at a time."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self._child = child
        self._decode = msgspec.json.Decoder(Said).decode
        self._tail: deque[str] = deque(maxlen=STDERR_LINES_KEPT)
        self._listening = asyncio.get_running_loop().create_task(self._listen())
        self.memory = 0
        self.pid = child.pid

    async def _listen(self) -> None:
        """Keep the end of what the child prints: it explains a death."""
        assert self._child.stderr is not None
        with suppress(ValueError):  # a line longer than the limit: not worth more
            async for line in self._child.stderr:
                self._tail.append(line.decode(errors="replace").rstrip()[:500])

    async def hear(self) -> Said:
        """The next line.  Raises ChildDied with how it ended and its last words."""
        assert self._child.stdout is not None
        try:
            line = await self._child.stdout.readline()
            if line:
                return self._decode(line)
        except (ValueError, msgspec.DecodeError) as bad:
            raise ChildDied(f"the worker said something that is not ours: {bad}") from bad
        code = await self._child.wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._listening), 1.0)
        how = f"signal {-code}" if code < 0 else f"exit {code}"
        raise ChildDied(f"the worker ended with {how}" + ("".join(f"\n  {line}" for line in list(self._tail)[-8:])))

    def tell(self, told: Told) -> None:
        """Send one line; a child that is gone is noticed when it is heard."""
        assert self._child.stdin is not None
        with suppress(ConnectionError, RuntimeError):
            self._child.stdin.write(msgspec.json.encode(told) + b"\n")

    async def run(self, spec: JobSpec, resume: str | None, report: Report) -> JobResult:
        self.tell(Told(run=spec, resume=resume, traceparent=trace.traceparent()))
        try:
            while True:
                said = await self.hear()
                self.memory = said.memory or self.memory
                _keep(said)
                if said.result is not None:
                    return said.result
                if said.error is not None:
                    raise JobFailed(said.error, retry=said.retry, blob=said.blob)
                report(Word(said.done or 0.0, said.metrics, said.checkpoint))
        except asyncio.CancelledError:
            self.kill()
            raise

    def ask_to_stop(self) -> None:
        self.tell(Told(stop=True))
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the whole process group now."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        """To the whole group: a workload may have started processes of its own."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    async def end(self, grace_seconds: float) -> None:
        if self._child.returncode is None and grace_seconds > 0:
            self._signal(signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._child.wait(), grace_seconds)
        self.kill()
        await self._child.wait()
        assert self._child.stdin is not None
        self._child.stdin.close()
        await asyncio.wait((self._listening,), timeout=1.0)
        self._listening.cancel()


def _keep(said: Said) -> None:
    """Keep the spans of a workload, if anybody does."""
    recorder = spans.recorder()
    if recorder is not None:
        for span in said.spans:
            recorder.keep(span)
    if said.spans_dropped:
        log.warning("%d spans of one job were dropped: it made too many", said.spans_dropped)


class ProcessLaunch:
    """Starts children that write into *folder*; *executables* are the plug-ins that are programs of their own."""

    def __init__(self, folder: str | Path, executables: dict[str, list[str]]) -> None:
        self._folder, self._executables = folder, executables

    async def start(self, workload: str) -> Process:
        argv = [sys.executable, "-m", "ringrift.workers.main", "--workload", workload, "--blobs", str(self._folder)]
        if self._executables:
            argv += ["--executables", msgspec.json.encode(self._executables).decode()]
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, limit=LINE_BYTES_MAX
        )
        worker = Process(child)
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                said = await worker.hear()
        except BaseException as wrong:
            await asyncio.shield(worker.end(0.0))
            if isinstance(wrong, TimeoutError):
                raise ChildDied(f"a worker for {workload} was not ready in {START_SECONDS_MAX:g} s") from wrong
            raise
        if said.error is not None:
            await worker.end(0.0)
            raise JobFailed(said.error, retry=False)
        return worker
