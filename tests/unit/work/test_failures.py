"""Every failed attempt is stored with its traceback, in a bounded number of places."""

import asyncio
from pathlib import Path

from ringrift.events.work import Buried, Failed, Progressed
from ringrift.jobs import Play
from ringrift.kernel.errors import JobFailed
from ringrift.work.desk import Fault
from ringrift.work.failures import (
    _FAILURES,
    _FAILURES_MAX,
    TRACEBACK_CHARACTERS_MAX,
    JobFailure,
    failures_of,
    latest_failures,
    record_failures,
)
from ringrift.work.launch.ports import Progress, ReportProgress
from ringrift.workload.api import JobResult, JobSpec
from unit.work.loop_workers import LoopLaunch, LoopWorker
from unit.work.test_runner import job, runner, running, settled
from unit.work.world import World, play
from wait import wait_until

TRACE = 'Traceback (most recent call last):\n  File "game.py", line 7, in run\n    boom\nKeyError: 1'


def failure(job: str, attempt: int = 1, variant: str = "hex8_2p") -> JobFailure:
    """A failed attempt."""
    facts = {"kind": "play", "node": "n1", "time": float(attempt), "error": "no", "cause": "error"}
    return JobFailure(job=job, variant=variant, attempt=attempt, traceback=TRACE, **facts)


def test_failures_do_not_grow_with_history(tmp_path: Path) -> None:
    """The oldest make room: there are never more than a fixed number, and each is found by its own job alone."""

    async def story(world: World) -> None:
        for first in range(0, 2 * _FAILURES_MAX, 100):
            async with world.store.begin() as tx:
                await record_failures(tx, [failure(f"j{number}") for number in range(first, first + 100)])
        async with world.store.read() as view:
            assert len(await _FAILURES.scan(view, limit=10_000)) == _FAILURES_MAX
            assert await failures_of(view, "j0") == []
            assert [row.job for row in await failures_of(view, "j599")] == ["j599"]
            assert len(await latest_failures(view, "hex8_2p")) == len(await latest_failures(view)) == _FAILURES_MAX
            assert await latest_failures(view, "square8_2p") == []

    play(tmp_path, story)


def test_each_attempt_is_recorded_with_its_traceback(tmp_path: Path) -> None:
    """Attempt, node, cause and the end of the traceback are stored; the last is in the event that buries the job."""

    async def story(world: World) -> None:
        for number in range(3):
            [lease] = await (world.claim(Play(variant="hex8_2p", model="m", games=1)) if not number else again(world))
            long = "x" * TRACEBACK_CHARACTERS_MAX + f"\x00 {number}"
            await world.desk().fail([Fault(lease=lease, error=f"error {number}", traceback=long)])

        async with world.store.read() as view:
            rows = await failures_of(view, lease.job)
        assert [(row.attempt, row.error, row.node, row.cause) for row in rows] == [
            (number + 1, f"error {number}", "here", "error") for number in range(3)
        ]
        assert all(len(row.traceback) <= TRACEBACK_CHARACTERS_MAX for row in rows)
        assert "\x00" not in rows[-1].traceback
        [buried] = await world.events(Buried)
        assert isinstance(buried, Buried)
        assert buried.traceback == rows[-1].traceback != ""

    async def again(world: World) -> list[object]:
        async with world.store.begin() as tx:
            await tx.resume([row.id for row in await tx.jobs(("ready",), 10)])
        return list(await world.desk().claim({"play"}, 1))

    play(tmp_path, story)


def test_a_job_that_was_given_back_has_not_failed(tmp_path: Path) -> None:
    """What a node returns because it stops is no failure; what a node lacks is one, though it uses up no try."""

    async def story(world: World) -> None:
        first, second = await world.claim(job(0), job(1))
        stopped = Fault(lease=first, error="node here is stopping", started=False, cause="stopped")
        await world.desk().fail([stopped, Fault(lease=second, error="no libcuda", started=False, cause="spawn")])

        async with world.store.read() as view:
            assert [row.error for row in await latest_failures(view)] == ["no libcuda"]

    play(tmp_path, story)


def test_a_traceback_travels_with_the_event_and_the_record(tmp_path: Path) -> None:
    """The live view gets it with work.failed, at once; the record has the same."""

    async def story(world: World) -> None:
        async def fail(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            raise JobFailed("KeyError: 1", traceback=TRACE)

        events = list[object]()
        await world.desk().enqueue([job()])
        async with running(runner(world, LoopLaunch(fail), publish=events.append)):
            await settled(world, "dead")

        [event] = [event for event in events if isinstance(event, Failed)]
        assert (event.traceback, event.attempt, event.again) == (TRACE, 1, False)
        async with world.store.read() as view:
            assert [row.traceback for row in await failures_of(view, event.job)] == [TRACE]

    play(tmp_path, story)


def test_an_error_of_the_node_itself_has_a_traceback(tmp_path: Path) -> None:
    """A bug in the code that makes the outcome of a result is found by file and line, too."""

    async def story(world: World) -> None:
        def broken(*parts: object) -> None:
            raise ZeroDivisionError("in the outcome")

        await world.desk().enqueue([job()])
        async with running(runner(world, LoopLaunch(), make_outcome=broken)):
            await settled(world, "dead")

        async with world.store.read() as view:
            [row] = await latest_failures(view)
        assert Path(__file__).name in row.traceback
        assert row.traceback.endswith("ZeroDivisionError: in the outcome\n")

    play(tmp_path, story)


def test_a_job_that_was_killed_has_the_stack_it_was_killed_with(tmp_path: Path) -> None:
    """The last report of a worker is no progress, and becomes the traceback of the failure."""

    async def story(world: World) -> None:
        async def hang(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                report(Progress(0.9, {}, traceback=TRACE))
            raise AssertionError

        def has_failed() -> bool:
            world.clock.seconds += 1.0
            return any(isinstance(event, Failed) for event in events)

        events = list[object]()
        await world.desk().enqueue([job()])
        async with running(runner(world, LoopLaunch(hang), publish=events.append)):
            await wait_until(has_failed)

        event = next(event for event in events if isinstance(event, Failed))
        assert (event.cause, event.traceback) == ("silent", TRACE)
        assert not any(isinstance(event, Progressed) and event.done for event in events)

    play(tmp_path, story)
