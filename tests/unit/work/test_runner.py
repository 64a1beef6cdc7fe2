"""The runner does jobs under their leases, and every failure ends a lease and not the node."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from ringrift.blobs.folder import FolderBlobs
from ringrift.daemons.work import work
from ringrift.events.node import Left
from ringrift.events.work import Buried
from ringrift.jobs import Distribute, Job, JobFilter, Play
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.errors import JobFailed, NodeAway
from ringrift.kernel.settings import WorkSettings
from ringrift.store.ports import JobRequest, JobRow
from ringrift.sync.transfer import Transfer
from ringrift.work.checkpoints import Checkpoint
from ringrift.work.desk import Fault, JobOutcome, cancel
from ringrift.work.launch.ports import Progress, ReportProgress
from ringrift.work.limits import LineWork
from ringrift.work.runner import OnProgress, Runner
from ringrift.work.running_job import RunningJob, last_checkpoint
from ringrift.work.worker_pool import WorkerPool
from ringrift.workload.api import JobResult, JobSpec
from unit.work.loop_workers import LoopLaunch, LoopWorker
from unit.work.world import LEASE_SECONDS, World, play
from wait import wait_until

ONCE = Backoff(first_seconds=1.0, seconds_max=1.0, tries=1)
SETTINGS = WorkSettings(slots=2, lease_seconds=0.2, grace_seconds=0.0)


def job(seed: int = 0) -> Play:
    """A batch of games to play."""
    return Play(variant="hex8_2p", model="m", games=10, seed=seed)


async def all_here(blobs: Sequence[str], checkpoint: Checkpoint | None, on_progress: OnProgress) -> None:
    """Everything is here already."""


async def moved_at_once(job: Job, on_progress: OnProgress) -> JobOutcome:
    """Moves files in no time."""
    on_progress()
    return JobOutcome(events=(Left(node="moved"),))


def runner(world: World, launch: LoopLaunch, settings: WorkSettings = SETTINGS, **changes: Any) -> Runner:
    """Return a runner for play and distribute that polls for work all the time; by default of the node *here*."""
    parts = {
        "fetch_inputs": all_here,
        "run_on_node": moved_at_once,
        "make_outcome": lambda job, result, line: JobOutcome(),
        "wait": _soon,
        "publish": world.router.publish_memory,
    } | changes
    retry, node = parts.pop("retry", ONCE), parts.pop("node", "here")
    desk, pool = parts.pop("desk", None) or world.desk(node, retry=retry), WorkerPool(launch, settings)
    return Runner(node, desk, pool, world.clock, settings, {"play", "distribute"}, **parts)


async def _soon(seconds: float) -> None:
    await asyncio.sleep(0)


async def _is_paused(world: World) -> bool:
    return any(row.pause for row in await world.jobs("ready"))


@asynccontextmanager
async def running(runner: Runner) -> AsyncIterator["asyncio.Task[None]"]:
    """Let *runner* run while the body runs, which begins after its first poll for work."""
    alive = asyncio.Event()
    task = asyncio.create_task(work(runner=runner, alive=alive.set))
    await asyncio.wait([task, asyncio.ensure_future(alive.wait())], return_when=asyncio.FIRST_COMPLETED)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def settled(world: World, *states: str) -> Sequence[JobRow]:
    """All jobs, once each of them is in one of *states*."""

    async def all_are() -> bool:
        return {row.state for row in await world.jobs()} <= set(states)

    await wait_until(all_are, seconds=100.0)
    return await world.jobs()


def test_jobs_are_done_and_published(tmp_path: Path) -> None:
    """A workload's job goes to a worker, a node's own is done here, and their results are published."""

    async def story(world: World) -> None:
        launch = LoopLaunch()
        runs = runner(world, launch, make_outcome=lambda job, result, line: JobOutcome(events=(Left(node="played"),)))
        await world.desk().enqueue([job(), Distribute(variant="hex8_2p", model="m")])

        async with running(runs):
            await settled(world, "done")

        assert {event.node for event in await world.events(Left)} == {"played", "moved"}
        [spec] = launch.workers[0].specs
        assert (spec.stage, spec.params) == ("play", {"games": 10})

    play(tmp_path, story)


def test_a_failure_ends_the_lease_with_its_reason(tmp_path: Path) -> None:
    """A workload's error, an unexpected one and an unpublishable result bury their jobs; the runner goes on."""

    async def story(world: World) -> None:
        async def deed(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            match spec.seed:
                case 1:
                    raise JobFailed("the batch is bad", retry=False, blob="b")
                case 2:
                    raise ZeroDivisionError("by chance")
            return JobResult()

        def make_outcome(job: Job, result: JobResult, line: LineWork) -> JobOutcome:
            return JobOutcome(events=(Left(node="\ud800" if job.seed == 3 else "fine"),))

        await world.desk().enqueue([job(seed) for seed in (1, 2, 3, 4)])
        async with running(runner(world, LoopLaunch(deed), make_outcome=make_outcome)):
            rows = await settled(world, "done", "dead")

        assert [row.state for row in rows] == ["dead", "dead", "dead", "done"]
        failures = {event.key[-1]: (event.error, event.blob) for event in await world.events(Buried)}
        assert failures["1"] == ("the batch is bad", "b")
        assert failures["2"] == ("ZeroDivisionError: by chance", None)
        assert "lone surrogate" in failures["3"][0]
        assert await world.events(Left) == [Left(node="fine")]

    play(tmp_path, story)


def test_a_job_past_its_deadline_is_killed(tmp_path: Path) -> None:
    """A job that takes longer than any may is ended, and so is its worker."""

    async def story(world: World) -> None:
        async def deed(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            await asyncio.Event().wait()
            return JobResult()

        launch = LoopLaunch(deed)
        settings = msgspec.structs.replace(SETTINGS, deadline_seconds=1.0)
        await world.desk().enqueue([job()])
        async with running(runner(world, launch, settings, wait=asyncio.sleep)):
            [row] = await settled(world, "dead")

        assert row.error == "not done within the deadline of 1 s"
        assert launch.workers[0].ended == 0.0

    play(tmp_path, story, simulated=True)


def test_a_silent_job_is_killed_before_its_lease_is_over(tmp_path: Path) -> None:
    """After two thirds of its lease without a heartbeat a job is returned by its holder, and the attempt counts."""

    async def story(world: World) -> None:
        begun = asyncio.Event()

        async def deed(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            begun.set()
            await asyncio.Event().wait()
            return JobResult()

        await world.desk().enqueue([job()])
        async with running(runner(world, LoopLaunch(deed))):
            await begun.wait()
            world.clock.seconds += 0.67 * LEASE_SECONDS
            [row] = await settled(world, "dead")

        assert (row.error, row.attempts) == ("no progress reported", 1)

    play(tmp_path, story)


def test_a_longer_lease_lets_a_job_be_silent_for_longer(tmp_path: Path) -> None:
    """The length of its own lease counts, not the least length that settings give: this one has 30 s and not 0.2."""

    async def story(world: World) -> None:
        begun, silent, released = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def deed(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            if spec.seed == 1:  # a job beside it, whose renewal shows that the runner has looked at both
                await silent.wait()
                report(Progress(0.5, {}))
            else:
                begun.set()
            await released.wait()
            return JobResult()

        async def is_renewed() -> bool:
            return any(row.renewals for row in await world.jobs("claimed"))

        await world.desk().enqueue([job(), job(1)])
        async with running(runner(world, LoopLaunch(deed))):
            await begun.wait()
            world.clock.seconds += 0.5 * LEASE_SECONDS
            silent.set()
            await wait_until(is_renewed, seconds=100.0)
            released.set()
            rows = await settled(world, "done")

        assert [row.attempts for row in rows] == [1, 1]

    play(tmp_path, story)


def test_a_job_that_reports_progress_is_renewed_with_its_checkpoint(tmp_path: Path) -> None:
    """Reports keep the lease alive, and the last checkpoint is there for the next holder."""

    async def story(world: World) -> None:
        async def deed(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            report(Progress(0.5, {}, checkpoint="c"))
            world.clock.seconds += 0.01
            report(Progress(7.0, {}))
            await asyncio.Event().wait()
            return JobResult()

        async def renewed() -> bool:
            return any(row.renewals for row in await world.jobs())

        await world.desk().enqueue([job()])
        async with running(runner(world, LoopLaunch(deed), retry=Backoff(first_seconds=1, seconds_max=1, tries=9))):
            await wait_until(renewed)
            [row] = await world.jobs()

        assert (row.state, row.progress) == ("claimed", 1.0)
        [lease] = await world.desk("there").claim({"play"}, 1)
        assert last_checkpoint(lease) == Checkpoint(blob="c", node="here")
        assert lease.attempts == 1  # the node only stopped, so its try does not count

    play(tmp_path, story)


def test_a_job_goes_on_from_where_another_left_off(tmp_path: Path) -> None:
    """The checkpoint that comes with a lease is staged and handed to the worker."""

    async def story(world: World) -> None:
        [lease] = await world.claim(job(), node="there")
        earlier = RunningJob(lease, job(), 0.0)
        earlier.update(Progress(0.5, {}, checkpoint="c"), 1.0)
        async with world.store.begin() as tx:
            await tx.renew([earlier.renewal("there")])
        await world.desk("there").fail([Fault(lease=lease, error="gone", started=False)])
        calls: list[tuple[Sequence[str], Checkpoint | None]] = []

        async def fetch_inputs(blobs: Sequence[str], checkpoint: Checkpoint | None, on_progress: OnProgress) -> None:
            calls.append((blobs, checkpoint))

        launch = LoopLaunch()
        async with running(runner(world, launch, fetch_inputs=fetch_inputs)):
            await settled(world, "done")

        assert calls == [(("m",), Checkpoint(blob="c", node="there"))]
        assert launch.workers[0].resumed == ["c"]

    play(tmp_path, story)


def test_a_lease_that_was_lost_is_left_alone(tmp_path: Path) -> None:
    """A holder that another has replaced kills its work, publishes nothing and uses up no attempt."""

    async def story(world: World) -> None:
        begun = asyncio.Event()

        async def deed(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            world.clock.seconds += 0.01
            report(Progress(0.5, {}))
            begun.set()
            await asyncio.Event().wait()
            return JobResult()

        launch = LoopLaunch(deed)
        await world.desk().enqueue([job()])
        async with running(runner(world, launch)):
            await begun.wait()
            async with world.store.begin() as tx:
                await cancel(tx, JobFilter(variant="hex8_2p"), world.envelopes)
            await wait_until(lambda: launch.workers[0].ended is not None)

        [row] = await world.jobs()
        assert (row.state, row.attempts) == ("cancelled", 1)
        assert await world.events(Buried, Left) == []

    play(tmp_path, story)


def test_a_runner_that_starts_again_works_as_before(tmp_path: Path) -> None:
    """After a stop, or a failure and a restart by its supervisor, jobs get no early stop, and silence counts."""

    async def story(world: World) -> None:
        begun = asyncio.Event()

        async def deed(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            begun.set()
            await asyncio.Event().wait()
            return JobResult()

        launch = LoopLaunch(deed)
        runs = runner(world, launch)
        async with running(runs):
            pass
        await world.desk().enqueue([job()])
        async with running(runs):
            await begun.wait()
            assert not launch.workers[0].stop.is_set()
            world.clock.seconds += 0.67 * LEASE_SECONDS
            [row] = await settled(world, "dead")

        assert row.error == "no progress reported"

    play(tmp_path, story)


def test_an_unreadable_job_is_buried_and_the_others_are_done(tmp_path: Path) -> None:
    """A body that is no job of ours ends its own lease; it neither stops the runner nor comes back for ever."""

    async def story(world: World) -> None:
        poison = JobRequest(
            id="p", kind="play", variant="hex8_2p", key="play:poison", body=b'{"type":"play"}', priority=99
        )
        async with world.store.begin() as tx:
            await tx.enqueue([poison])
        await world.desk().enqueue([job()])

        async def over() -> bool:
            return task.done() or {row.state for row in await world.jobs()} <= {"done", "dead"}

        async with running(runner(world, LoopLaunch())) as task:
            await wait_until(over)
            assert not task.done(), task.exception()

        assert [(row.id == "p", row.state) for row in await world.jobs()] == [(True, "dead"), (False, "done")]

    play(tmp_path, story)


def test_a_failure_after_a_stop_request_costs_no_attempt(tmp_path: Path) -> None:
    """A job that cannot end well while its node leaves is returned unchanged."""

    async def story(world: World) -> None:
        begun = asyncio.Event()

        async def deed(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            begun.set()
            await worker.stop.wait()
            raise JobFailed("stopped halfway")

        settings = msgspec.structs.replace(SETTINGS, grace_seconds=5.0)
        await world.desk().enqueue([job()])
        async with running(runner(world, LoopLaunch(deed), settings)):
            await begun.wait()

        [row] = await world.jobs()
        assert (row.state, row.attempts, row.error) == ("ready", 0, "stopped halfway")

    play(tmp_path, story)


def test_a_blob_of_an_unreachable_holder_is_not_called_bad(tmp_path: Path) -> None:
    """The holder may still have it: a job that cannot start for that reason waits, and nothing is given up."""

    async def story(world: World) -> None:
        async def reach(node: str) -> FolderBlobs:
            raise NodeAway(node)

        model = "a" * 64
        await world.hold(model, "far")
        transfer = Transfer(
            "here", world.store, FolderBlobs(tmp_path / "blobs"), reach, world.envelopes, clock=world.clock
        )

        async def fetch_inputs(blobs: Sequence[str], checkpoint: Checkpoint | None, on_progress: OnProgress) -> None:
            await transfer.fetch(blobs)

        await world.desk().enqueue([msgspec.structs.replace(job(), model=model)])
        async with running(runner(world, LoopLaunch(), fetch_inputs=fetch_inputs)):
            await wait_until(lambda: _is_paused(world))

        assert [(row.state, row.attempts) for row in await world.jobs()] == [("ready", 0)]
        assert await world.events(Buried) == []
        assert await world.holders(model) == ["far"]

    play(tmp_path, story)
