"""A request is published for a line that is there, and answered once the pipeline has read it."""

import asyncio
from pathlib import Path

import pytest

from ringrift.bus.delivery import Reader
from ringrift.cli.commands.request import _as_text
from ringrift.cli.main import _load
from ringrift.daemons.pipeline import SPEC, pipeline
from ringrift.events.base import Envelope, Event
from ringrift.events.pipeline import Requested
from ringrift.kernel.errors import UnknownName
from ringrift.pipeline.line import Stage
from ringrift.pipeline.requests import ANSWER_SECONDS_MAX, STAGES, wait_for_answer
from ringrift.store.ports import Tx
from unit.cli.command_output import ask, context
from unit.pipeline.story import POLICY, VARIANT, at
from unit.work.world import World, play

REQUEST = Requested(variant=VARIANT, stage="train", reason="curious")
WORDS = ("request", VARIANT, "train")


def coordinator(world: World) -> Reader:
    """The pipeline as a durable reader."""

    async def react(event: Event, envelope: Envelope, tx: Tx) -> None:
        await pipeline(event, envelope, tx, policy=POLICY, envelopes=world.envelopes)

    return Reader(name="pipeline", event_names=frozenset(event.name() for event in SPEC.on), react=react)


async def publish(world: World) -> Envelope:
    """Publish the request as an operator does."""
    async with world.store.begin() as tx:
        return await context(world.store, *WORDS).publish(tx, REQUEST)


def test_a_request_is_answered_by_the_pipeline(tmp_path: Path) -> None:
    """Who asks waits until the event was read, and gets the verdict that was written with it."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.COLLECTING).line)
        envelope = await publish(world)
        waiting = asyncio.create_task(wait_for_answer(world.store, envelope.id, VARIANT, world.clock))
        await asyncio.sleep(0)
        assert not waiting.done()
        reader = coordinator(world)
        await world.router.deliverer.deliver_batch(reader, await world.router.deliverer.register(reader))

        answer = await waiting

        assert await world.events(Requested) == [REQUEST]
        assert answer is not None
        verdict, _ = answer
        assert (verdict.allowed, verdict.rule) == (
            False,
            "train: the line is collecting, and this comes only after an export",
        )
        assert _as_text(verdict, REQUEST, verdict.since).startswith(
            "hex8_2p: requested: refused — train: the line is collecting"
        )

    play(tmp_path, story)


def test_an_older_answer_is_not_taken_for_this_one(tmp_path: Path) -> None:
    """As long as the pipeline has not read the request, nobody has answered it."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.COLLECTING).line)
        reader = coordinator(world)
        await publish(world)
        await world.router.deliverer.deliver_batch(reader, await world.router.deliverer.register(reader))
        envelope = await publish(world)
        waiting = asyncio.create_task(wait_for_answer(world.store, envelope.id, VARIANT, world.clock))
        await asyncio.sleep(0)
        world.clock.seconds += ANSWER_SECONDS_MAX

        assert await waiting is None
        assert "no coordinator has answered within 10 s" in _as_text(None, REQUEST, 0.0)

    play(tmp_path, story)


def test_a_line_that_was_never_opened_cannot_be_asked(tmp_path: Path) -> None:
    """It is named with those that there are, and nothing is published."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.COLLECTING).line)

        with pytest.raises(UnknownName, match="unknown variant 'hex9_2p'; known: hex8_2p"):
            await ask(world.store, "request", "hex9_2p", "train")

        assert await world.events() == []

    play(tmp_path, story)


def test_an_unknown_stage_names_the_five() -> None:
    """Before anything is opened or published."""
    with pytest.raises(UnknownName) as refused:
        _load("request").prepare(context(None, "request", VARIANT, "dance"))

    assert refused.value.names == tuple(sorted(STAGES))
