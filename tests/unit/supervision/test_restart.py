"""A daemon is started again after growing pauses, until it fails too often in too short a time."""

import pytest

from ringrift.supervision.spec import Restart

RULE = Restart(times=3, seconds=100.0, first_seconds=1.0, seconds_max=3.0)


def test_pauses_double_until_the_daemon_is_given_up() -> None:
    """Three failures are forgiven with growing pauses; the fourth within the window is one too many."""
    failures: tuple[float, ...] = ()
    pauses = []

    for tick in (10.0, 20.0, 30.0, 40.0):
        seconds, failures = RULE.after_failure(failures, tick)
        pauses.append(seconds)

    assert pauses == [1.0, 2.0, 3.0, None]
    assert failures == (10.0, 20.0, 30.0, 40.0)


def test_failures_outside_the_window_are_forgotten() -> None:
    """A daemon that fails now and then is never given up, and its pauses begin anew."""
    failures: tuple[float, ...] = ()

    for tick in range(0, 5000, 50):
        seconds, failures = RULE.after_failure(failures, float(tick))
        assert seconds is not None

    assert len(failures) == 2
    assert RULE.after_failure(failures, 10_000.0) == (1.0, (10_000.0,))


@pytest.mark.parametrize(("gap", "enough"), [(33.3, True), (33.4, False), (34.0, False)])
def test_the_window_has_an_exact_end(gap: float, enough: bool) -> None:
    """A failure counts for the seconds of the rule, and not a moment longer."""
    seconds, _ = RULE.after_failure((0.0, gap, 2 * gap), 3 * gap)

    assert (seconds is None) is enough


def test_a_daemon_that_may_not_fail_is_given_up_at_once() -> None:
    """No forgiveness means that the first failure is enough."""
    assert Restart(times=0, seconds=100.0).after_failure((), 5.0) == (None, (5.0,))
