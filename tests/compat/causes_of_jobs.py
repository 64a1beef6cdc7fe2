"""What can happen to a job, each in a real runner whose workers do what the story says."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from compat.scene import Scene
from ringrift.daemons import rescue
from ringrift.events import work
from ringrift.jobs import Distribute, Export, Job, JobFilter, Match, Play, Rate, Sync, Train
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.errors import ChildDied, JobFailed, NoRoom
from ringrift.kernel.settings import WorkSettings
from ringrift.kernel.stall_detector import StallDetector
from ringrift.work.desk import JobOutcome, cancel
from ringrift.work.launch.ports import Progress, ReportProgress
from ringrift.work.runner import Runner
from ringrift.work.worker_pool import WorkerPool
from ringrift.workload.api import JobResult, JobSpec
from unit.pipeline.story import VARIANT, result
from unit.work.loop_workers import Behaviour, LoopLaunch, LoopWorker, nothing
from unit.work.test_runner import all_here, running, settled
from wait import wait_until

AGAIN = Backoff(first_seconds=1.0, seconds_max=1.0, tries=3)
ONCE = Backoff(first_seconds=1.0, seconds_max=1.0, tries=1)
PLAY = Play(variant=VARIANT, model="m" * 64, games=10, seed=1)
EXPORT = Export(variant=VARIANT, batches=("b" * 64,))
TRAIN = Train(variant=VARIANT, generation=1, samples="s" * 64, parent="m" * 64)
MATCH = Match(variant=VARIANT, candidate="c" * 64, champion="m" * 64, first=0, count=2)
REVIEW = msgspec.structs.replace(MATCH, purpose="review")
RATE = Rate(variant=VARIANT, tally="t" * 64)
COPY_GAMES = Sync(variant=VARIANT, blob="b" * 64, kind_of="games", source="here", played=10)
COPY_MODEL = Sync(variant=VARIANT, blob="m" * 64, kind_of="model", source="here")
REPAIR = msgspec.structs.replace(COPY_GAMES, repair=True)
DISTRIBUTE = Distribute(variant=VARIANT, model="m" * 64)


def _runner(scene: Scene, launch: LoopLaunch, job: Job, retry: Backoff, **changes: Any) -> Runner:
    """A runner for jobs like *job*, with results as the workload would make them."""
    world, deadline = scene.world, changes.pop("deadline", 3600.0)
    settings = WorkSettings(slots=1, lease_seconds=0.2, grace_seconds=0.0, deadline_seconds=deadline)

    async def move(job: Job, on_progress: Callable[[], None]) -> JobOutcome:
        on_progress()
        return _outcome(job)

    parts = {"fetch_inputs": all_here, "run_on_node": move, "make_outcome": lambda job, *_: _outcome(job)} | changes
    desk, pool = world.desk(retry=retry), WorkerPool(launch, settings)
    return Runner(
        "here", desk, pool, world.clock, settings, {job.kind()}, wait=lambda seconds: asyncio.sleep(0),
        publish=scene.publish_memory, **parts,
    )  # fmt: skip


def _outcome(job: Job) -> JobOutcome:
    return JobOutcome() if isinstance(job, Rate) else JobOutcome(events=(result(job),))


async def _do(
    scene: Scene, job: Job, deed: Behaviour = nothing, state: str = "done", *, retry: Backoff = AGAIN, **changes: Any
) -> None:
    """Let a runner do *job* by *deed*, until the job is in *state*."""
    await scene.listen()
    await scene.world.desk().enqueue([job])
    async with running(_runner(scene, changes.pop("launch", None) or LoopLaunch(deed), job, retry, **changes)):
        if state != "failed":
            await settled(scene.world, state)
        if state in ("failed", "done"):  # which comes after the store has it
            end = work.Failed if state == "failed" else work.Finished
            await wait_until(lambda: end in scene.memory_events)


def _raising(error: Exception) -> Behaviour:
    async def deed(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
        raise error

    return deed


def _reporting(scene: Scene, *reports: Progress) -> Behaviour:
    async def deed(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
        for progress in reports:
            scene.world.clock.seconds += 2.0
            report(progress)
        return JobResult()

    return deed


async def _never(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
    await asyncio.Event().wait()
    return JobResult()


async def _stuck(*args: object) -> Any:
    await asyncio.Event().wait()


def _silent(scene: Scene) -> Behaviour:
    async def deed(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
        scene.world.clock.seconds += 60.0
        return await _never(worker, spec, report)

    return deed


class _NoWorkers(LoopLaunch):
    """No worker can be started."""

    async def start(self, workload: str) -> LoopWorker:
        raise ChildDied("no such program")


# -- jobs that are done ------------------------------------------------------------------------------------------------


async def a_batch_is_played(scene: Scene) -> None:
    """A node plays a batch of games."""
    await _do(scene, PLAY)


async def an_export_is_done(scene: Scene) -> None:
    """A node exports samples."""
    await _do(scene, EXPORT)


async def a_model_is_copied(scene: Scene) -> None:
    """A node copies a model."""
    await _do(scene, COPY_MODEL)


async def games_are_copied(scene: Scene) -> None:
    """A node copies a batch of games."""
    await _do(scene, COPY_GAMES)


async def a_model_is_brought_to_all(scene: Scene) -> None:
    """A node distributes a model."""
    await _do(scene, DISTRIBUTE)


async def a_training_reports_its_loss(scene: Scene) -> None:
    """A node trains, and the loss falls."""
    await _do(scene, TRAIN, _reporting(scene, Progress(0.2, {"loss": 0.9}), Progress(0.6, {"loss": 0.5})))


async def a_training_reports_no_loss(scene: Scene) -> None:
    """A node trains, and reports how far it is."""
    await _do(scene, TRAIN, _reporting(scene, Progress(0.2, {}), Progress(0.6, {})))


async def blocks_of_a_test_are_played(scene: Scene) -> None:
    """A node plays blocks of a candidate's match."""
    await _do(scene, MATCH, _reporting(scene, Progress(0.5, {})))


async def blocks_of_a_review_are_played(scene: Scene) -> None:
    """A node plays blocks of a champion's review."""
    await _do(scene, REVIEW, _reporting(scene, Progress(0.5, {})))


async def _until_registered(scene: Scene) -> None:
    async def deed(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
        scene.world.clock.seconds += 0.01
        report(Progress(0.5, {}, checkpoint="c" * 64))
        return await _never(worker, spec, report)

    runs = _runner(scene, LoopLaunch(deed), PLAY, AGAIN)
    async with running(runs):
        await wait_until(lambda: any(job.registered for job in runs._jobs.values()))


async def a_checkpoint_is_registered(scene: Scene) -> None:
    """Another node could go on from here."""
    await scene.listen()
    await scene.world.desk().enqueue([PLAY])
    await _until_registered(scene)


async def a_job_is_resumed(scene: Scene) -> None:
    """A job goes on from the checkpoint of a holder that stopped."""
    await scene.world.desk().enqueue([PLAY])
    await _until_registered(scene)
    await scene.listen()
    async with running(_runner(scene, LoopLaunch(), PLAY, AGAIN)):
        await settled(scene.world, "done")


# -- jobs that are not done --------------------------------------------------------------------------------------------


async def a_job_fails(scene: Scene) -> None:
    """The workload reports an error; the job is tried again later."""
    await _do(scene, PLAY, _raising(JobFailed("no")), "failed")


async def a_job_fails_for_good(scene: Scene) -> None:
    """The last attempt fails."""
    await _do(scene, PLAY, _raising(JobFailed("no")), "dead", retry=ONCE)


async def a_job_passes_its_deadline(scene: Scene) -> None:
    """The job takes too long."""
    await _do(scene, PLAY, _never, "failed", deadline=0.5)


async def no_worker_starts(scene: Scene) -> None:
    """The program of the workload cannot be started."""
    await _do(scene, PLAY, state="failed", launch=_NoWorkers())


async def a_worker_dies(scene: Scene) -> None:
    """The process of a job ends."""
    await _do(scene, PLAY, _raising(ChildDied("exit 9")), "failed")


async def games_find_no_room(scene: Scene) -> None:
    """The disk is full, so the games of a batch cannot be saved."""
    await _do(scene, PLAY, _raising(NoRoom("/data")), "failed")


async def a_node_stops_under_a_job(scene: Scene) -> None:
    """A running job is given back because its node stops."""
    await scene.listen()
    await scene.world.desk().enqueue([PLAY])
    begun = asyncio.Event()

    async def deed(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
        begun.set()
        return await _never(worker, spec, report)

    async with running(_runner(scene, LoopLaunch(deed), PLAY, AGAIN)):
        await begun.wait()


async def a_training_fails(scene: Scene) -> None:
    """The workload reports an error of training."""
    await _do(scene, TRAIN, _raising(JobFailed("nan")), "failed")


async def a_training_passes_its_deadline(scene: Scene) -> None:
    """Training takes too long, and its process is killed."""
    await _do(scene, TRAIN, _never, "failed", deadline=0.5)


async def a_training_falls_silent(scene: Scene) -> None:
    """Training makes no progress, and its process is killed."""
    await _do(scene, TRAIN, _silent(scene), "failed")


async def a_match_fails(scene: Scene) -> None:
    """Blocks of a candidate's match cannot be played."""
    await _do(scene, MATCH, _raising(JobFailed("no")), "failed")


async def an_export_fails(scene: Scene) -> None:
    """A node cannot export samples."""
    await _do(scene, EXPORT, _raising(JobFailed("no")), "failed")


async def a_review_match_fails(scene: Scene) -> None:
    """Blocks of a review cannot be played."""
    await _do(scene, REVIEW, _raising(JobFailed("no")), "failed")


async def a_rating_fails(scene: Scene) -> None:
    """The ratings of a line cannot be computed."""
    await _do(scene, RATE, _raising(JobFailed("no")), "failed")


async def _refuse(*args: object) -> Any:
    raise JobFailed("no route")


async def games_cannot_be_copied(scene: Scene) -> None:
    """An attempt to copy a batch fails."""
    await _do(scene, COPY_GAMES, state="failed", run_on_node=_refuse)


async def a_model_cannot_be_copied(scene: Scene) -> None:
    """An attempt to copy a model fails."""
    await _do(scene, COPY_MODEL, state="failed", run_on_node=_refuse)


async def a_copy_stands_still(scene: Scene) -> None:
    """A transfer makes no progress."""
    await _do(scene, COPY_GAMES, state="failed", run_on_node=_stuck, deadline=0.5)


async def a_copy_is_given_up(scene: Scene) -> None:
    """The last attempt to copy a batch fails."""
    await _do(scene, COPY_GAMES, state="dead", run_on_node=_refuse, retry=ONCE)


async def a_repair_is_given_up(scene: Scene) -> None:
    """The last attempt to bring a blob to enough nodes fails."""
    await _do(scene, REPAIR, state="dead", run_on_node=_refuse, retry=ONCE)


async def a_distribution_fails(scene: Scene) -> None:
    """An attempt to distribute a model fails."""
    await _do(scene, DISTRIBUTE, state="failed", run_on_node=_refuse)


async def jobs_are_cancelled(scene: Scene) -> None:
    """Jobs that wait are not needed any more."""
    await scene.world.desk().enqueue([MATCH])
    await scene.listen()
    async with scene.world.store.begin() as tx:
        await cancel(tx, JobFilter(variant=VARIANT), scene.world.envelopes)


async def a_live_job_is_enqueued_again(scene: Scene) -> None:
    """A job that is under way is asked for once more."""
    await scene.world.desk().enqueue([MATCH])
    await scene.listen()
    await scene.world.desk().enqueue([MATCH])


async def a_lease_expires(scene: Scene) -> None:
    """The holder of a job is gone."""
    world = scene.world
    await world.claim(PLAY, node="gone")
    roles, memory = await world.roles(), StallDetector()
    await scene.listen()
    for seconds in (0.0, 31.0):
        world.clock.seconds += seconds
        await roles.elect()
        await rescue.rescue(
            store=world.store, desk=world.desk(), envelopes=world.envelopes, roles=roles, clock=world.clock,
            memory=memory,
        )  # fmt: skip
