"""A breaker opens after failures in a row, admits a few attempts when its time is over, and closes only on success."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringrift.kernel import breaker as breakers
from ringrift.kernel.breaker import Breaker, BreakerLimits, BreakerState
from ringrift.kernel.errors import SettingsError

LIMITS = BreakerLimits(failures_max=3, reset_seconds=300.0, tries_max=1)
STEPS = st.sampled_from(["allow", "succeeded", "failed", "undecided", "rested"])


def opened() -> Breaker:
    """A breaker that has just opened."""
    breaker = Breaker()
    for _ in range(LIMITS.failures_max):
        breaker = breakers.failed(breaker, LIMITS, "exit 13")
    return breaker


def test_a_breaker_opens_at_the_third_failure_in_a_row() -> None:
    """Two failures and a success count for nothing; three failures in a row open it, and it records the last error."""
    breaker = breakers.failed(breakers.failed(Breaker(), LIMITS), LIMITS)
    assert breakers.allow(breaker, LIMITS) == (breaker, True)

    breaker = breakers.succeeded(breaker)

    assert (breaker.state, breaker.failures) == (BreakerState.CLOSED, 0)
    assert breakers.failed(breaker, LIMITS).state is BreakerState.CLOSED
    assert (opened().state, opened().opened) == (BreakerState.OPEN, 1)
    assert opened().error == "exit 13"


def test_failures_that_may_not_open_it_are_counted() -> None:
    """As long as it may not open, failures only add up; the first one that may then opens it."""
    breaker = Breaker()
    for _ in range(5):
        breaker = breakers.failed(breaker, LIMITS, may_open=False)
    assert (breaker.state, breaker.failures) == (BreakerState.CLOSED, 5)

    assert breakers.failed(breaker, LIMITS).state is BreakerState.OPEN


def test_an_open_breaker_admits_no_attempt_until_it_has_rested() -> None:
    """Only the observer ends its time, and that changes nothing of a breaker that is not open."""
    assert not breakers.allow(opened(), LIMITS)[1]
    assert breakers.rested(opened()).state is BreakerState.HALF_OPEN
    assert breakers.rested(Breaker()) == Breaker()


def test_half_open_admits_one_attempt_that_decides() -> None:
    """The second attempt waits for the outcome of the first: success closes, failure opens for the whole time again."""
    breaker, allowed = breakers.allow(breakers.rested(opened()), LIMITS)

    assert (allowed, breaker.state) == (True, BreakerState.HALF_OPEN)
    assert not breakers.allow(breaker, LIMITS)[1]
    assert breakers.succeeded(breaker).state is BreakerState.CLOSED
    again = breakers.failed(breaker, LIMITS, may_open=False)
    assert (again.state, again.opened) == (BreakerState.OPEN, 2)
    assert breakers.allow(breakers.rested(again), LIMITS)[1]


def test_an_attempt_without_outcome_returns_its_permit() -> None:
    """An admitted attempt with nothing to do leaves the permit to the next."""
    breaker, _ = breakers.allow(breakers.rested(opened()), LIMITS)

    assert breakers.allow(breakers.undecided(breaker), LIMITS)[1]
    assert breakers.undecided(Breaker()) == Breaker()


def test_late_failures_do_not_extend_the_open_time() -> None:
    """An attempt that began before it opened and fails later does not make it open once more."""
    assert breakers.failed(opened(), LIMITS).opened == 1


@given(st.lists(STEPS, max_size=60))
def test_a_breaker_is_never_stuck_and_never_open_too_early(steps: list[str]) -> None:
    """In every history: fewer failures in a row than the limit leave it closed, half open admits no more than its
    permits, and once its time is over and all have reported, an attempt is admitted."""
    breaker, row = Breaker(), 0
    for step in steps:
        match step:
            case "allow":
                breaker, _ = breakers.allow(breaker, LIMITS)
            case "succeeded":
                breaker, row = breakers.succeeded(breaker), 0
            case "failed":
                breaker, row = breakers.failed(breaker, LIMITS), row + 1
            case "undecided":
                breaker = breakers.undecided(breaker)
            case "rested":
                breaker = breakers.rested(breaker)
        assert row >= LIMITS.failures_max or breaker.state is BreakerState.CLOSED
        assert breaker.tries <= LIMITS.tries_max

    freed = breakers.rested(breakers.undecided(breaker))
    assert breakers.allow(freed, LIMITS)[1]


def test_limits_have_ranges() -> None:
    """A breaker that never opens or never admits an attempt is refused."""
    for values in ({"failures_max": 0}, {"tries_max": 0}, {"reset_seconds": -1.0}):
        with pytest.raises(SettingsError):
            BreakerLimits(**values)  # type: ignore[arg-type]  # one wrong value at a time
