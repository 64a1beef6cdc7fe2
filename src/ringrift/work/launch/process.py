"""Workers as child processes: jobs go in over stdin, progress and results come back over stdout.

    node ── {"run": spec, "resume": blob, "traceparent": …} ──▶ child          (stdin)
    node ◀── {"done": 0.4} · {"result": …} · {"error": …} ── child   (stdout; the workload's own prints go to stderr)

A child acknowledges each job before it runs it: a failure before that is the node's.  It ends when its stdin ends, so
it cannot outlive a node that was killed.
"""

import asyncio
import logging
import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from ringrift.bus import spans, trace
from ringrift.bus.spans import Span
from ringrift.child import Child
from ringrift.kernel.errors import ChildDied, JobFailed, NodeAway, NoRoom
from ringrift.kernel.settings import LogSettings
from ringrift.work.launch.output import OutputFiles, OutputSplitter
from ringrift.work.launch.ports import Progress, ReportProgress
from ringrift.workload.api import JobResult, JobSpec

SPANS_PER_JOB_MAX = 1000
_LINE_BYTES_MAX = 8 * 1024 * 1024
_START_SECONDS_MAX = 60.0
_STACKS_SECONDS = 0.2  # how long a worker that is to be killed may take to print where it is
STACKS_SIGNAL = signal.SIGUSR1  #: Has a worker print the stacks of its threads.
_STACKS = re.compile(r"^(Current thread|Thread) 0x", re.MULTILINE)  # as :mod:`faulthandler` prints them
log = logging.getLogger(__name__)


class FromChild(msgspec.Struct):
    """One line from a child; its first has no error if it is ready."""

    done: float | None = None
    metrics: dict[str, float] = {}
    checkpoint: str | None = None
    result: JobResult | None = None
    error: str | None = None
    retry: bool = True
    blob: str | None = None
    full: str = ""  # where there was no room, if that was the error
    away: tuple[str, str] | None = None  # the node whose blob folder is not there and why, if that was the error
    traceback: str = ""  # its end, if the workload raised
    version: str = ""  # of a workload that refused its input
    memory: int = 0
    spans: tuple[Span, ...] = ()  # of the workload's own code, with the last line of a job; the node records them
    spans_dropped: int = 0


class ToChild(msgspec.Struct, omit_defaults=True):
    """One line to a child."""

    run: JobSpec | None = None
    resume: str | None = None
    traceparent: str = ""  # the job's place in its trace, as W3C writes it; the last digit: whether spans are recorded
    stop: bool = False


class _WorkerProcess:
    """One child, serving many jobs of one workload, one at a time."""

    def __init__(self, child: Child, output: OutputSplitter) -> None:
        self._child, self._output, self._decode = child, output, msgspec.json.Decoder(FromChild).decode
        self.memory, self.pid = 0, child.pid

    async def read(self) -> FromChild:
        """The next message.  Raises ChildDied when the worker has ended, or sent what is no message of ours."""
        try:
            return self._decode(await self._child.read_line())
        except (ValueError, msgspec.DecodeError) as error:
            raise ChildDied(f"the worker sent a line that is no message: {error}") from error

    def _send(self, message: ToChild) -> None:
        self._child.write_line(msgspec.json.encode(message))

    async def run(self, spec: JobSpec, resume: str | None, report: ReportProgress) -> JobResult:
        self._output.expected = f"{spec.job}.{spec.attempt}"
        self._send(ToChild(run=spec, resume=resume, traceparent=trace.traceparent()))
        try:
            while True:
                message = await self.read()
                self.memory = message.memory or self.memory
                _record_spans(message)
                if message.result is not None:
                    return message.result
                if message.away:
                    raise NodeAway(*message.away)
                if message.full:
                    raise NoRoom(message.full)
                if message.error is not None:
                    names = ("retry", "blob", "traceback", "version")
                    raise JobFailed(message.error, **{name: getattr(message, name) for name in names})
                report(Progress(message.done or 0.0, message.metrics, message.checkpoint))
        except asyncio.CancelledError:
            self._child.kill(STACKS_SIGNAL)
            with suppress(asyncio.CancelledError):  # a second one changes nothing: the first is raised below
                await asyncio.sleep(_STACKS_SECONDS)
            self._child.kill()
            self._report_stacks(report)
            raise
        except ChildDied:
            await self._output.flush()  # its last words are there to be read when its failure is published
            self._report_stacks(report)
            raise

    def _report_stacks(self, report: ReportProgress) -> None:
        """Report where the worker was when it died or was killed, if it has printed that."""
        output = self._child.last_output()
        if match := _STACKS.search(output):
            report(Progress(0.0, {}, traceback=output[match.start() :]))

    def ask_to_stop(self) -> None:
        self._send(ToChild(stop=True))
        self._child.kill(signal.SIGTERM)

    async def end(self, grace_seconds: float) -> None:
        await self._child.end(grace_seconds)
        self._output.end()  # which waits for no disk: a stop would take longer for it


def _record_spans(message: FromChild) -> None:
    recorder = spans.current_recorder()
    if recorder is not None:
        for span in message.spans:
            recorder.record(span)
    if message.spans_dropped:
        log.warning("%d spans of one job were dropped: it made too many", message.spans_dropped)


class ProcessLaunch:
    """Starts children that write into *folder*; *executables* are the plug-ins that are programs of their own.

    With *logs* everything that they print is written to files, by job.
    """

    def __init__(
        self, folder: str | Path, executables: dict[str, list[str]], node: str = "", logs: LogSettings | None = None
    ) -> None:
        self._folder, self._executables, self._node = folder, executables, node
        self._files = None if logs is None else OutputFiles(logs)

    async def start(self, workload: str) -> _WorkerProcess:
        programs = msgspec.json.encode(self._executables).decode()
        argv = [sys.executable, "-m", "ringrift.workers.guard", str(os.getpid())]  # what follows is for workers.main
        argv += [workload, str(self._folder), self._node, programs]
        output = OutputSplitter(self._files, self._node)
        child = await Child.start("the worker", argv, line_bytes_max=_LINE_BYTES_MAX, on_errors=output.feed)
        worker = _WorkerProcess(child, output)
        try:
            async with asyncio.timeout(_START_SECONDS_MAX):
                message = await worker.read()
            if message.error is not None:  # another node may well have what this one lacks: the job is tried again
                raise ChildDied(f"a worker for {workload} cannot start: {message.error}")
        except BaseException as error:
            await asyncio.shield(worker.end(0.0))
            if isinstance(error, TimeoutError):
                raise ChildDied(f"a worker for {workload} was not ready in {_START_SECONDS_MAX:g} s") from error
            raise
        return worker
