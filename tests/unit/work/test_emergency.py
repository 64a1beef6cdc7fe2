"""Emergencies: running jobs of the scope are stopped and given back, others go on, and a resume starts them again."""

import asyncio
from pathlib import Path

import pytest

from ringrift.jobs import Job, Play
from ringrift.kernel.errors import JobFailed
from ringrift.kernel.settings import WorkSettings
from ringrift.store.ports import JobRow
from ringrift.work.desk import JobOutcome
from ringrift.work.launch.ports import Progress, ReportProgress
from ringrift.work.limits import LineWork
from ringrift.work.run_states import set_run_state
from ringrift.workload.api import JobResult, JobSpec
from unit.work.loop_workers import LoopLaunch, LoopWorker
from unit.work.test_runner import runner, running
from unit.work.world import World, play
from wait import wait_until

GRACE = 60.0
STEP_SECONDS = 1.0
"""Of the loop's time, which jumps from timer to timer."""
SETTINGS = WorkSettings(slots=4, lease_seconds=30.0, grace_seconds=GRACE)


def job(variant: str, seed: int = 0) -> Play:
    """A batch of games to play."""
    return Play(variant=variant, model="m", games=10, seed=seed)


async def deaf(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
    """A job that never ends and does not stop when it is asked to."""
    while True:
        report(Progress(0.5, {}))
        await asyncio.sleep(STEP_SECONDS)


async def set_state(world: World, scope: str, state: str) -> None:
    """Set a run state as another process would: the runner only finds it in the store."""
    async with world.store.begin() as tx:
        await set_run_state(tx, world.envelopes, scope=scope, state=state, reason="a test", now=world.clock.now())


async def elapse(world: World, seconds: float) -> None:
    """Let time pass, on the clock and on the loop."""
    for _ in range(int(seconds)):
        world.clock.seconds += STEP_SECONDS
        await asyncio.sleep(STEP_SECONDS)


async def by_variant(world: World) -> dict[str, JobRow]:
    """The only job of each variant."""
    return {row.variant: row for row in await world.jobs()}


def stopping(launch: LoopLaunch) -> set[str]:
    """The variants of the jobs that were asked to stop."""
    return {worker.specs[0].variant for worker in launch.workers if worker.stop.is_set()}


def claimed(world: World, *variants: str) -> "asyncio.Future[None]":
    """Wait until exactly these variants have a claimed job."""

    async def are_claimed() -> bool:
        return {row.variant for row in await world.jobs("claimed")} == set(variants)

    return asyncio.ensure_future(wait_until(are_claimed, seconds=100.0))


@pytest.mark.parametrize(
    ("scope", "goes_on"),
    [("cluster", ()), ("node:here", ()), ("stage:selfplay", ()), ("variant:v", ("w",)), ("node:there", ("v", "w"))],
)
def test_an_emergency_stops_the_jobs_of_its_scope(tmp_path: Path, scope: str, goes_on: tuple[str, ...]) -> None:
    """They are asked at once and killed after the grace period; no try is used up, and a resume starts them again."""

    async def story(world: World) -> None:
        launch = LoopLaunch(deaf)
        await world.desk().enqueue([job("v"), job("w")])
        async with running(runner(world, launch, SETTINGS, wait=asyncio.sleep)):
            await claimed(world, "v", "w")
            await wait_until(lambda: len(launch.workers) == 2 and all(w.specs for w in launch.workers), seconds=100.0)
            await set_state(world, scope, "emergency")
            stopped = {"v", "w"} - set(goes_on)
            await wait_until(lambda: stopping(launch) == stopped, seconds=100.0)
            await elapse(world, GRACE - 5)
            assert {row.variant for row in await world.jobs("claimed")} == {"v", "w"}, "the grace period is not over"

            await elapse(world, 10)
            await claimed(world, *goes_on)
            await elapse(world, 30)
            rows = await by_variant(world)
            for variant in stopped:
                assert (rows[variant].state, rows[variant].attempts, rows[variant].pause) == ("ready", 0, 0.0)
                assert rows[variant].error == f"{scope} is in emergency: a test"
            assert len(launch.workers) == 2, "nothing starts in an emergency"
            await set_state(world, scope, "running")
            await claimed(world, "v", "w")

    play(tmp_path, story, simulated=True)


def test_a_job_that_stops_when_asked_is_recorded(tmp_path: Path) -> None:
    """What it has done counts; one that can only fail when it is stopped has used up no try."""

    async def story(world: World) -> None:
        async def obedient(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            report(Progress(0.5, {}))
            await worker.stop.wait()
            if spec.variant == "w":
                raise JobFailed("stopped half-way", retry=False)
            return JobResult()

        await world.desk().enqueue([job("v"), job("w")])
        async with running(runner(world, LoopLaunch(obedient), SETTINGS, wait=asyncio.sleep)):
            await claimed(world, "v", "w")
            await set_state(world, "cluster", "emergency")
            await claimed(world)
            rows = await by_variant(world)
        assert (rows["v"].state, rows["w"].state, rows["w"].attempts) == ("done", "ready", 0)

    play(tmp_path, story, simulated=True)


@pytest.mark.parametrize(("partial", "error"), [(True, "cluster is in emergency: a test"), (False, "0 blocks")])
def test_a_job_that_returns_too_little_when_asked_to_stop_has_no_error(
    tmp_path: Path, partial: bool, error: str
) -> None:
    """It is given back with the reason of the stop; a result that claims to be whole is an error as always."""

    async def story(world: World) -> None:
        async def obedient(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            report(Progress(0.5, {}))
            await worker.stop.wait()
            return JobResult(partial=partial)

        def refuse(job: Job, result: JobResult, line: LineWork) -> JobOutcome:
            raise JobFailed("0 blocks")

        await world.desk().enqueue([job("v")])
        async with running(runner(world, LoopLaunch(obedient), SETTINGS, wait=asyncio.sleep, make_outcome=refuse)):
            await claimed(world, "v")
            await set_state(world, "cluster", "emergency")
            await claimed(world)
            [row] = await world.jobs()
        assert (row.state, row.attempts, row.error) == ("ready", 0, error)

    play(tmp_path, story, simulated=True)


@pytest.mark.parametrize("state", ["paused", "draining", "stopped"])
def test_other_states_let_running_jobs_go_on(tmp_path: Path, state: str) -> None:
    """No job is asked to stop, and none starts."""

    async def story(world: World) -> None:
        launch = LoopLaunch(deaf)
        await world.desk().enqueue([job("v")])
        async with running(runner(world, launch, SETTINGS, wait=asyncio.sleep)):
            await claimed(world, "v")
            await set_state(world, "cluster", state)
            await world.desk().enqueue([job("w")])
            await elapse(world, 25)
            assert {row.variant for row in await world.jobs("claimed")} == {"v"}
            assert not any(worker.stop.is_set() for worker in launch.workers)

    play(tmp_path, story, simulated=True)


def test_a_resume_within_the_grace_period_spares_the_job(tmp_path: Path) -> None:
    """A job that was asked to stop and has not is not killed once its scope runs again."""

    async def story(world: World) -> None:
        launch = LoopLaunch(deaf)
        await world.desk().enqueue([job("v")])
        async with running(runner(world, launch, SETTINGS, wait=asyncio.sleep)):
            await claimed(world, "v")
            await set_state(world, "cluster", "emergency")
            await wait_until(lambda: bool(launch.workers) and launch.workers[0].stop.is_set(), seconds=100.0)
            await set_state(world, "cluster", "running")
            await elapse(world, GRACE + 10)
            assert launch.workers[0].ended is None

    play(tmp_path, story, simulated=True)
