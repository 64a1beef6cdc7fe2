"""Alerts are listed for people and programs, and an open one can be cleared by hand."""

from pathlib import Path

import pytest

from ringrift.cluster import alerts
from ringrift.daemons.alert import alert
from ringrift.events.alert import Cleared, Raised
from ringrift.kernel.errors import InputError, UnknownName
from unit.cli.command_output import ask
from unit.work.world import World, play


async def open_alert(world: World, subject: str) -> None:
    """Open an alert about a disk."""
    async with world.store.begin() as tx:
        event = Raised(kind="disk", subject=subject, level="severe", detail="full")
        await alerts.apply(tx, alerts.judge(event), 5.0)


def test_open_alerts_are_listed_and_closed_ones_on_request(tmp_path: Path) -> None:
    """One line each, or JSON with every field."""

    async def story(world: World) -> None:
        assert (await ask(world.store, "alerts")).text == "no alerts"
        await open_alert(world, "a")
        await open_alert(world, "b")
        async with world.store.begin() as tx:
            await alerts.apply(tx, alerts.judge(Cleared(kind="disk", subject="b")), 9.0)

        assert (await ask(world.store, "alerts")).text.startswith("severe: disk a: full, since ")
        listed = (await ask(world.store, "alerts", "--all")).value
        assert [(row.subject, row.until) for row in listed] == [("a", None), ("b", 9.0)]

    play(tmp_path, story)


def test_an_operator_clears_an_open_alert(tmp_path: Path) -> None:
    """The event goes into the log; the daemon closes the alert."""

    async def story(world: World) -> None:
        await open_alert(world, "a")

        output = await ask(world.store, "alerts", "clear", "disk", "a", "--reason", "swapped")

        [event] = await world.events(Cleared)
        assert event == output.value == Cleared(kind="disk", subject="a", detail="swapped")
        assert output.text == "alert disk a will be cleared by the coordinator, at once if one runs"
        async with world.store.begin() as tx:
            await alert(event, world.envelope(event), tx, envelopes=world.envelopes)
        assert (await ask(world.store, "alerts")).text == "no alerts"

    play(tmp_path, story)


def test_an_alert_that_is_not_open_cannot_be_cleared(tmp_path: Path) -> None:
    """A wrong name is answered with the open alerts; no name at all with how to give one."""

    async def story(world: World) -> None:
        await open_alert(world, "a")

        with pytest.raises(UnknownName, match="unknown open alert 'disk b'; known: disk a"):
            await ask(world.store, "alerts", "clear", "disk", "b")
        with pytest.raises(InputError, match="name the alert"):
            await ask(world.store, "alerts", "clear")

        assert await world.events() == []

    play(tmp_path, story)
