"""A breaker opens after failures in a row, admits a few attempts when its time is over, and closes only on success."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringrift.kernel import breaker as breakers
from ringrift.kernel.breaker import Breaker, BreakerLimits, BreakerState
from ringrift.kernel.errors import SettingsError

LIMITS = BreakerLimits(failures_max=3, reset_seconds=300.0, tries_max=1)
STEPS = st.tuples(st.sampled_from(["allow", "succeeded", "failed", "undecided"]), st.floats(0, 200))


def opened(at: float = 0.0) -> Breaker:
    """A breaker that has just opened."""
    breaker = Breaker()
    for _ in range(LIMITS.failures_max):
        breaker = breakers.failed(breaker, LIMITS, at, "exit 13")
    return breaker


def test_a_breaker_opens_at_the_third_failure_in_a_row() -> None:
    """Two failures and a success count for nothing; three failures in a row open it, and it records the last error."""
    breaker = breakers.failed(breakers.failed(Breaker(), LIMITS, 0.0), LIMITS, 0.0)
    assert breakers.allow(breaker, LIMITS, 0.0) == (breaker, True)

    breaker = breakers.succeeded(breaker)

    assert breakers.state(breaker, LIMITS, 0.0) is BreakerState.CLOSED
    assert breakers.state(breakers.failed(breaker, LIMITS, 0.0), LIMITS, 0.0) is BreakerState.CLOSED
    assert breakers.state(opened(), LIMITS, 0.0) is BreakerState.OPEN
    assert opened().error == "exit 13"


def test_an_open_breaker_admits_no_attempt() -> None:
    """It refuses up to the last moment of its time, and returns the remaining seconds."""
    breaker = opened(at=50.0)

    assert not breakers.allow(breaker, LIMITS, 349.9)[1]
    assert breakers.seconds_left(breaker, LIMITS, 340.0) == pytest.approx(10.0)
    assert breakers.seconds_left(breaker, LIMITS, 1000.0) == 0.0
    assert breakers.seconds_left(Breaker(), LIMITS, 0.0) == 0.0


def test_half_open_admits_one_attempt_that_decides() -> None:
    """The second attempt waits for the outcome of the first: success closes, failure opens for the whole time again."""
    breaker, allowed = breakers.allow(opened(), LIMITS, 300.0)

    assert (allowed, breakers.state(breaker, LIMITS, 300.0)) == (True, BreakerState.HALF_OPEN)
    assert not breakers.allow(breaker, LIMITS, 300.0)[1]
    assert breakers.state(breakers.succeeded(breaker), LIMITS, 300.0) is BreakerState.CLOSED
    again = breakers.failed(breaker, LIMITS, 310.0)
    assert (breakers.state(again, LIMITS, 609.0), breakers.state(again, LIMITS, 610.0)) == (
        BreakerState.OPEN,
        BreakerState.HALF_OPEN,
    )
    assert breakers.allow(again, LIMITS, 610.0)[1]


def test_an_attempt_without_outcome_returns_its_permit() -> None:
    """An admitted attempt with nothing to do leaves the permit to the next."""
    breaker, _ = breakers.allow(opened(), LIMITS, 300.0)

    assert breakers.allow(breakers.undecided(breaker), LIMITS, 300.0)[1]
    assert breakers.undecided(Breaker()) == Breaker()


def test_an_unreported_attempt_holds_its_permit_for_a_limited_time() -> None:
    """An attempt that crashed does not block the breaker for ever."""
    breaker, _ = breakers.allow(opened(), LIMITS, 300.0)

    assert not breakers.allow(breaker, LIMITS, 599.0)[1]
    again, allowed = breakers.allow(breaker, LIMITS, 600.0)
    assert (allowed, again.tries) == (True, 1)


def test_late_failures_do_not_extend_the_open_time() -> None:
    """An attempt that began before it opened and fails later does not change its time."""
    late = breakers.failed(opened(at=0.0), LIMITS, 200.0)

    assert breakers.seconds_left(late, LIMITS, 200.0) == pytest.approx(100.0)


@given(st.lists(STEPS, max_size=60))
def test_a_breaker_is_never_stuck_and_never_open_too_early(steps: list[tuple[str, float]]) -> None:
    """In every history: fewer failures in a row than the limit leave it closed, half open admits no more than its
    permits, and once its time is over and all have reported, an attempt is admitted."""
    breaker, tick, row = Breaker(), 0.0, 0
    for what, seconds in steps:
        tick += seconds
        match what:
            case "allow":
                breaker, _ = breakers.allow(breaker, LIMITS, tick)
            case "succeeded":
                breaker, row = breakers.succeeded(breaker), 0
            case "failed":
                breaker, row = breakers.failed(breaker, LIMITS, tick), row + 1
            case "undecided":
                breaker = breakers.undecided(breaker)
        assert row >= LIMITS.failures_max or breakers.state(breaker, LIMITS, tick) is BreakerState.CLOSED
        assert breaker.tries <= LIMITS.tries_max

    freed = breakers.undecided(breaker)
    assert breakers.allow(freed, LIMITS, tick + LIMITS.reset_seconds + 1.0)[1]


def test_limits_have_ranges() -> None:
    """A breaker that never opens or never admits an attempt is refused."""
    for values in ({"failures_max": 0}, {"tries_max": 0}, {"reset_seconds": -1.0}):
        with pytest.raises(SettingsError):
            BreakerLimits(**values)  # type: ignore[arg-type]  # one wrong value at a time
