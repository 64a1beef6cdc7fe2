"""A machine that is about to be taken away: it takes no jobs, ends those it has early, and its files are elsewhere."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from ringrift.kernel.errors import NodeAway
from ringrift.work.desk import JobOutcome
from ringrift.work.launch.ports import Progress, ReportProgress
from ringrift.work.runner import OnProgress
from ringrift.workload.api import Artifact, JobResult, JobSpec
from unit.work.loop_workers import LoopLaunch, LoopWorker
from unit.work.test_emergency import SETTINGS, claimed, job
from unit.work.test_runner import runner, running
from unit.work.world import World, play
from wait import wait_until


async def obedient(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
    """A job that plays until it is asked to stop, and then returns what it has."""
    report(Progress(0.5, {}, "checkpoint"))
    await worker.stop.wait()
    return JobResult(outputs=(Artifact("games", "blob", 1, {"games": 3}),), partial=True)


def test_after_a_notice_jobs_end_with_what_they_have_and_none_begins(tmp_path: Path) -> None:
    """What they have counts; when the notice is taken back, the node works on."""

    async def story(world: World) -> None:
        await world.desk().enqueue([job("v"), job("w")])
        launch = LoopLaunch(obedient)
        async with running(own := runner(world, launch, SETTINGS, wait=asyncio.sleep)):
            await claimed(world, "v", "w")
            await wait_until(lambda: own.checkpoints == ["checkpoint"] * 2, seconds=100.0)
            own.notice = "this machine is about to be taken away"
            await claimed(world)
            assert [row.state for row in await world.jobs()] == ["done", "done"]
            await wait_until(lambda: own.is_idle, seconds=100.0)

            await world.desk().enqueue([job("v", 1)])
            await asyncio.sleep(3 * SETTINGS.lease_seconds)
            assert [row.variant for row in await world.jobs("ready")] == ["v"], "it takes no more"
            own.notice = ""
            await claimed(world, "v")

    play(tmp_path, story, simulated=True)


def test_a_result_is_acknowledged_only_when_its_files_are_protected(tmp_path: Path) -> None:
    """A machine that may vanish brings its outputs to a durable node before the job is done."""

    async def story(world: World) -> None:
        states = list[str]()

        async def protect(blobs: Sequence[str], on_progress: OnProgress) -> None:
            assert list(blobs) == ["blob"]
            on_progress()
            states.extend(row.state for row in await world.jobs())

        async def at_once(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            return JobResult(outputs=(Artifact("games", "blob", 1, {"games": 3}),))

        await world.desk().enqueue([job("v")])
        own = runner(world, LoopLaunch(at_once), SETTINGS, wait=asyncio.sleep, protect=protect)
        async with running(own):
            await wait_until(lambda: own.is_idle and bool(states), seconds=100.0)
        assert states == ["claimed"]
        assert [row.state for row in await world.jobs()] == ["done"]

    play(tmp_path, story, simulated=True)


@pytest.mark.parametrize("error", [NodeAway("b")])
def test_a_result_that_cannot_be_protected_is_not_done(tmp_path: Path, error: Exception) -> None:
    """An error of the protection is one of the attempt: the job is tried again."""

    async def story(world: World) -> None:
        async def protect(blobs: Sequence[str], on_progress: OnProgress) -> None:
            raise error

        async def at_once(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            return JobResult()

        await world.desk().enqueue([job("v")])
        make = {"make_outcome": lambda job, result, line: JobOutcome()}
        own = runner(world, LoopLaunch(at_once), SETTINGS, wait=asyncio.sleep, protect=protect, **make)

        async def is_ready_again() -> bool:
            return [row.error for row in await world.jobs("ready")] == [str(error)]

        async with running(own):
            await wait_until(is_ready_again, seconds=100.0)

    play(tmp_path, story, simulated=True)
