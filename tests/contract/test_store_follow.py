"""Following the log: every event once and in order, with wake-ups that may be lost; waiting for an answer."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from contract.engines import Engine, ManualClock, append, envelope, put
from ringrift.events.base import Envelope
from ringrift.kernel.clock import SystemClock
from ringrift.store.follow import follow, wait_for
from ringrift.store.ports import Reads, Store
from wait import wait_until

LONG = 60.0
"""Seconds after which no test would still wait: the test passes only if something else wakes it."""


async def append_named(store: Store, text: str) -> None:
    """Append one event for each character: lower-case ones of one name, capitals of another."""
    async with store.begin() as tx:
        await tx.append([envelope(id, name="upper" if id.isupper() else "lower") for id in text])


async def collect(events: AsyncIterator[Envelope], count: int) -> str:
    """The ids of the next *count* events."""
    return "".join([(await anext(events)).id for _ in range(count)])


class CountingView:
    """A view that records every read of the log."""

    def __init__(self, view: Reads, reads: list[int]) -> None:
        self._view, self._reads = view, reads

    async def read(self, after: int, limit: int, names: Collection[str] = ()) -> Sequence[Envelope]:
        """Read, and record the position."""
        self._reads.append(after)
        return await self._view.read(after, limit, names)


class CountingStore:
    """A store that records the positions after which the log is read."""

    def __init__(self, store: Store) -> None:
        self._store, self.wait = store, store.wait
        self.reads: list[int] = []

    @property
    def position(self) -> int:
        """As of the store."""
        return self._store.position

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Any]:
        """A view that records its reads."""
        async with self._store.read() as view:
            yield CountingView(view, self.reads)


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({}, "aBcDeF"),
        ({"after": 4}, "eF"),
        ({"after": 6}, ""),
        ({"after": 99}, ""),
        ({"until": 2}, "aB"),
        ({"after": 1, "until": 3}, "Bc"),
        ({"after": 3, "until": 3}, ""),
        ({"names": ("lower",)}, "ace"),
        ({"names": ("upper",), "after": 2, "until": 5}, "D"),
        ({"names": ("none",)}, ""),
        ({"page": 1}, "aBcDeF"),
        ({"page": 2, "names": ("upper",)}, "BDF"),
        ({"page": 3, "until": 4}, "aBcD"),
    ],
)
def test_a_range_of_the_log_is_read_once_and_in_order(engine: Engine, options: dict[str, Any], ids: str) -> None:
    """From a position up to another, of some names or of all, in pages of any size."""

    async def story(store: Store) -> str:
        await append_named(store, "aBcDeF")
        arguments = {"after": 0, "until": store.position} | options
        return "".join([event.id async for event in follow(store, **arguments)])

    assert engine.run(story) == ids


@pytest.mark.parametrize(("time", "position"), [(0.0, 0), (7.0, 0), (7.5, 3)])
def test_a_time_corresponds_to_a_position(engine: Engine, time: float, position: int) -> None:
    """The position of a time is that before the first event at that time or later."""

    async def story(store: Store) -> int:
        await append_named(store, "abc")
        async with store.read() as view:
            return await view.position_before(time)

    assert engine.run(story) == position


def test_a_range_ends_at_its_limit(engine: Engine) -> None:
    """Events that are appended meanwhile are not part of the range."""

    async def story(store: Store) -> tuple[str, int]:
        await append_named(store, "abc")
        ids = ""
        async for event in follow(store, 0, until=store.position, page=2):
            ids += event.id
            await append_named(store, event.id.upper())
        return ids, store.position

    assert engine.run(story) == ("abc", 6)


def test_events_come_as_they_are_appended(engine: Engine) -> None:
    """A follower that has read everything is woken by the next commit, not by its poll."""

    async def story(store: Store) -> str:
        await append_named(store, "ab")
        async with aclosing(follow(store, 1, poll_seconds=LONG)) as events:
            ids = await collect(events, 1)
            later = asyncio.create_task(collect(events, 2))
            await asyncio.sleep(0)
            await append_named(store, "cd")
            return ids + await later

    assert engine.run(story) == "bcd"


def test_events_of_other_names_are_not_read_again(engine: Engine) -> None:
    """A follower of one name continues after the events of others that it has passed."""

    async def story(store: Store) -> tuple[str, list[int]]:
        await append_named(store, "abcde")
        counting: Any = CountingStore(store)
        async with aclosing(follow(counting, 0, names=("upper",), poll_seconds=LONG)) as events:
            first = asyncio.create_task(collect(events, 1))
            await wait_until(lambda: bool(counting.reads))
            await append_named(store, "F")
            ids = await first
        return ids, counting.reads

    ids, reads = engine.run(story)

    assert ids == "F"
    assert reads[0] == 0
    assert set(reads[1:]) == {5}


def test_a_lost_wake_up_costs_time_and_no_event(
    on_file: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event of another process whose wake-up is lost is read at the next poll."""

    async def story() -> str:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "a"))
        async with on_file.open() as here:
            monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "b"))
            events = follow(here, 0, poll_seconds=0.01)
            async with on_file.open() as there, asyncio.timeout(10), aclosing(events):
                waiting = asyncio.create_task(collect(events, 2))
                await append_named(there, "ab")
                return await waiting

    assert asyncio.run(story()) == "ab"


async def find_record(view: Reads) -> bytes | None:
    """The body of one record, if it exists."""
    return (await view.get("k", ["a"])).get("a")


def test_an_answer_is_returned_once_it_exists(engine: Engine) -> None:
    """The query runs again after each commit until it has an answer; an existing answer is returned at once."""

    async def story(store: Store) -> tuple[bytes | None, bytes | None]:
        clock = SystemClock()
        waiting = asyncio.create_task(wait_for(store, find_record, clock, LONG, poll_seconds=LONG))
        await asyncio.sleep(0)
        await append(store, "other")
        await put(store, "k", "a", b"x")
        return await waiting, await wait_for(store, find_record, clock, 0.0)

    assert engine.run(story) == (b"x", b"x")


def test_a_commit_while_the_question_is_asked_is_not_missed(on_file: Engine) -> None:
    """What is committed after the view was opened wakes the one who asks, long before its next poll."""

    async def story(store: Store) -> bytes | None:
        async def ask(view: Reads) -> bytes | None:
            answer = await find_record(view)
            if answer is None:
                await put(store, "k", "a", b"x")
            return answer

        return await wait_for(store, ask, SystemClock(), LONG, poll_seconds=LONG)

    assert on_file.run(story) == b"x"


def test_waiting_ends_without_an_answer(engine: Engine) -> None:
    """Without an answer in time None is returned, after a last query at the end."""
    clock = ManualClock()
    ticks: list[float] = []

    async def nothing(view: Reads) -> None:
        ticks.append(clock.seconds - 1_000.0)
        clock.seconds += 1.0

    async def story(store: Store) -> object:
        return await wait_for(store, nothing, clock, 3.0, poll_seconds=0.001)

    assert engine.run(story) is None
    assert ticks == [0.0, 1.0, 2.0]
