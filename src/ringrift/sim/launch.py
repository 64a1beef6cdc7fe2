"""Workers of a simulated node: the fake workload in the loop itself, in virtual time, with seeded crashes and hangs."""

import asyncio
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import cast

from ringrift.blobs.folder import Folder
from ringrift.bus import trace
from ringrift.jobs import Rate
from ringrift.kernel.errors import ChildDied, JobFailed
from ringrift.kernel.value import Value
from ringrift.sim.blobs import MemoryBlobs
from ringrift.work.launch.ports import Progress, ReportProgress
from ringrift.work.launch.process import ToChild
from ringrift.workers import rate
from ringrift.workers.context import WorkerContext
from ringrift.workload.api import JobResult, JobSpec, Refused
from ringrift.workload.fake import Fake

_BEATS = 4


class WorkerBehaviour(Value):
    """How the workers of one world behave; drawn anew for every seed."""

    seconds_max: float = 1.0
    crash: float = 0.0
    hang: float = 0.0
    has_checkpoints: bool = False  #: Whether a job can go on where another worker was at its last beat.


def _decode_beat(checkpoint: bytes) -> tuple[int, float]:
    """How many beats of its job are done by *checkpoint*, and when the last one was."""
    beats, time, _ = checkpoint.decode().split(" ", 2)
    return int(beats), float(time)


class _MemoryFolder(Folder):
    """The blobs of a simulated node as a job sees them."""

    def __init__(self, blobs: MemoryBlobs) -> None:
        self._blobs = blobs

    def put(self, data: bytes) -> str:
        return self._blobs.add(data)

    def open(self, blob: str) -> Path:
        data = self._blobs.open(blob)
        # The part of a path that the fake workload uses.
        return cast("Path", SimpleNamespace(open=lambda mode: BytesIO(data)))


class _SimWorker:
    """A worker that lives in the loop of its node and dies with it."""

    memory = 0

    def __init__(self, blobs: MemoryBlobs, rng: Random, behaviour: WorkerBehaviour) -> None:
        self._blobs, self._rng, self._behaviour = blobs, rng, behaviour

    async def run(self, spec: JobSpec, resume: str | None, report: ReportProgress) -> JobResult:
        report(Progress(0.0, {}))  # from here on a failure is the job's
        seconds = self._rng.uniform(0.1, self._behaviour.seconds_max)
        draw = self._rng.random()
        for beat in range(_decode_beat(self._blobs.open(resume))[0] if resume else 0, _BEATS):
            await asyncio.sleep(seconds / _BEATS)
            if draw < self._behaviour.crash:
                raise ChildDied("the worker ended with signal 9")
            if draw < self._behaviour.crash + self._behaviour.hang:
                await asyncio.get_running_loop().create_future()
            report(Progress(beat / _BEATS, {}, self._checkpoint(spec, beat + 1)))
        try:
            do = rate.run if spec.stage == Rate.kind() else Fake().run
            # Its heartbeats are ignored: the worker reports its own virtual progress.
            folder, message = _MemoryFolder(self._blobs), ToChild(traceparent=trace.traceparent())
            context = WorkerContext(folder, lambda beat: None, lambda: False, message)
            return replace(do(spec, context), version=Fake.version)
        except Refused as refused:
            raise JobFailed(refused.reason, retry=False, blob=refused.blob) from refused

    def _checkpoint(self, spec: JobSpec, beats: int) -> str | None:
        if not self._behaviour.has_checkpoints:
            return None
        return self._blobs.add(f"{beats} {asyncio.get_running_loop().time()} {spec.job}".encode())

    def ask_to_stop(self) -> None:
        """Jobs here are short: they end by themselves within the grace period or are killed."""

    async def end(self, grace_seconds: float) -> None:
        return


class SimLaunch:
    """Starts simulated workers."""

    def __init__(self, blobs: MemoryBlobs, rng: Random, behaviour: WorkerBehaviour) -> None:
        self._parts = (blobs, rng, behaviour)
        self.is_broken = False  #: Whether no worker can be started here.

    async def start(self, workload: str) -> _SimWorker:
        await asyncio.sleep(0.05)
        if self.is_broken:
            raise ChildDied(f"a worker for {workload} cannot start: its interpreter is missing")
        return _SimWorker(*self._parts)
