"""A failure that no job can cause is the node's: jobs are given back, the node rests, and its health is told."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ringrift.events.work import Buried
from ringrift.jobs import Play
from ringrift.kernel.errors import ChildDied, JobFailed, NodeAway, NoRoom
from ringrift.kernel.settings import BreakerSettings
from ringrift.store.ports import JobRow
from ringrift.work import breakers
from ringrift.work.breakers import BREAKERS, JobEnd, StoredBreaker, _settle
from ringrift.work.launch.ports import ReportProgress
from ringrift.work.limits import VERDICTS
from ringrift.workload.api import JobResult, JobSpec
from unit.work.busy_desk import BusyDesk
from unit.work.loop_workers import LoopLaunch, LoopWorker
from unit.work.test_runner import SETTINGS, job, runner, running, settled
from unit.work.world import World, play
from wait import wait_until

REASON = "the worker ended with exit 1\n  libcuda.so: cannot open shared object file"


class BrokenLaunch(LoopLaunch):
    """A machine on which no worker starts."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error, self.starts = error, 0

    async def start(self, workload: str) -> LoopWorker:
        self.starts += 1
        raise self._error


class DeafWorker(LoopWorker):
    """A worker that dies before it has sent a message about its job."""

    async def run(self, spec: JobSpec, resume: str | None, report: ReportProgress) -> JobResult:
        raise ChildDied(REASON)


class DeafLaunch(LoopLaunch):
    """A machine whose workers start, and die when they get a job."""

    async def start(self, workload: str) -> LoopWorker:
        self.workers.append(DeafWorker(self._behaviour))
        return self.workers[-1]


async def breaker_of(world: World, node: str) -> StoredBreaker:
    """The stored breaker of *node*, once it is not closed."""

    async def is_open() -> bool:
        async with world.store.read() as view:
            return any(row.is_open() for row in await BREAKERS.all(view))

    await wait_until(is_open)
    async with world.store.read() as view:
        row = await BREAKERS.get(view, f"node:{node}")
    assert row is not None
    return row


@pytest.mark.parametrize("error", [ChildDied(REASON), OSError(24, REASON)], ids=["dies", "cannot be forked"])
def test_a_node_that_cannot_start_workers_buries_no_jobs(tmp_path: Path, error: Exception) -> None:
    """Sixty jobs beside a healthy node are all done there at their first try, and the bad node says why it rests."""

    async def story(world: World) -> None:
        await world.beat("here")
        await world.beat("n2")
        await world.desk().enqueue([job(seed) for seed in range(60)])
        launch = BrokenLaunch(error)
        async with running(runner(world, launch, node="n2")):
            bad = await breaker_of(world, "n2")
            async with running(runner(world, LoopLaunch())):
                rows = await settled(world, "done")

        assert {(row.state, row.attempts) for row in rows} == {("done", 1)}
        assert await world.events(Buried) == []
        assert launch.starts <= SETTINGS.slots
        assert bad.node_fault().startswith("node n2 cannot start workers: ")
        assert "libcuda.so" in bad.node_fault()
        assert bad.failing_since == world.clock.now()

    play(tmp_path, story)


def test_why_a_job_waits_names_the_node_that_cannot_start_workers(tmp_path: Path) -> None:
    """The refusal is a stored verdict, which tells since when that is so."""

    async def rules(world: World) -> list[str]:
        async with world.store.read() as view:
            return [verdict.rule for verdict in (await VERDICTS.scan(view)).values()]

    async def story(world: World) -> None:
        await world.desk().enqueue([job()])
        async with running(runner(world, BrokenLaunch(ChildDied("no gpu")))):

            async def is_told() -> bool:
                return await rules(world) == ["node here cannot start workers: no gpu"]

            await wait_until(is_told)

    play(tmp_path, story)


def test_a_worker_that_dies_before_its_first_message_costs_no_try(tmp_path: Path) -> None:
    """It has not seen the job; the death of one that has is the job's own failure."""

    async def story(world: World) -> None:
        async def die(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            raise ChildDied(REASON)

        await world.desk().enqueue([job()])
        async with running(runner(world, DeafLaunch())):
            assert (await breaker_of(world, "here")).cause == "spawn"
        assert [(row.state, row.attempts) for row in await world.jobs()] == [("ready", 0)]

        async with world.store.begin() as tx:
            await BREAKERS.delete(tx, ["node:here"])
        async with running(runner(world, LoopLaunch(die))):
            [row] = await settled(world, "dead")
        assert row.attempts == 1

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NoRoom("/blobs"), "node here has no room: no room left at /blobs"),
        (NodeAway("here", "/blobs: not mounted"), "node here cannot reach its files: node here cannot be reached"),
    ],
    ids=["full", "unmounted"],
)
def test_a_disk_that_fails_every_job_is_the_nodes_failure(tmp_path: Path, error: Exception, words: str) -> None:
    """Jobs on a node without room or without its disk are given back, and the node rests."""

    async def story(world: World) -> None:
        async def fail(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            raise error

        await world.desk().enqueue([job(seed) for seed in range(5)])
        async with running(runner(world, LoopLaunch(fail))):
            assert (await breaker_of(world, "here")).node_fault().startswith(words)
        assert {(row.state, row.attempts) for row in await world.jobs()} == {("ready", 0)}

    play(tmp_path, story)


def test_a_job_that_fails_on_one_node_is_done_on_another(tmp_path: Path) -> None:
    """A node whose workload fails after its start uses up its own tries at a job, and nobody else's."""

    async def story(world: World) -> None:
        async def fail(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            raise JobFailed("RuntimeError: CUDA error")

        async def is_left_to_others() -> bool:
            return [(row.state, row.attempts) for row in await world.jobs()] == [("ready", 1)] and not any(
                row.pause for row in await world.jobs()
            )

        await world.beat("here")
        await world.beat("n2")
        await world.desk().enqueue([job()])
        async with running(runner(world, LoopLaunch(fail), node="n2")):
            await wait_until(is_left_to_others)
            async with running(runner(world, LoopLaunch())):
                [row] = await settled(world, "done")
        assert row.attempts == 2

    play(tmp_path, story)


def test_the_pauses_of_a_bad_node_grow_until_a_job_succeeds() -> None:
    """One second, two, four, up to the longest; one success, and the next failure begins anew."""
    limits, row = BreakerSettings(reset_seconds=60.0), StoredBreaker(subject="node:n1")
    fault, success = _end("spawn"), _end("spawn", error=None)

    pauses = []
    for _ in range(8):
        row = _settle(row, fault, limits, False)
        pauses.append(row.seconds)
        assert _settle(row, fault, limits, False).seconds == row.seconds  # one that ran beside it
        [row] = breakers.rest([row], {f"breaker:{row.subject}"}, [])
        row = msgspec.structs.replace(row, trials=("j",), tries=1)

    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert _settle(_settle(row, success, limits, False), fault, limits, False).seconds == 1.0


def _end(cause: str, **changes: Any) -> JobEnd:
    facts = {"job": "j", "kind": Play.kind(), "node": "n1", "error": "no gpu", "cause": cause} | changes
    return JobEnd(**facts)


def test_a_claim_that_is_cut_off_leaves_nothing_claimed(tmp_path: Path) -> None:
    """A node that is stopped while its claim is being written gives back what it got and never began."""

    async def story(world: World) -> None:
        desk = BusyDesk(world)
        desk.is_cut_off = True
        await desk.enqueue([job()])
        task = asyncio.create_task(runner(world, LoopLaunch(), desk=desk).run(lambda: None))
        await desk.claimed.wait()
        assert [row.state for row in await world.jobs()] == ["claimed"]
        task.cancel()
        await asyncio.wait([task])

        assert [_lease_of(row) for row in await world.jobs()] == [("ready", None, 0)]

    play(tmp_path, story)


def _lease_of(row: JobRow) -> tuple[str, str | None, int]:
    return row.state, row.holder, row.attempts
