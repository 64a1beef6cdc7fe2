"""A request for a stage gets its own answer, in the same transaction as its effects."""

import asyncio
from pathlib import Path

import msgspec

from ringrift.daemons.fill import fill
from ringrift.daemons.pipeline import pipeline
from ringrift.events.pipeline import Opened, Requested
from ringrift.jobs import Train
from ringrift.kernel.settings import Policy
from ringrift.pipeline.line import Stage
from ringrift.pipeline.requests import _ANSWERS, _ANSWERS_MAX, ANSWER_SECONDS_MAX, wait_for_answer
from ringrift.work.limits import VERDICTS
from unit.pipeline.story import POLICY, VARIANT, at
from unit.work.world import World, play

OFF = msgspec.structs.replace(POLICY, auto=False)
OPENED = Opened(variant=VARIANT, workload="fake")


async def react(world: World, event: Opened | Requested, policy: Policy = OFF) -> str:
    """Let the pipeline read *event*; its id."""
    envelope = world.envelope(event)
    async with world.store.begin() as tx:
        await pipeline(event, envelope, tx, policy=policy, envelopes=world.envelopes)
    return envelope.id


def test_each_request_has_its_own_answer(tmp_path: Path) -> None:
    """Two requests for one stage in a row are answered differently, and each finds its own answer."""

    async def story(world: World) -> None:
        await react(world, OPENED)
        first = await react(world, Requested(variant=VARIANT, stage="train"))
        second = await react(world, Requested(variant=VARIANT, stage="train"))

        answers = [await wait_for_answer(world.store, id, VARIANT, world.clock) for id in (first, second)]

        assert [answer is not None and answer[0].allowed for answer in answers] == [True, False]
        assert [row.kind for row in await world.jobs("ready")] == [Train.kind()]
        assert (await world.line(VARIANT)).manual_jobs == ()

    play(tmp_path, story)


def test_a_request_that_was_not_read_has_no_answer(tmp_path: Path) -> None:
    """Waiting ends with its time."""

    async def story(world: World) -> None:
        await react(world, OPENED)
        waiting = asyncio.create_task(wait_for_answer(world.store, "never-published", VARIANT, world.clock))
        await asyncio.sleep(0)
        world.clock.seconds += ANSWER_SECONDS_MAX

        assert await waiting is None

    play(tmp_path, story)


def test_old_answers_are_dropped(tmp_path: Path) -> None:
    """Only the newest are kept, up to the limit."""

    async def story(world: World) -> None:
        await react(world, OPENED)
        ids = [await react(world, Requested(variant=VARIANT, stage="sync")) for _ in range(_ANSWERS_MAX + 3)]

        async with world.store.read() as view:
            answers = await _ANSWERS.get(view, VARIANT)

        assert answers is not None
        assert [answer.request for answer in answers] == ids[3:]

    play(tmp_path, story)


def test_without_auto_trigger_the_daemons_enqueue_nothing(tmp_path: Path) -> None:
    """An opened line is stored with its job; fill writes a verdict; neither enqueues. On, both do."""

    async def story(world: World) -> None:
        await react(world, OPENED)
        assert (await world.line(VARIANT)).stage is Stage.STARTING
        await world.keep(at(Stage.COLLECTING).line)
        for policy, jobs in ((OFF, 0), (POLICY, POLICY.play_jobs_open)):
            async with world.store.begin() as tx:
                await fill(OPENED, world.envelope(OPENED), tx, policy=policy, envelopes=world.envelopes)
            assert len(await world.jobs()) == jobs
            async with world.store.read() as view:
                verdicts = {verdict.gate: verdict for verdict in await VERDICTS.all(view, "variant", VARIANT)}
            assert verdicts["fill"].allowed is policy.auto
        assert not verdicts["automatic"].allowed

    play(tmp_path, story)
