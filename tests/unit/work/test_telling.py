"""The runner tells what it does, to whoever listens in this process: every job has a beginning and one end."""

import asyncio
from pathlib import Path

from ringrift.events import work
from ringrift.events.base import Event
from ringrift.jobs import Distribute
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.errors import JobFailed
from ringrift.work.launch.ports import Report, Word
from ringrift.work.runner import TELL_SECONDS, Task
from ringrift.workload.api import JobResult, JobSpec
from unit.work.hands import LoopLaunch, LoopWorker
from unit.work.test_runner import job, runner, running, settled
from unit.work.world import World, play
from waiting import wait_until


def test_a_job_is_told_from_its_start_to_its_end(tmp_path: Path) -> None:
    """Begun, further, done: each with job, kind, variant, node, and how long it took on the runner's clock."""

    async def story(world: World) -> None:
        told: list[Event] = []

        async def deed(worker: LoopWorker, spec: JobSpec, report: Report) -> JobResult:
            report(Word(0.1, {}))
            world.clock.seconds += 2.0
            report(Word(0.5, {"loss": 0.25}))
            report(Word(0.6, {"loss": 0.25}))
            return JobResult()

        [id] = await world.desk().ask([job()])
        async with running(runner(world, LoopLaunch(deed), tell=told.append)):
            await settled(world, "done")

        about = {"job": id, "kind": "play", "variant": "hex8_2p", "node": "here"}
        assert told == [
            work.Started(**about, attempts=1),
            work.Progressed(**about, done=0.5, metrics={"loss": 0.25}),
            work.Finished(**about, seconds=2.0),
        ]

    play(tmp_path, story)


def test_progress_is_told_when_it_changes_and_not_more_often_than_once_a_second(tmp_path: Path) -> None:
    """A worker that reports all the time is told in steps; one that says the same again is not told."""

    async def story(world: World) -> None:
        [lease] = await world.claim(job())
        task = Task(lease, job(), 0.0)
        said = []
        for tick, done in ((0.5, 0.1), (1.0, 0.2), (1.5, 0.3), (1.9, 0.4), (2.0, 0.4), (9.0, 0.4), (9.5, 0.5)):
            task.hear(Word(done, {}), tick)
            if task.is_further(tick):
                said.append((tick, done))

        assert said == [(1.0, 0.2), (2.0, 0.4), (9.5, 0.5)]
        assert TELL_SECONDS == 1.0

    play(tmp_path, story)


def test_a_failure_is_told_with_what_becomes_of_the_job(tmp_path: Path) -> None:
    """One that is tried again says so; the last one does not."""

    async def story(world: World) -> None:
        told: list[Event] = []

        async def deed(worker: LoopWorker, spec: JobSpec, report: Report) -> JobResult:
            raise JobFailed("bad luck")

        retry = Backoff(first_seconds=0.001, seconds_max=0.001, tries=2)
        await world.desk().ask([job()])
        async with running(runner(world, LoopLaunch(deed), retry=retry, tell=told.append)):
            await wait_until(lambda: any(isinstance(event, work.Failed) for event in told))
            async with world.store.begin() as tx:
                await tx.resume([row.id for row in await tx.jobs(("ready",), 10)])
            await settled(world, "dead")

        failures = [(event.error, event.again) for event in told if isinstance(event, work.Failed)]
        assert failures == [("bad luck", True), ("bad luck", False)]

    play(tmp_path, story)


def test_what_is_given_back_or_lost_has_an_end_too(tmp_path: Path) -> None:
    """A job that was cancelled under its holder, and one that its node gave back, are told as ended."""

    async def story(world: World) -> None:
        told: list[Event] = []

        async def deed(worker: LoopWorker, spec: JobSpec, report: Report) -> JobResult:
            world.clock.seconds += 0.01
            report(Word(0.5, {}))
            await asyncio.Event().wait()
            return JobResult()

        await world.desk().ask([job(1), job(2)])
        async with running(runner(world, LoopLaunch(deed), tell=told.append)):
            await wait_until(lambda: sum(isinstance(event, work.Started) for event in told) == 2)
            async with world.store.begin() as tx:
                await tx.cancel(job(1).key)
            await wait_until(lambda: any(isinstance(event, work.Failed) for event in told))

        failures = {event.error for event in told if isinstance(event, work.Failed) and event.again}
        assert failures == {"somebody else holds it now", "node here is stopping"}

    play(tmp_path, story)


def test_what_a_node_does_itself_is_told_alike(tmp_path: Path) -> None:
    """Moving files is work."""

    async def story(world: World) -> None:
        told: list[Event] = []
        await world.desk().ask([Distribute(variant="hex8_2p", model="m")])
        async with running(runner(world, LoopLaunch(), tell=told.append)):
            await settled(world, "done")

        assert [type(event) for event in told] == [work.Started, work.Finished]

    play(tmp_path, story)
