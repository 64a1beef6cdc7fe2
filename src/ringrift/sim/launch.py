"""Workers of a simulated node: the fake workload in the loop itself, in virtual time, crashing and hanging by seed."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from random import Random
from typing import cast

from ringrift.bus import trace
from ringrift.jobs import Rate
from ringrift.kernel.errors import ChildDied, JobFailed
from ringrift.kernel.value import Value
from ringrift.sim.blobs import MemoryBlobs
from ringrift.work.launch.ports import Report, Word
from ringrift.workers import rate
from ringrift.workload.api import Artifact, JobResult, JobSpec, Kind, Refused, Scalar
from ringrift.workload.fake import Fake

BEATS = 4


class Temper(Value):
    """How the workers of one world behave; drawn anew for every seed."""

    seconds_max: float = 1.0
    crash: float = 0.0
    hang: float = 0.0


class MemoryFile:
    """As much of a path as the fake workload uses."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def open(self, mode: str) -> BytesIO:
        """What is in it, for reading."""
        assert mode == "rb"
        return BytesIO(self._data)


class Context:
    """:class:`ringrift.workload.api.JobContext` over the blobs of a simulated node."""

    def __init__(self, blobs: MemoryBlobs) -> None:
        self._blobs = blobs
        self.traceparent = trace.traceparent()

    def open_input(self, blob: str) -> Path:
        return cast("Path", MemoryFile(self._blobs.open(blob)))

    def publish(self, kind: Kind, data: bytes, meta: Mapping[str, Scalar]) -> Artifact:
        return Artifact(kind=kind, blob=self._blobs.keep(data), size=len(data), meta=dict(meta))

    def heartbeat(self, done: float, **metrics: float) -> None:
        """Heard by nobody: the worker reports its own virtual progress."""

    def should_stop(self) -> bool:
        return False

    def checkpoint(self, data: bytes) -> None:
        self._blobs.keep(data)

    def resume(self) -> bytes | None:
        return None


class SimWorker:
    """A worker that lives in the loop of its node and dies with it."""

    memory = 0

    def __init__(self, blobs: MemoryBlobs, rng: Random, temper: Temper) -> None:
        self._blobs, self._rng, self._temper = blobs, rng, temper

    async def run(self, spec: JobSpec, resume: str | None, report: Report) -> JobResult:
        seconds = self._rng.uniform(0.1, self._temper.seconds_max)
        fate = self._rng.random()
        for beat in range(BEATS):
            await asyncio.sleep(seconds / BEATS)
            if fate < self._temper.crash:
                raise ChildDied("the worker ended with signal 9")
            if fate < self._temper.crash + self._temper.hang:
                await asyncio.get_running_loop().create_future()
            report(Word(beat / BEATS, {}))
        try:
            do = rate.run if spec.stage == Rate.kind() else Fake().run
            return replace(do(spec, Context(self._blobs)), version=Fake.version)
        except Refused as refused:
            raise JobFailed(refused.reason, retry=False, blob=refused.blob) from refused

    def ask_to_stop(self) -> None:
        """Jobs here are short: they end by themselves within the grace period or are killed."""

    async def end(self, grace_seconds: float) -> None:
        return


class SimLaunch:
    """Starts simulated workers."""

    def __init__(self, blobs: MemoryBlobs, rng: Random, temper: Temper) -> None:
        self._parts = (blobs, rng, temper)

    async def start(self, workload: str) -> SimWorker:
        await asyncio.sleep(0.05)
        return SimWorker(*self._parts)
