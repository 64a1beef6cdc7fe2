"""Who asks for a stage gets the answer to that very request, in the same transaction as what follows from it."""

import asyncio
from pathlib import Path

import msgspec

from ringrift.daemons.fill import fill
from ringrift.daemons.pipeline import pipeline
from ringrift.events.pipeline import Opened, Requested
from ringrift.jobs import Train
from ringrift.kernel.settings import Policy
from ringrift.pipeline.asking import ANSWER_SECONDS_MAX, ANSWERS_MAX, answer, answers_of
from ringrift.pipeline.line import Stage
from ringrift.pipeline.records import verdicts_of
from unit.pipeline.story import POLICY, VARIANT, at
from unit.work.world import World, play

OFF = msgspec.structs.replace(POLICY, auto=False)
OPENED = Opened(variant=VARIANT, workload="fake")


async def react(world: World, event: Opened | Requested, policy: Policy = OFF) -> str:
    """Let the pipeline read *event*; its id."""
    envelope = world.envelope(event)
    async with world.store.begin() as tx:
        await pipeline(event, envelope, tx, policy=policy, ids=world.ids, scribe=world.scribe)
    return envelope.id


def test_each_request_has_its_own_answer(tmp_path: Path) -> None:
    """Two requests for one stage in a row are answered differently, and each finds its own answer."""

    async def story(world: World) -> None:
        await react(world, OPENED)
        first = await react(world, Requested(variant=VARIANT, stage="train"))
        second = await react(world, Requested(variant=VARIANT, stage="train"))

        told = [await answer(world.store, id, VARIANT, world.clock) for id in (first, second)]

        assert [one is not None and one.verdict.allowed for one in told] == [True, False]
        assert [row.kind for row in await world.jobs("ready")] == [Train.kind()]
        assert (await world.line(VARIANT)).held == ()

    play(tmp_path, story)


def test_nobody_answers_a_request_that_was_not_read(tmp_path: Path) -> None:
    """Waiting ends with its time."""

    async def story(world: World) -> None:
        await react(world, OPENED)
        waiting = asyncio.create_task(answer(world.store, "never-said", VARIANT, world.clock))
        await asyncio.sleep(0)
        world.clock.seconds += ANSWER_SECONDS_MAX

        assert await waiting is None

    play(tmp_path, story)


def test_old_answers_are_dropped(tmp_path: Path) -> None:
    """So many are kept as there is a limit, the newest ones."""

    async def story(world: World) -> None:
        await react(world, OPENED)
        ids = [await react(world, Requested(variant=VARIANT, stage="sync")) for _ in range(ANSWERS_MAX + 3)]

        async with world.store.read() as view:
            kept = await answers_of(view, VARIANT)

        assert [one.request for one in kept] == ids[3:]

    play(tmp_path, story)


def test_without_auto_trigger_the_daemons_ask_for_nothing(tmp_path: Path) -> None:
    """A line that is opened is written down with its job; fill writes a verdict; neither enqueues.  On, both do."""

    async def story(world: World) -> None:
        await react(world, OPENED)
        assert (await world.line(VARIANT)).stage is Stage.STARTING
        await world.keep(at(Stage.COLLECTING).line)
        for policy, jobs in ((OFF, 0), (POLICY, POLICY.play_jobs_open)):
            async with world.store.begin() as tx:
                said = world.envelope(OPENED)
                await fill(OPENED, said, tx, policy=policy, ids=world.ids, scribe=world.scribe)
            assert len(await world.jobs()) == jobs
            async with world.store.read() as view:
                verdicts = {one.gate: one for one in await verdicts_of(view, VARIANT)}
            assert verdicts["fill"].allowed is policy.auto
        assert not verdicts["automatic"].allowed

    play(tmp_path, story)
