"""The bases that users inherit from: coordinators with a life, orchestrators that listen, and values that are kept."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from compat.ears import Ears, home, on_a_loop
from ringrift.kernel.errors import Backpressure, InvalidId, InvalidPayload, TooLarge
from ringrift_compat import remembering
from ringrift_compat.ambient import ambient
from ringrift_compat.coordinating import FOLLOWS, BaseOrchestrator, CoordinatorBase, IllegalChange
from ringrift_compat.dead_letters import get_dead_letter_queue
from ringrift_compat.events import get_router
from ringrift_compat.health import CoordinatorStatus
from ringrift_compat.remembering import SQLitePersistenceMixin
from ringrift_compat.router_event import RouterEvent
from waiting import wait_until

__all__ = ["home"]


class Part(CoordinatorBase):
    """Remembers which of its hooks ran, and fails where it is told to."""

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
        self._note("start")

    async def _do_stop(self) -> None:
        self._note("stop")

    async def _do_pause(self) -> None:
        self._note("pause")

    async def _do_resume(self) -> None:
        self._note("resume")

    async def _do_drain(self) -> None:
        self._note("drain")


@on_a_loop
async def test_a_life_in_order() -> None:
    """Each step runs its hook and shows in the status; only what runs is healthy, and it may be started again."""
    part = Part()
    assert part.status is CoordinatorStatus.INITIALIZING
    await part.stop()
    await part.initialize()
    await part.initialize()
    assert part.status is CoordinatorStatus.READY
    await part.start()
    await part.start()
    assert (part.status, part.is_running, bool(part.health_check())) == (CoordinatorStatus.RUNNING, True, True)
    await part.pause()
    assert not part.health_check()
    await part.resume()
    part.degrade("slow")
    assert (part.is_running, bool(part.health_check()), "slow" in part.health_check().message) == (True, False, True)
    part.recover()
    await part.drain()
    assert part.status is CoordinatorStatus.DRAINING
    await part.stop()
    await part.stop()
    assert (part.status, part.uptime_seconds) == (CoordinatorStatus.STOPPED, 0.0)
    await part.start()

    assert part.ran == ["initialize", "start", "pause", "resume", "drain", "stop", "start"]
    assert part.get_stats()["status"] == "running"
    assert part.uptime_seconds > 0.0


@on_a_loop
async def test_only_legal_changes_happen() -> None:
    """A step that does not fit raises, runs no hook and changes nothing; every status can come to an end."""
    part = Part()
    for step in (part.pause, part.resume, part.drain):
        with pytest.raises(IllegalChange, match="initializing"):
            await step()
    await part.start()
    with pytest.raises(IllegalChange):
        await part.resume()
    await part.stop()
    for step in (part.pause, part.drain, part.initialize):
        with pytest.raises(IllegalChange, match="stopped"):
            await step()
    with pytest.raises(IllegalChange):
        part.recover()

    assert part.ran == ["initialize", "start", "stop"]
    assert set(FOLLOWS) == set(CoordinatorStatus)
    assert all(FOLLOWS.values())


@on_a_loop
async def test_of_two_that_start_at_once_one_does() -> None:
    """The other is told that it is starting already."""
    part = Part()

    outcomes = await asyncio.gather(*(part.start() for _ in range(4)), return_exceptions=True)

    assert part.ran == ["initialize", "start"]
    assert [one for one in outcomes if one is not None and not isinstance(one, IllegalChange)] == []


@pytest.mark.parametrize("hook", ["initialize", "start", "stop"])
def test_what_a_hook_raises_is_raised_and_kept(hook: str) -> None:
    """The part is in error, says why, and can be started again or stopped."""

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


class Listening(BaseOrchestrator):
    """Listens to two events; the handling of one fails."""

    def __init__(self) -> None:
        super().__init__()
        self.ears = Ears()

    def _get_event_subscriptions(self) -> Mapping[Any, Any]:
        return {"EVENT_A": self.ears.awaited, "EVENT_B": self._fail}

    async def _fail(self, event: RouterEvent) -> None:
        raise ValueError("cannot")


@on_a_loop
async def test_an_orchestrator_listens_while_it_runs() -> None:
    """From start to stop it hears what it names, what fails is counted and becomes a letter, and then it is quiet."""
    part = Listening.get_instance()
    await get_router().publish("EVENT_A", {"n": 0})
    await part.start()
    await get_router().publish("EVENT_A", {"n": 1})
    await get_router().publish("EVENT_B", {"n": 2})
    await wait_until(lambda: part.get_stats()["events_failed"] >= 1)

    heard = await part.ears.until(1)
    await part.stop()
    await get_router().publish("EVENT_A", {"n": 3})
    assert [event.payload["n"] for event in await part.ears.until(1)] == [event.payload["n"] for event in heard] == [1]
    assert (part.is_subscribed, part.get_stats()["events_processed"] >= 2) == (False, True)
    assert get_dead_letter_queue().get_stats()["total"] == 1
    Listening.reset_instance()


class Keeper(CoordinatorBase, SQLitePersistenceMixin):
    """Keeps values."""

    persistence_name = "keeper"


class Other(SQLitePersistenceMixin):
    """Keeps other values."""


def test_values_outlive_the_node() -> None:
    """What was saved is there again, each class has its own, and what was deleted is gone."""
    keeper = Keeper()
    keeper.save_value("games", {"hex8_2p": 12, "raw": b"\x00\xff", "none": None, "rate": float("inf")})
    keeper.save_value("word", "first")
    keeper.save_value("word", "second")
    Other().save_value("word", "other")
    ambient.shutdown()

    assert keeper.load_value("games") == {"hex8_2p": 12, "raw": b"\x00\xff", "none": None, "rate": float("inf")}
    assert (keeper.load_value("word"), Other().load_values(), keeper.load_value("x", 5)) == (
        "second", {"word": "other"}, 5,
    )  # fmt: skip
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


@on_a_loop
async def test_values_can_be_kept_from_a_loop() -> None:
    """Both forms work inside a running loop; on the ambient loop the awaited one does, and the plain one raises."""
    keeper = Keeper()
    keeper.save_value("plain", 1)
    await keeper.save_value_async("awaited", 2)

    async def there() -> Any:
        with pytest.raises(RuntimeError, match="wait"):
            keeper.load_value("plain")
        return await keeper.load_value_async("awaited")

    assert await ambient.post(there()) == 2
    assert (keeper.load_value("plain"), await keeper.load_value_async("none", "default")) == (1, "default")


def test_what_cannot_be_kept_is_refused() -> None:
    """Foreign objects, too much at once, no key and too many values raise, and nothing of them is written."""
    keeper = Keeper()
    with pytest.raises(InvalidPayload):
        keeper.save_value("x", object())
    with pytest.raises(InvalidPayload):
        keeper.save_value("x", 1 << 70)
    with pytest.raises(TooLarge):
        keeper.save_value("x", "x" * remembering.VALUE_BYTES_MAX)
    with pytest.raises(InvalidId):
        keeper.save_value("", 1)
    assert keeper.load_values() == {}

    async def fill() -> None:
        for number in range(remembering.VALUES_MAX):
            await keeper._save(str(number), b"\x01")

    ambient.call(fill())
    with pytest.raises(Backpressure):
        keeper.save_value("one more", 1)
    keeper.delete_value("0")
    keeper.save_value("one more", 1)
    assert len(keeper.load_values()) == remembering.VALUES_MAX
