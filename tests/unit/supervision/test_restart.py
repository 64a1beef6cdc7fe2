"""A daemon is started again after growing pauses, until it fails too often in too short a time."""

import pytest

from ringrift.supervision.restart import Again, Enough, judge
from ringrift.supervision.spec import Restart

RULE = Restart(times=3, seconds=100.0, first_seconds=1.0, seconds_max=3.0)


def test_pauses_double_and_then_it_is_enough() -> None:
    """Three failures are forgiven with growing pauses; the fourth within the window is one too many."""
    failures: tuple[float, ...] = ()
    answers = []

    for tick in (10.0, 20.0, 30.0, 40.0):
        answer = judge(failures, tick, RULE)
        failures = answer.failures
        answers.append(answer)

    assert [one.seconds for one in answers if isinstance(one, Again)] == [1.0, 2.0, 3.0]
    assert answers[-1] == Enough(failures=(10.0, 20.0, 30.0, 40.0))


def test_failures_outside_the_window_are_forgotten() -> None:
    """A daemon that fails now and then is never given up, and its pauses begin anew."""
    failures: tuple[float, ...] = ()

    for tick in range(0, 5000, 50):
        answer = judge(failures, float(tick), RULE)
        assert isinstance(answer, Again)
        failures = answer.failures

    assert len(failures) == 2
    assert judge(failures, 10_000.0, RULE) == Again(seconds=1.0, failures=(10_000.0,))


@pytest.mark.parametrize(("gap", "enough"), [(33.3, True), (33.4, False), (34.0, False)])
def test_the_window_has_an_exact_end(gap: float, enough: bool) -> None:
    """A failure counts for the seconds of the rule, and not a moment longer."""
    failures: tuple[float, ...] = (0.0, gap, 2 * gap)

    assert isinstance(judge(failures, 3 * gap, RULE), Enough) is enough


def test_a_daemon_that_may_not_fail_is_given_up_at_once() -> None:
    """No forgiveness means that the first failure is enough."""
    rule = Restart(times=0, seconds=100.0)

    assert judge((), 5.0, rule) == Enough(failures=(5.0,))
