"""The documented shapes: levels that compare as they look, results that are true when healthy, bounded collections."""

import asyncio
import itertools

import pytest

from ringrift_compat.collecting import BoundedHistory, CallbackRegistry
from ringrift_compat.health import CoordinatorProtocol, CoordinatorStatus, DaemonProtocol, HealthCheckResult
from ringrift_compat.levels import BackpressureLevel, BoardType, QueueType, TaskType


def test_levels_compare_by_how_hard_they_press() -> None:
    """Finding 6: every level is ordered against every other, in the order from none to stop."""
    levels = list(BackpressureLevel)

    for (low, lesser), (high, greater) in itertools.product(enumerate(levels), repeat=2):
        assert (lesser < greater, lesser <= greater) == (low < high, low <= high)
        assert (lesser > greater, lesser >= greater) == (low > high, low >= high)
    assert not BackpressureLevel.NONE >= BackpressureLevel.HIGH
    assert BackpressureLevel.CRITICAL >= BackpressureLevel.HIGH
    assert BackpressureLevel.CRITICAL >= "high"


def test_every_level_says_how_much_goes_on() -> None:
    """The factor falls from all to nothing, and every level but none throttles."""
    factors = [level.factor for level in BackpressureLevel]

    assert factors == sorted(factors, reverse=True)
    assert (factors[0], factors[-1]) == (1.0, 0.0)
    assert [level.should_throttle() for level in BackpressureLevel] == [False] + [True] * 7
    assert [level for level in BackpressureLevel if level.should_stop()] == [BackpressureLevel.STOP]


def test_scales_do_not_mix() -> None:
    """Comparing with another enumeration or an unknown word raises."""
    with pytest.raises(TypeError, match="TaskType"):
        _ = BackpressureLevel.HIGH >= TaskType.SELFPLAY
    with pytest.raises(ValueError, match="higher"):
        _ = BackpressureLevel.HIGH >= "higher"


def test_boards_are_known_by_their_short_names() -> None:
    """A board is found by its value and by its other names; the rest is unknown."""
    assert [BoardType(name).value for name in ("hexsmall", "sq8", "SQ19", "hexlarge")] == [
        "hex8", "square8", "square19", "hexagonal",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="sq9"):
        BoardType("sq9")
    assert QueueType("training_data") is QueueType.TRAINING_DATA


def test_a_result_is_true_only_when_healthy() -> None:
    """``if check():`` means what it looks like, and whoever has a health check is a coordinator."""

    class Mine:
        def health_check(self) -> HealthCheckResult:
            return HealthCheckResult(healthy=False, status=CoordinatorStatus.DEGRADED, message="slow")

    assert not Mine().health_check()
    assert HealthCheckResult(healthy=True)
    assert isinstance(Mine(), CoordinatorProtocol)
    assert not isinstance(Mine(), DaemonProtocol)


def test_a_history_keeps_the_last() -> None:
    """It has a limit, and tells the newest of what it keeps."""
    history: BoundedHistory[int] = BoundedHistory(max_size=3)
    for number in range(5):
        history.append(number)

    assert (list(history), len(history), history.max_size) == ([2, 3, 4], 3, 3)
    assert (history.get_recent(2), history.get_recent(9), history.get_recent(0)) == ([3, 4], [2, 3, 4], [])
    history.clear()
    assert not list(history)
    with pytest.raises(ValueError, match="max_size"):
        BoundedHistory(max_size=0)


def test_one_callback_that_fails_spoils_nothing() -> None:
    """All are called in order, plain and async; what went wrong is returned; none is called twice or after its end."""
    called: list[str] = []

    def plain(word: str) -> None:
        called.append(word)

    def broken(word: str) -> None:
        raise ValueError(word)

    async def awaited(word: str) -> None:
        called.append(word.upper())

    registry = CallbackRegistry("test")
    for callback in (plain, broken, awaited, plain):
        registry.register(callback)
    [wrong] = asyncio.run(registry.notify("word"))

    assert called == ["word", "WORD"]
    assert str(wrong) == "word"
    assert registry.unregister(plain)
    assert not registry.unregister(plain)
    assert len(registry) == 2
