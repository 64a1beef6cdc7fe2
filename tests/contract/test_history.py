"""History: the last events, the past from a position or a moment on, and the past again for a durable reader."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from contract.engines import Engine, HandClock
from contract.listeners import Ear, finished, letters, lost, place, routed, scribe
from ringrift.bus import dead_letters, history
from ringrift.bus.delivery import Courier
from ringrift.bus.router import Router
from ringrift.events import catalog, data, training
from ringrift.events.base import Envelope
from ringrift.kernel.errors import UnknownName
from ringrift.kernel.settings import BusSettings
from ringrift.kernel.watch import Watch
from ringrift.store.ports import Store
from waiting import wait_until

LOST, FINISHED = data.Lost.name(), training.Finished.name()


def words(envelopes: Sequence[Envelope]) -> str:
    """What *envelopes* are about, one letter each."""
    events = [catalog.decode(one.name, one.body) for one in envelopes]
    return "".join(getattr(event, "blob", None) or getattr(event, "model", "?") for event in events)


async def tell(bus: Router, clock: HandClock, blobs: str) -> None:
    """One event each second: small letters of one kind, capital ones of another."""
    for blob in blobs:
        await bus.publish(finished(blob) if blob.isupper() else lost(blob))
        clock.seconds += 1.0


@pytest.mark.parametrize(
    ("limit", "names", "found"),
    [
        (3, (), "DeF"), (100, (), "aBcDeF"), (1, (), "F"), (2, (LOST,), "ce"), (100, (FINISHED,), "BDF"),
        (2, (LOST, FINISHED), "eF"), (5, ("no.such",), ""),
    ],
)  # fmt: skip
def test_the_last_events_come_oldest_first(engine: Engine, limit: int, names: tuple[str, ...], found: str) -> None:
    """Of all events or of some names the last so many are given, in their order."""

    async def story(store: Store) -> str:
        clock = HandClock()
        async with routed(store, clock) as bus:
            assert await bus.recent(limit, names) == []
            await tell(bus, clock, "aBcDeF")
            return words(await bus.recent(limit, names))

    assert engine.run(story) == found


def test_the_last_events_are_so_many_also_where_some_were_dropped(engine: Engine) -> None:
    """Where the log has holes, because details were dropped, the last so many of what is left are given."""

    async def story(store: Store) -> str:
        clock = HandClock()
        async with routed(store, clock) as bus:
            await tell(bus, clock, "abcDDDDDDDDe")
            async with store.begin() as tx:
                await tx.compact(1, 1000, (FINISHED,))
            return words(await bus.recent(3))

    assert engine.run(story) == "bce"


async def told(store: Store, **where: Any) -> str:
    """The past, as far as asked for."""
    return words([one async for one in history.past(store, **where)])


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ({}, "aBcDeF"), ({"after": 0}, "aBcDeF"), ({"after": 4}, "eF"), ({"after": 6}, ""), ({"after": 99}, ""),
        ({"until": 2}, "aB"), ({"after": 1, "until": 3}, "Bc"), ({"after": 3, "until": 3}, ""),
        ({"names": (LOST,)}, "ace"), ({"names": (FINISHED,), "after": 2, "until": 5}, "D"),
        ({"since": 0.0}, "aBcDeF"), ({"since": 1_700_001_002.0}, "cDeF"), ({"since": 1_700_001_002.5}, "DeF"),
        ({"since": 1_700_009_999.0}, ""), ({"since": 1_700_001_003.0, "names": (LOST,)}, "e"),
    ],
)  # fmt: skip
def test_the_past_is_read_from_a_place_or_a_moment(engine: Engine, where: dict[str, Any], found: str) -> None:
    """Events come from a position or a time on, up to one, of some names or of all, each once and in order."""

    async def story(store: Store) -> str:
        clock = HandClock()
        async with routed(store, clock) as bus:
            await tell(bus, clock, "aBcDeF")
            return await told(store, **where)

    assert engine.run(story) == found


def test_the_past_ends_at_what_is_newest_now(engine: Engine) -> None:
    """What is published while somebody reads the past is not part of it; more than one portion is read whole."""
    many = [lost(str(number)) for number in range(history.READ_AT_ONCE + 50)]

    async def story(store: Store) -> tuple[int, int]:
        async with routed(store) as bus:
            await bus.publish_many(many)
            seen = 0
            async for _ in history.past(store):
                if not seen:
                    await bus.publish(lost("late"))
                seen += 1
            return seen, store.position

    assert engine.run(story) == (len(many), len(many) + 1)


class Replayed:
    """A reader that has taken in five events, and whoever tries its letters again."""

    def __init__(self, store: Store) -> None:
        self.store, self.clock, self.ear, self.watch = store, HandClock(), Ear(), Watch()
        self.reader = self.ear.reader("r", data.Lost)
        self._scribe = scribe("n1", self.clock)
        self.courier = Courier(store, self.clock, self._scribe, BusSettings().redelivery, 100)

    async def say(self, blobs: str) -> None:
        """One event for each letter."""
        async with self.store.begin() as tx:
            await tx.append([self._scribe.wrap(lost(blob)) for blob in blobs])

    async def take(self) -> None:
        """Take in what is there."""
        await self.courier.take(self.reader, await self.courier.enrol(self.reader))

    async def replay(self, *positions: int) -> int:
        """Put these before the reader again."""
        return await history.replay(self.store, "r", positions, self.clock.now())

    async def retry(self) -> dict[str, int]:
        """Try again what is due, as the daemon does."""
        tick = self.clock.tick()
        return dict(await dead_letters.retry(self.store, self.courier, {"r": self.reader}, self.watch, tick))


def test_a_replay_runs_just_these_once_more(engine: Engine) -> None:
    """Positions that are put before a reader again run once each at the next look, and its place stays."""

    async def story(store: Store) -> tuple[int, list[dict[str, int]], str, int | None]:
        post = Replayed(store)
        await post.say("abcde")
        await post.take()
        stands = await place(store, "r")
        parked = await post.replay(2, 4)
        tried = [await post.retry(), await post.retry()]
        post.clock.seconds += 1e6
        tried.append(await post.retry())
        assert await place(store, "r") == stands
        return parked, tried, "".join(post.ear.heard), stands

    assert engine.run(story) == (2, [{"done": 2}, {}, {}], "abcdebd", 5)


def test_a_replay_passes_over_what_will_come_anyway(engine: Engine) -> None:
    """What the reader has not come to yet it gets once, in its turn; what is parked already stays as it is."""

    async def story(store: Store) -> tuple[list[int], str, list[tuple[int, str]]]:
        post = Replayed(store)
        await post.say("ab")
        post.ear.wrong["b"] = ValueError("not yet")
        await post.take()
        await post.say("cd")
        before = [*await letters(store)]
        parked = [await post.replay(2), await post.replay(4, 5), await post.replay()]
        assert [*await letters(store)] == before
        parked += [await post.replay(1, 1, 2)]
        post.ear.heard.clear()
        await post.retry()
        await post.take()
        return parked, "".join(post.ear.heard), [(one.position, one.state) for one in await letters(store)]

    assert engine.run(story) == ([0, 0, 0, 1], "acd", [(1, "done"), (2, "parked")])


def test_a_replay_that_fails_is_a_letter_like_any(engine: Engine) -> None:
    """An event that fails when it is replayed has its five tries and pauses, and is counted as pending."""

    async def story(store: Store) -> tuple[dict[str, int], list[tuple[str, int, float]], dict[str, int]]:
        post = Replayed(store)
        await post.say("ab")
        await post.take()
        post.ear.wrong["a"] = ValueError("not again")
        await post.replay(1)
        tried = await post.retry()
        found = [(one.state, one.attempts, one.pause) for one in await letters(store)]
        return tried, found, await dead_letters.stats(store)

    tried, found, counts = engine.run(story)

    assert (tried, found) == ({"parked": 1}, [("parked", 1, 60.0)])
    assert counts == {"pending": 1, "recovered": 0, "abandoned": 0, "discarded": 0}


def test_what_was_recovered_can_be_replayed(engine: Engine) -> None:
    """A delivery that once failed and was recovered is replayed like one that never did."""

    async def story(store: Store) -> tuple[int, str]:
        post = Replayed(store)
        await post.say("a")
        post.ear.wrong["a"] = ValueError("not yet")
        await post.take()
        await post.retry()
        post.ear.wrong.clear()
        post.clock.seconds += 60.0
        await post.retry()
        post.ear.heard.clear()
        parked = await post.replay(1)
        await post.retry()
        await post.retry()
        return parked, "".join(post.ear.heard)

    assert engine.run(story) == (1, "a")


def test_what_the_log_has_dropped_is_not_replayed(engine: Engine) -> None:
    """A position that is no longer in the log, or never was, is passed over, and the others run."""

    async def story(store: Store) -> tuple[int, dict[str, int], str]:
        post = Replayed(store)
        await post.say("abcd")
        await post.take()
        async with store.begin() as tx:
            await tx.compact(2, 1000)
        post.ear.heard.clear()
        return await post.replay(0, 1, 3), await post.retry(), "".join(post.ear.heard)

    assert engine.run(story) == (1, {"done": 1}, "c")


def test_a_handler_replays_too(engine: Engine) -> None:
    """What is put before a handler again is called by its own loop, with the key it had before."""
    ear, clock = Ear(), HandClock()

    async def story(store: Store) -> None:
        async with routed(store, clock) as bus:
            bus.handle(data.Lost, ear.durable, name="h")
            await bus.publish_many([lost(blob) for blob in "abc"])
            await wait_until(lambda: len(ear.heard) == 3)

            async def is_level() -> bool:
                return await place(store, "h") == 3

            await wait_until(is_level)
            assert await history.replay(store, "h", [2], clock.now()) == 1
            clock.seconds += 1.0
            await wait_until(lambda: len(ear.heard) > 3)
            await asyncio.sleep(0)

    engine.run(story)

    assert ear.heard == ["a", "b", "c", "b"]
    assert ear.keys[3] == ear.keys[1]


def test_nobody_replays_for_a_stranger(engine: Engine) -> None:
    """A reader that is not there is refused by name."""

    async def story(store: Store) -> list[str]:
        post = Replayed(store)
        await post.say("a")
        await post.take()
        with pytest.raises(UnknownName, match="nobody"):
            await history.replay(store, "nobody", [1], 0.0)
        return [one.state for one in await letters(store)]

    assert engine.run(story) == []
