"""Alerts are listed for people and programs, and one that is open can be cleared by hand."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from ringrift.cli.alerts import clear, show
from ringrift.cluster import alerts
from ringrift.daemons.alert import alert
from ringrift.events.alert import Cleared
from ringrift.kernel.errors import InputError, UnknownName
from unit.work.world import World, play


def options(**given: Any) -> Namespace:
    """What the command line gives."""
    usual = {"all": False, "json": False, "kind": None, "subject": None, "reason": "swapped"}
    return Namespace(**usual | given)


async def open_one(world: World, subject: str) -> None:
    """Let trouble with a disk be open."""
    async with world.store.begin() as tx:
        await alerts.apply(tx, [alerts.Open(kind="disk", subject=subject, level="severe", detail="full")], 5.0)


def test_open_alerts_are_listed_and_old_ones_on_request(tmp_path: Path) -> None:
    """One line each, or JSON with every field."""

    async def story(world: World) -> None:
        assert await show(world.store, options()) == "no alerts"
        await open_one(world, "a")
        await open_one(world, "b")
        async with world.store.begin() as tx:
            await alerts.apply(tx, [alerts.Close(kind="disk", subject="b")], 9.0)

        assert (await show(world.store, options())).startswith("severe: disk a: full, since ")
        found = json.loads(await show(world.store, options(all=True, json=True)))
        assert [(one["subject"], one["until"]) for one in found] == [("a", None), ("b", 9.0)]

    play(tmp_path, story)


def test_a_person_clears_what_is_open(tmp_path: Path) -> None:
    """The word goes into the log; the daemon takes it in."""

    async def story(world: World) -> None:
        await open_one(world, "a")

        text = await clear(world.store, options(kind="disk", subject="a"), "here")

        [said] = await world.told(Cleared)
        assert said == Cleared(kind="disk", subject="a", detail="swapped")
        assert text == "disk a is cleared as soon as a coordinator runs"
        async with world.store.begin() as tx:
            await alert(said, world.envelope(said), tx, scribe=world.scribe)
        assert await show(world.store, options()) == "no alerts"

    play(tmp_path, story)


def test_what_is_not_open_cannot_be_cleared(tmp_path: Path) -> None:
    """A wrong name is answered with those that are open; no name at all with how to give one."""

    async def story(world: World) -> None:
        await open_one(world, "a")

        with pytest.raises(UnknownName, match="unknown open alert 'disk b'; known: disk a"):
            await clear(world.store, options(kind="disk", subject="b"), "here")
        with pytest.raises(InputError, match="which alert"):
            await clear(world.store, options(), "here")

        assert await world.told() == []

    play(tmp_path, story)
