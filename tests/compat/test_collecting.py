"""The documented utilities: callbacks in both forms, and running sums."""

import asyncio
import threading

import pytest

from compat.ears import home, on_a_loop
from ringrift.kernel.errors import Backpressure, InputError
from ringrift_compat.ambient import ambient
from ringrift_compat.collecting import METRICS_MAX, BoundedHistory, CallbackRegistry, MetricsAccumulator

__all__ = ["home"]


def registry(called: list[str]) -> CallbackRegistry:
    """One plain callback, one that fails, one that is async, and one that is async and fails."""

    def plain(word: str, *, loud: bool = False) -> None:
        called.append(word.upper() if loud else word)

    def broken(word: str, **_: bool) -> None:
        raise ValueError(word)

    async def awaited(word: str, **_: bool) -> None:
        await asyncio.sleep(0)
        called.append(f"{word} later")

    async def broken_later(word: str, **_: bool) -> None:
        raise KeyError(word)

    found = CallbackRegistry("mine")
    for callback in (plain, broken, awaited, broken_later):
        found.register(callback)
    return found


def test_a_history_keeps_a_hundred_unless_told() -> None:
    """The documented default."""
    assert BoundedHistory().max_size == 100


def test_all_are_told_without_a_loop() -> None:
    """Plain and async callbacks run, what fails is returned, and the statistics count it."""
    called: list[str] = []
    callbacks = registry(called)

    wrong = callbacks.invoke_all_sync("word", loud=True)

    assert called == ["WORD", "word later"]
    assert [type(one) for one in wrong] == [ValueError, KeyError]
    assert callbacks.get_stats() == {
        "name": "mine", "callback_count": 4, "invocation_count": 1, "error_count": 2, "last_error": "KeyError: 'word'",
    }  # fmt: skip


@on_a_loop
async def test_all_are_told_on_a_loop() -> None:
    """The same by awaiting, and by the plain form inside a running loop."""
    called: list[str] = []
    callbacks = registry(called)

    assert [type(one) for one in await callbacks.invoke_all("a")] == [ValueError, KeyError]
    assert [type(one) for one in callbacks.invoke_all_sync("b")] == [ValueError, KeyError]
    assert called == ["a", "a later", "b", "b later"]


def test_what_cannot_be_waited_for_is_an_error() -> None:
    """On the ambient loop the plain form does not hang: each async callback is a RuntimeError."""
    called: list[str] = []

    async def there() -> list[Exception]:
        return registry(called).invoke_all_sync("a")

    assert [type(one) for one in ambient.call(there())] == [ValueError, RuntimeError, RuntimeError]
    assert called == ["a"]


def test_sums_run_on_from_many_threads() -> None:
    """Nothing is lost, and a metric knows its count, sum and bounds."""
    metrics = MetricsAccumulator("mine")

    def record(number: int) -> None:
        for _ in range(500):
            metrics.record("seconds", number)
            metrics.increment("cycles")

    threads = [threading.Thread(target=record, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    seconds = metrics.get("seconds")
    assert (seconds.count, seconds.total, seconds.mean, seconds.minimum, seconds.maximum) == (2000, 3000, 1.5, 0, 3)
    assert metrics.reset()["cycles"]["total"] == 2000
    assert metrics.get_stats() == {}
    assert metrics.get("cycles").mean == 0.0


def test_sums_have_limits() -> None:
    """What cannot be added up and one name too many are refused, and nothing is spoilt."""
    metrics = MetricsAccumulator()
    with pytest.raises(InputError, match="nan"):
        metrics.record("x", float("nan"))
    for number in range(METRICS_MAX):
        metrics.record(str(number))
    with pytest.raises(Backpressure):
        metrics.record("one more")
    metrics.record("0", 2.0)

    assert metrics.get("0").total == 3.0
