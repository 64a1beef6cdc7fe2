"""The base classes that users inherit: coordinators, orchestrators and stored values."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from compat.subscribers import EventRecorder, async_test, home
from ringrift.kernel.errors import Backpressure, InvalidId, InvalidPayload, TooLarge
from ringrift_compat.coordinators import sqlite_persistence
from ringrift_compat.coordinators.coordinator_base import BaseOrchestrator, CoordinatorBase, IllegalChange
from ringrift_compat.coordinators.sqlite_persistence import SQLitePersistenceMixin
from ringrift_compat.embedded_node import embedded
from ringrift_compat.events.dead_letters import get_dead_letter_queue
from ringrift_compat.events.event_router import get_router
from ringrift_compat.events.router_event import RouterEvent
from ringrift_compat.health.protocols import CoordinatorStatus
from wait import wait_until

__all__ = ["home"]


class Part(CoordinatorBase):
    """Records which of its hooks ran, and fails in the chosen ones."""

    def __init__(self, fails: str = "") -> None:
        super().__init__("part")
        self.ran: list[str] = []
        self.fails = fails

    def _note(self, hook: str) -> None:
        self.ran.append(hook)
        if hook == self.fails:
            raise OSError("broken")

    async def _do_initialize(self) -> None:
        self._note("initialize")

    async def _do_start(self) -> None:
        await asyncio.sleep(0)  # so that another start can come in between
        self._note("start")

    async def _do_stop(self) -> None:
        self._note("stop")


@async_test
async def test_the_lifecycle_runs_in_order() -> None:
    """Each step runs its hook and shows in the status; only a running part is healthy, and it may be started again."""
    part = Part()
    assert part.status is CoordinatorStatus.INITIALIZING
    await part.stop()
    await part.initialize()
    await part.initialize()
    assert part.status is CoordinatorStatus.READY
    await part.start()
    await part.start()
    assert (part.status, part.is_running, bool(part.health_check())) == (CoordinatorStatus.RUNNING, True, True)
    await part.stop()
    await part.stop()
    assert (part.status, part.uptime_seconds, bool(part.health_check())) == (CoordinatorStatus.STOPPED, 0.0, False)
    await part.start()

    assert part.ran == ["initialize", "start", "stop", "start"]
    assert part.get_stats()["status"] == "running"
    assert part.uptime_seconds > 0.0


@async_test
async def test_only_legal_changes_happen() -> None:
    """A step that does not fit raises, runs no hook and changes nothing."""
    part = Part()
    await part.start()
    with pytest.raises(IllegalChange, match="running"):
        await part.initialize()
    await part.stop()
    with pytest.raises(IllegalChange, match="stopped"):
        await part.initialize()

    assert part.ran == ["initialize", "start", "stop"]


@async_test
async def test_only_one_of_two_concurrent_starts_runs() -> None:
    """The other call returns that it is already starting."""
    part = Part()

    outcomes = await asyncio.gather(*(part.start() for _ in range(4)), return_exceptions=True)

    assert part.ran == ["initialize", "start"]
    assert [outcome for outcome in outcomes if outcome is not None and not isinstance(outcome, IllegalChange)] == []


@pytest.mark.parametrize("hook", ["initialize", "start", "stop"])
def test_an_error_of_a_hook_is_raised_and_recorded(hook: str) -> None:
    """The part is in error with the reason, and can be started again or stopped."""

    async def story() -> Part:
        part = Part(fails=hook)
        steps = [part.start] if hook != "stop" else [part.start, part.stop]
        for step in steps[:-1]:
            await step()
        with pytest.raises(OSError, match="broken"):
            await steps[-1]()
        assert part.status is CoordinatorStatus.ERROR
        assert "OSError: broken" in part.health_check().message
        assert part.get_stats()["errors_count"] == 1
        part.fails = ""
        await part.start()
        await part.stop()
        return part

    part = asyncio.run(story())

    assert part.status is CoordinatorStatus.STOPPED
    assert part.ran.count("initialize") == (2 if hook == "initialize" else 1)


class Subscribed(BaseOrchestrator):
    """Subscribes to two events; the handler of one fails."""

    def __init__(self) -> None:
        super().__init__()
        self.recorder = EventRecorder()
        self.hooks: list[str] = []

    async def _do_start(self) -> None:
        self.hooks.append("start")

    async def _do_stop(self) -> None:
        self.hooks.append("stop")

    def _get_event_subscriptions(self) -> Mapping[Any, Any]:
        return {"EVENT_A": self.recorder.awaited, "EVENT_B": self._fail}

    async def _fail(self, event: RouterEvent) -> None:
        raise ValueError("cannot")


@async_test
async def test_an_orchestrator_is_subscribed_while_it_runs() -> None:
    """From start to stop it receives its events; a failure is counted and becomes a dead letter; after the stop none
    arrive."""
    part = Subscribed.get_instance()
    await get_router().publish("EVENT_A", {"n": 0})
    await part.start()
    await get_router().publish("EVENT_A", {"n": 1})
    await get_router().publish("EVENT_B", {"n": 2})
    await wait_until(lambda: part.get_stats()["events_failed"] >= 1)

    received = await part.recorder.until(1)
    await part.stop()
    await get_router().publish("EVENT_A", {"n": 3})
    assert (
        [event.payload["n"] for event in await part.recorder.until(1)]
        == [event.payload["n"] for event in received]
        == [1]
    )
    assert (part.is_subscribed, part.get_stats()["events_processed"] >= 2) == (False, True)
    assert part.hooks == ["start", "stop"]
    assert get_dead_letter_queue().get_stats()["total"] == 1
    Subscribed.reset_instance()


class Keeper(CoordinatorBase, SQLitePersistenceMixin):
    """Keeps values."""

    persistence_name = "keeper"


class Other(SQLitePersistenceMixin):
    """Keeps other values."""


def test_values_outlive_the_node() -> None:
    """Saved values are there after a restart, each class has its own, and deleted ones are gone."""
    keeper = Keeper()
    keeper.save_value("games", {"hex8_2p": 12, "raw": b"\x00\xff", "none": None, "rate": float("inf")})
    keeper.save_value("word", "first")
    keeper.save_value("word", "second")
    Other().save_value("word", "other")
    embedded.shutdown()

    assert keeper.load_value("games") == {"hex8_2p": 12, "raw": b"\x00\xff", "none": None, "rate": float("inf")}
    assert (keeper.load_value("word"), keeper.load_value("x", 5)) == ("second", 5)
    assert Other().load_values() == {"word": "other"}
    assert (keeper.delete_value("word"), keeper.delete_value("word")) == (True, False)
    assert list(keeper.load_values()) == ["games"]


def test_values_are_there_for_another_program(home: Path) -> None:
    """A program on the same home reads what another wrote."""
    code = """
from app.coordination.coordinator_base import CoordinatorBase, SQLitePersistenceMixin
class Keeper(CoordinatorBase, SQLitePersistenceMixin):
    persistence_name = "keeper"
Keeper().save_value("from", "another")
"""
    environ = os.environ | {"RINGRIFT_HOME": str(home)}
    subprocess.run([sys.executable, "-W", "error", "-c", code], env=environ, check=True, timeout=20)

    assert Keeper().load_value("from") == "another"


@async_test
async def test_values_can_be_saved_inside_a_running_loop() -> None:
    """On the loop of the embedded node, which must not wait, it raises."""
    keeper = Keeper()
    keeper.save_value("plain", 1)

    async def load() -> None:
        with pytest.raises(RuntimeError, match="wait"):
            keeper.load_value("plain")

    await embedded.post(load())
    assert keeper.load_value("plain") == 1


def test_invalid_values_are_refused() -> None:
    """Foreign objects, too much at once, no key and too many values raise, and nothing of them is written."""
    keeper = Keeper()
    with pytest.raises(InvalidPayload):
        keeper.save_value("x", object())
    with pytest.raises(InvalidPayload):
        keeper.save_value("x", 1 << 70)
    with pytest.raises(TooLarge):
        keeper.save_value("x", "x" * sqlite_persistence._VALUE_BYTES_MAX)
    with pytest.raises(InvalidId):
        keeper.save_value("", 1)
    assert keeper.load_values() == {}

    async def fill() -> None:
        for number in range(sqlite_persistence._VALUES_MAX):
            await keeper._save(str(number), b"\x01")

    embedded.call(fill())
    with pytest.raises(Backpressure):
        keeper.save_value("one more", 1)
    keeper.delete_value("0")
    keeper.save_value("one more", 1)
    assert len(keeper.load_values()) == sqlite_persistence._VALUES_MAX
