"""The runner publishes what it does, in this process only: every job has a beginning and one end."""

import asyncio
from pathlib import Path

from ringrift.events import work
from ringrift.events.base import Event
from ringrift.jobs import Distribute, JobFilter
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.errors import JobFailed
from ringrift.work.desk import cancel
from ringrift.work.launch.ports import Progress, ReportProgress
from ringrift.work.runner import _LOST
from ringrift.work.running_job import _PUBLISH_SECONDS, RunningJob
from ringrift.workload.api import JobResult, JobSpec
from unit.work.loop_workers import LoopLaunch, LoopWorker
from unit.work.test_runner import job, runner, running, settled
from unit.work.world import World, play
from wait import wait_until


def test_a_job_is_followed_from_its_start_to_its_end(tmp_path: Path) -> None:
    """Begun, further, done: each with job, kind, variant, node, and how long it took on the runner's clock."""

    async def story(world: World) -> None:
        events: list[Event] = []

        async def deed(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            report(Progress(0.1, {}))
            world.clock.seconds += 2.0
            report(Progress(0.5, {"loss": 0.25}))
            report(Progress(0.6, {"loss": 0.25}))
            return JobResult()

        [id] = await world.desk().enqueue([job()])
        async with running(runner(world, LoopLaunch(deed), publish=events.append)):
            await settled(world, "done")

        about = {"job": id, "kind": "play", "variant": "hex8_2p", "node": "here"}
        assert events == [
            work.Started(**about, attempts=1),
            work.Progressed(**about, done=0.0, first=True),
            work.Progressed(**about, done=0.5, metrics={"loss": 0.25}),
            work.Finished(**about, seconds=2.0),
        ]

    play(tmp_path, story)


def test_progress_is_published_when_it_changes_and_not_more_often_than_once_a_second(tmp_path: Path) -> None:
    """Some of a worker's frequent reports are published; a repeated one is not."""

    async def story(world: World) -> None:
        [lease] = await world.claim(job())
        running_job = RunningJob(lease, job(), 0.0)
        published = []
        for tick, done in ((0.5, 0.1), (1.0, 0.2), (1.5, 0.3), (1.9, 0.4), (2.0, 0.4), (9.0, 0.4), (9.5, 0.5)):
            running_job.update(Progress(done, {}), tick)
            if running_job.is_worth_publishing(tick):
                published.append((tick, done))

        assert published == [(1.0, 0.2), (2.0, 0.4), (9.5, 0.5)]
        assert _PUBLISH_SECONDS == 1.0

    play(tmp_path, story)


def test_a_failure_is_published_with_the_next_state_of_the_job(tmp_path: Path) -> None:
    """A failure with a retry is marked so; the last one is not."""

    async def story(world: World) -> None:
        events: list[Event] = []

        async def deed(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            raise JobFailed("bad luck")

        retry = Backoff(first_seconds=0.001, seconds_max=0.001, tries=2)
        await world.desk().enqueue([job()])
        async with running(runner(world, LoopLaunch(deed), retry=retry, publish=events.append)):
            await wait_until(lambda: any(isinstance(event, work.Failed) for event in events))
            async with world.store.begin() as tx:
                await tx.resume([row.id for row in await tx.jobs(("ready",), 10)])
            await settled(world, "dead")

        failures = [(event.error, event.again) for event in events if isinstance(event, work.Failed)]
        assert failures == [("bad luck", True), ("bad luck", False)]

    play(tmp_path, story)


def test_a_returned_or_lost_job_has_an_end_too(tmp_path: Path) -> None:
    """A job that was cancelled under its holder, and one that its node returned, are published as ended."""

    async def story(world: World) -> None:
        events: list[Event] = []

        async def deed(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            world.clock.seconds += 0.01
            report(Progress(0.5, {}))
            await asyncio.Event().wait()
            return JobResult()

        await world.desk().enqueue([job(1), job(2)])
        async with running(runner(world, LoopLaunch(deed), publish=events.append)):
            await wait_until(lambda: sum(isinstance(event, work.Started) for event in events) == 2)
            async with world.store.begin() as tx:
                await cancel(tx, JobFilter(key=job(1).key), world.envelopes)
            await wait_until(lambda: any(isinstance(event, work.Failed) for event in events))

        failures = {event.error for event in events if isinstance(event, work.Failed) and event.again}
        assert failures == {_LOST, "node here is stopping"}

    play(tmp_path, story)


def test_jobs_of_the_node_itself_are_published_too(tmp_path: Path) -> None:
    """Moving files is work."""

    async def story(world: World) -> None:
        events: list[Event] = []
        await world.desk().enqueue([Distribute(variant="hex8_2p", model="m")])
        async with running(runner(world, LoopLaunch(), publish=events.append)):
            await settled(world, "done")

        assert [type(event) for event in events] == [work.Started, work.Finished]

    play(tmp_path, story)
