"""The window in which the same words are one event."""

import asyncio
from asyncio import Future
from collections.abc import Iterator

import pytest

from ringrift.bus.window import Window, words
from ringrift.events.base import Envelope

SECONDS = 30.0


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop for futures to belong to."""
    made = asyncio.new_event_loop()
    yield made
    made.close()


def said(loop: asyncio.AbstractEventLoop) -> "Future[Envelope]":
    """An envelope that is on its way."""
    return loop.create_future()


def test_words_have_a_node_and_a_source() -> None:
    """Name, payload, source and node are all part of the words; the order of keys is not."""
    one = words("A", {"x": 1, "y": {"b": 2, "a": 3}}, "s", "n")

    assert one == words("A", {"y": {"a": 3, "b": 2}, "x": 1}, "s", "n")
    others = [
        words("B", {"x": 1, "y": {"b": 2, "a": 3}}, "s", "n"),
        words("A", {"x": 2, "y": {"b": 2, "a": 3}}, "s", "n"),
        words("A", {"x": 1, "y": {"b": 2, "a": 3}}, "t", "n"),
        words("A", {"x": 1, "y": {"b": 2, "a": 3}}, "s", "m"),
        words("A", {"x": 1, "y": {"b": 2, "a": 3}}, "sn", ""),
        words("A", {"x": "1", "y": {"b": 2, "a": 3}}, "s", "n"),
    ]
    assert len({one, *others}) == 7


def test_words_take_what_json_takes() -> None:
    """Keys that are numbers are the words that they are in JSON."""
    assert words("A", {1: "x", "b": 2}, "", "") == words("A", {"1": "x", "b": 2}, "", "")  # type: ignore[dict-item]  # as callers do


def test_what_was_said_is_known_until_the_window_closes(loop: asyncio.AbstractEventLoop) -> None:
    """The same words give the first envelope back for so many seconds, and then no more."""
    window, first = Window(SECONDS, 10), said(loop)

    before = window.first(b"a", 5.0)
    window.remember(b"a", first, 5.0)

    assert before is None
    assert window.first(b"a", 5.0) is first
    assert window.first(b"a", 34.9) is first
    assert window.first(b"b", 5.0) is None
    assert window.first(b"a", 35.0) is None
    assert window.first(b"a", 99.0) is None


def test_repeating_does_not_hold_the_window_open(loop: asyncio.AbstractEventLoop) -> None:
    """The window counts from the first saying: who repeats for ever is heard again once in a while."""
    window, first, second = Window(SECONDS, 10), said(loop), said(loop)

    window.remember(b"a", first, 0.0)
    answers = [window.first(b"a", tick) for tick in (10.0, 20.0, 29.0, 31.0)]
    window.remember(b"a", second, 31.0)

    assert answers == [first, first, first, None]
    assert window.first(b"a", 60.9) is second


@pytest.mark.parametrize("tick", [0.0, 10.0, 29.0, 31.0, 59.0, 61.0])
def test_forgetting_others_does_not_close_the_window(loop: asyncio.AbstractEventLoop, tick: float) -> None:
    """Whenever words are said, they are known for the whole window, however the memory is cleared meanwhile."""
    window, ours = Window(SECONDS, 1000), said(loop)

    for step in range(int(tick)):
        window.remember(f"before-{step}".encode(), said(loop), float(step))
    window.remember(b"ours", ours, tick)
    known = []
    for step in range(int(SECONDS)):
        known.append(window.first(b"ours", tick + step) is ours)
        window.remember(f"after-{step}".encode(), said(loop), tick + step)

    assert all(known)


def test_the_memory_is_bounded(loop: asyncio.AbstractEventLoop) -> None:
    """However much is said within the window, no more than twice the size is remembered, and the latest always."""
    window, size = Window(SECONDS, 100), 100

    kept = 0
    for number in range(10 * size):
        window.remember(str(number).encode(), said(loop), 1.0)
        assert window.first(str(number).encode(), 1.0) is not None
    kept = sum(window.first(str(number).encode(), 1.0) is not None for number in range(10 * size))

    assert size <= kept <= 2 * size


def test_what_was_not_said_after_all_is_forgotten(loop: asyncio.AbstractEventLoop) -> None:
    """Words whose publishing failed are as if never said, also when the memory has turned meanwhile."""
    window = Window(SECONDS, 2)

    window.remember(b"young", said(loop), 1.0)
    window.forget(b"young")
    window.remember(b"old", said(loop), 1.0)
    for number in range(2):
        window.remember(str(number).encode(), said(loop), 1.0)
    known = window.first(b"old", 1.0)
    window.forget(b"old")
    window.forget(b"never")

    assert known is not None
    assert (window.first(b"young", 1.0), window.first(b"old", 1.0)) == (None, None)
