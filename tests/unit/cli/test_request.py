"""A request is published for a line that is there, and answered once the pipeline has read it."""

import asyncio
from argparse import Namespace
from pathlib import Path

import pytest

from ringrift.bus.delivery import Reader
from ringrift.cli.request import answer, as_text, ask, main
from ringrift.daemons.pipeline import SPEC, pipeline
from ringrift.events.base import Envelope, Event
from ringrift.events.pipeline import Requested
from ringrift.kernel.errors import UnknownName
from ringrift.pipeline.asking import ANSWER_SECONDS_MAX
from ringrift.pipeline.line import Stage
from ringrift.pipeline.request import AFTER
from ringrift.store.ports import Tx
from unit.pipeline.story import POLICY, VARIANT, at
from unit.work.world import World, play

SAID = Requested(variant=VARIANT, stage="train", reason="curious")


def coordinator(world: World) -> Reader:
    """The pipeline as a durable reader."""

    async def react(event: Event, envelope: Envelope, tx: Tx) -> None:
        await pipeline(event, envelope, tx, policy=POLICY, ids=world.ids, scribe=world.scribe)

    return Reader(name="pipeline", wants=frozenset(event.name() for event in SPEC.on), react=react)


def test_a_request_is_answered_by_the_pipeline(tmp_path: Path) -> None:
    """Who asks waits until the event was read, and gets the verdict that was written with it."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.COLLECTING).line)
        asked = await ask(world.store, SAID, "here")
        waiting = asyncio.create_task(answer(world.store, asked, VARIANT, world.clock))
        await asyncio.sleep(0)
        assert not waiting.done()
        reader = coordinator(world)
        await world.router.courier.take(reader, await world.router.courier.enrol(reader))

        found = await waiting

        assert await world.told(Requested) == [SAID]
        assert found is not None
        assert (found.allowed, found.rule) == (
            False,
            "train: the line is collecting, and this comes only after an export",
        )
        assert as_text(found, SAID, found.since).startswith("hex8_2p: requested: waits — train: the line is collecting")

    play(tmp_path, story)


def test_an_older_answer_is_not_taken_for_this_one(tmp_path: Path) -> None:
    """As long as the pipeline has not read the request, nobody has answered it."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.COLLECTING).line)
        reader = coordinator(world)
        await ask(world.store, SAID, "here")
        await world.router.courier.take(reader, await world.router.courier.enrol(reader))
        asked = await ask(world.store, SAID, "here")
        waiting = asyncio.create_task(answer(world.store, asked, VARIANT, world.clock))
        await asyncio.sleep(0)
        world.clock.seconds += ANSWER_SECONDS_MAX

        assert await waiting is None
        assert "nobody has answered within 10 s" in as_text(None, SAID, 0.0)

    play(tmp_path, story)


def test_a_line_that_was_never_opened_cannot_be_asked(tmp_path: Path) -> None:
    """It is named with those that there are, and nothing is published."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.COLLECTING).line)

        with pytest.raises(UnknownName, match="unknown line 'hex9_2p'; known: hex8_2p"):
            await ask(world.store, Requested(variant="hex9_2p", stage="train"), "here")

        assert await world.told() == []

    play(tmp_path, story)


def test_an_unknown_stage_names_the_five() -> None:
    """Before anything is opened or published."""
    options = Namespace(settings=None, variant=VARIANT, stage="dance", reason="", json=False)

    with pytest.raises(UnknownName) as refused:
        main(options, {})

    assert refused.value.known == tuple(sorted(AFTER))
