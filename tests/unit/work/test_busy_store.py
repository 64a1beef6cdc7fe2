"""A store that is busy or full ends no work: leases are renewed later, and a result is kept until it is stored."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ringrift.events.base import Event
from ringrift.events.node import Left
from ringrift.events.work import Failed, Finished
from ringrift.jobs import Distribute, Job, JobFilter
from ringrift.kernel.errors import Backpressure, Busy, ChildDied, JobFailed, NoRoom, Overdue
from ringrift.work.desk import JobOutcome, cancel
from ringrift.work.launch.ports import Progress, ReportProgress
from ringrift.work.runner import OnProgress
from ringrift.workload.api import JobResult, JobSpec
from unit.work.busy_desk import BusyDesk, OvertakingDesk
from unit.work.loop_workers import LoopLaunch, LoopWorker
from unit.work.test_runner import SETTINGS, job, runner, running, settled
from unit.work.world import LEASE_SECONDS, World, play
from wait import wait_until

ERRORS = [Busy("store.db", "another process writes"), Backpressure("store", 64), NoRoom("/store"), Overdue(1.0)]
transient = pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)


def outcome(*_: Any) -> JobOutcome:
    """The result of every job."""
    return JobOutcome(events=(Left(node="played"),))


class Steps:
    """A workload whose jobs begin, and end when they are let go."""

    def __init__(self) -> None:
        self.begun, self.released, self.beats = asyncio.Event(), asyncio.Event(), 0
        self.launch = LoopLaunch(self._run)

    async def _run(self, worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
        def beat() -> bool:
            report(Progress(0.5, {}))
            self.beats += 1
            return self.released.is_set()

        self.begun.set()
        await wait_until(beat, seconds=100.0)
        return JobResult()


@transient
def test_a_claim_that_the_store_refuses_is_made_later(tmp_path: Path, error: Exception) -> None:
    """Running jobs go on, the runner lives, and the next job is claimed once the store answers."""

    async def story(world: World) -> None:
        desk, steps = BusyDesk(world), Steps()
        await desk.enqueue([job(1)])
        async with running(runner(world, steps.launch, desk=desk, make_outcome=outcome)) as task:
            await steps.begun.wait()
            desk.errors["claim"] = error
            await desk.enqueue([job(2)])
            await wait_until(lambda: desk.refused.get("claim", 0) >= 2)
            assert not task.done()
            steps.released.set()
            await wait_until(lambda: _has_done(world, 1))
            desk.errors.clear()
            rows = await settled(world, "done")

        assert [row.attempts for row in rows] == [1, 1]

    play(tmp_path, story)


async def _has_done(world: World, count: int) -> bool:
    return len(await world.jobs("done")) == count


@transient
def test_a_renewal_that_the_store_refuses_ends_no_job(tmp_path: Path, error: Exception) -> None:
    """The job works on beyond two thirds of its lease, and its lease is renewed as soon as the store answers."""

    async def story(world: World) -> None:
        desk, steps = BusyDesk(world), Steps()
        desk.errors["renew"] = error
        await desk.enqueue([job()])
        async with running(runner(world, steps.launch, desk=desk, make_outcome=outcome)):
            await steps.begun.wait()
            for count in (1, 2, 3):
                world.clock.seconds += 0.5 * LEASE_SECONDS
                await wait_until(partial(_has_more, steps, steps.beats))
                await wait_until(partial(_is_refused, desk, "renew", count))
            desk.errors.clear()
            await wait_until(lambda: _is_renewed(world))
            steps.released.set()
            [row] = await settled(world, "done")

        assert row.attempts == 1

    play(tmp_path, story)


def _has_more(steps: Steps, beats: int) -> bool:
    return steps.beats > beats


def _is_refused(desk: BusyDesk, verb: str, times: int) -> bool:
    return desk.refused.get(verb, 0) >= times


async def _is_renewed(world: World) -> bool:
    return any(row.renewals for row in await world.jobs("claimed"))


@transient
def test_a_finished_result_is_kept_until_it_is_stored(tmp_path: Path, error: Exception) -> None:
    """However long that takes: its lease is renewed meanwhile, and the result is published once."""

    async def story(world: World) -> None:
        desk = BusyDesk(world)
        desk.errors["finish"] = error
        await desk.enqueue([job()])
        async with running(runner(world, LoopLaunch(), desk=desk, make_outcome=outcome)):
            await wait_until(lambda: desk.refused.get("finish", 0) >= 1)
            for _ in range(3):
                [before] = await world.jobs("claimed")
                world.clock.seconds += 0.7 * LEASE_SECONDS
                await wait_until(partial(_has_more_renewals, world, before.renewals))
            desk.errors.clear()
            [row] = await settled(world, "done")

        assert row.attempts == 1
        assert await world.events(Left) == [Left(node="played")]

    play(tmp_path, story)


async def _has_more_renewals(world: World, count: int) -> bool:
    return any(row.renewals > count for row in await world.jobs("claimed"))


def test_a_result_that_another_node_overtook_is_dropped(tmp_path: Path) -> None:
    """Only a lost lease ends the wait for the store."""

    async def story(world: World) -> None:
        desk, events = BusyDesk(world), list[Event]()
        desk.errors["finish"] = ERRORS[0]
        await desk.enqueue([job()])
        async with running(runner(world, LoopLaunch(), desk=desk, make_outcome=outcome, publish=events.append)):
            await wait_until(lambda: desk.refused.get("finish", 0) >= 1)
            async with world.store.begin() as tx:
                await cancel(tx, JobFilter(variant="hex8_2p"), world.envelopes)
            await wait_until(lambda: any(isinstance(event, Failed) for event in events))

        assert [event.cause for event in events if isinstance(event, Failed)] == ["lost"]
        assert await world.events(Left) == []

    play(tmp_path, story)


class _NoWorkers(LoopLaunch):
    """No worker can be started."""

    async def start(self, workload: str) -> LoopWorker:
        raise ChildDied("no such program")


@pytest.mark.parametrize(("launch", "end"), [(LoopLaunch(), Finished), (_NoWorkers(), Failed)])
def test_a_renewal_that_the_end_of_the_job_overtook_is_no_loss(
    tmp_path: Path, launch: LoopLaunch, end: type[Event]
) -> None:
    """It finds no lease; the answer to the end says what became of the job, and that is published."""

    async def story(world: World) -> None:
        desk, events = OvertakingDesk(world), list[Event]()
        await desk.enqueue([job()])
        async with running(runner(world, launch, desk=desk, make_outcome=outcome, publish=events.append)):
            await wait_until(lambda: any(isinstance(event, end) for event in events))

        ends = [event for event in events if isinstance(event, Finished | Failed)]
        assert getattr(ends[0], "cause", "") != "lost"

    play(tmp_path, story)


def test_a_node_that_stops_delivers_its_results_first(tmp_path: Path) -> None:
    """Within the grace period the store may answer again."""

    async def story(world: World) -> None:
        desk = BusyDesk(world)
        desk.errors["finish"] = ERRORS[0]
        await desk.enqueue([job()])
        settings = msgspec.structs.replace(SETTINGS, grace_seconds=5.0)
        async with running(runner(world, LoopLaunch(), settings, desk=desk, make_outcome=outcome)) as task:
            await wait_until(lambda: desk.refused.get("finish", 0) >= 1)
            task.cancel()
            count = desk.refused["finish"]
            await wait_until(lambda: desk.refused["finish"] > count)
            desk.errors.clear()
            await asyncio.wait([task])

        assert [(row.state, row.attempts) for row in await world.jobs()] == [("done", 1)]

    play(tmp_path, story)


def test_a_second_stop_does_not_cut_the_first_short(tmp_path: Path) -> None:
    """A node that stops while its runner is being restarted still gives its leases back."""

    async def story(world: World) -> None:
        steps, settings = Steps(), msgspec.structs.replace(SETTINGS, grace_seconds=0.2)
        await world.desk().enqueue([job()])
        async with running(runner(world, steps.launch, settings)) as task:
            await steps.begun.wait()
            task.cancel()
            await steps.launch.workers[0].stop.wait()
            task.cancel()
            await asyncio.wait([task])
            assert [(row.state, row.attempts) for row in await world.jobs()] == [("ready", 0)]

    play(tmp_path, story)


def test_a_result_is_never_dropped_in_silence(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A node that must stop before the store answers logs it and publishes it; the job is ready for others."""

    async def story(world: World) -> None:
        desk, events = BusyDesk(world), list[Event]()
        desk.errors["finish"] = ERRORS[0]
        await desk.enqueue([job()])
        async with running(runner(world, LoopLaunch(), desk=desk, make_outcome=outcome, publish=events.append)):
            await wait_until(lambda: desk.refused.get("finish", 0) >= 1)

        assert [(row.state, row.attempts) for row in await world.jobs()] == [("ready", 0)]
        [event] = [event for event in events if isinstance(event, Failed)]
        assert (event.cause, event.again) == ("stopped", True)
        assert event.error == "node here is stopping, and its result could not be stored"
        assert event.error in caplog.text

    play(tmp_path, story)


@transient
def test_a_failure_that_cannot_be_stored_yet_is_stored_later(tmp_path: Path, error: Exception) -> None:
    """The job has used up one try, whenever that was stored."""

    async def story(world: World) -> None:
        async def fail(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            raise JobFailed("the batch is bad")

        desk = BusyDesk(world)
        desk.errors["fail"] = error
        await desk.enqueue([job()])
        async with running(runner(world, LoopLaunch(fail), desk=desk)):
            await wait_until(lambda: desk.refused.get("fail", 0) >= 2)
            desk.errors.clear()
            await wait_until(lambda: _is_tried(world))

        assert [(row.attempts, row.error) for row in await world.jobs()] == [(1, "the batch is bad")]

    play(tmp_path, story)


async def _is_tried(world: World) -> bool:
    return any(row.error for row in await world.jobs("ready"))


def test_a_node_can_stop_while_nothing_can_be_stored(tmp_path: Path) -> None:
    """What it holds then expires with its lease, and the stop takes no longer than it may."""

    async def story(world: World) -> None:
        desk, steps = BusyDesk(world), Steps()
        await desk.enqueue([job()])
        async with running(runner(world, steps.launch, desk=desk, wait=asyncio.sleep)) as task:
            await steps.begun.wait()
            desk.errors |= dict.fromkeys(("fail", "revoke", "renew"), ERRORS[0])
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()

        assert [row.state for row in await world.jobs()] == ["claimed"]

    play(tmp_path, story, simulated=True)


@transient
def test_a_store_that_is_busy_for_a_job_of_the_node_costs_no_try(tmp_path: Path, error: Exception) -> None:
    """A copy that cannot be recorded for the moment is made later: the job waits, and keeps its only try."""

    async def move(job: Job, on_progress: OnProgress) -> JobOutcome:
        raise error

    async def story(world: World) -> None:
        await world.desk().enqueue([Distribute(variant="hex8_2p", model="m")])
        async with running(runner(world, LoopLaunch(), run_on_node=move)):
            await wait_until(lambda: _waits(world))

    play(tmp_path, story)


async def _waits(world: World) -> bool:
    return [(row.state, row.attempts, row.pause > 0) for row in await world.jobs()] == [("ready", 0, True)]


def test_silent_work_is_not_renewed(tmp_path: Path) -> None:
    """Of two jobs, the one that reports keeps its lease alive; the other's is not renewed, so that others see it."""

    async def story(world: World) -> None:
        async def work(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            def beat() -> bool:
                world.clock.seconds += 0.001
                report(Progress(0.5, {}))
                return False

            await (wait_until(beat, seconds=100.0) if spec.seed == 1 else asyncio.Event().wait())
            return JobResult()

        async def renewals() -> dict[str, int]:
            return {row.key[-1]: row.renewals for row in await world.jobs("claimed")}

        async def is_renewed_often() -> bool:
            return (await renewals()).get("1", 0) >= 4

        await world.desk().enqueue([job(1), job(2)])
        async with running(runner(world, LoopLaunch(work))):
            await wait_until(is_renewed_often)
            assert (await renewals())["2"] <= 1  # its worker's first message, when it got the job

    play(tmp_path, story)
