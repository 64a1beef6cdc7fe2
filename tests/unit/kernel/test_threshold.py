"""The rule of thresholds that move: direction, size of the step, bounds, and when there is none."""

import pytest

from ringrift.kernel.errors import SettingsError
from ringrift.kernel.threshold import OUTCOMES_MIN, Strategy, Threshold, adjusted

RULE = Threshold(low=5.0, high=120.0)
BAD, GOOD = [False] * OUTCOMES_MIN, [True] * OUTCOMES_MIN
HALF = [True, False] * (OUTCOMES_MIN // 2)


@pytest.mark.parametrize("strategy", Strategy)
def test_failures_loosen_and_successes_tighten(strategy: Strategy) -> None:
    """Too few good outcomes move the value up where higher is more permissive, and all good ones move it down."""
    rule = Threshold(low=5.0, high=120.0, strategy=strategy)
    other = Threshold(low=5.0, high=120.0, strategy=strategy, permissive_high=False)

    assert adjusted(rule, 30.0, BAD, 60.0) > 30.0 > adjusted(rule, 30.0, GOOD, 60.0)
    assert adjusted(other, 30.0, BAD, 60.0) < 30.0 < adjusted(other, 30.0, GOOD, 60.0)


def test_the_strategy_is_the_size_of_the_step() -> None:
    """Linear counts the range, exponential the value, adaptive also how far the rate is from its target."""
    steps = {
        strategy: adjusted(Threshold(low=5.0, high=120.0, strategy=strategy), 30.0, HALF, 60.0) - 30.0
        for strategy in Strategy
    }

    assert steps[Strategy.LINEAR] == pytest.approx(11.5)
    assert steps[Strategy.EXPONENTIAL] == pytest.approx(3.0)
    assert steps[Strategy.ADAPTIVE] == pytest.approx(3.0 * 0.45 / 0.95)
    assert adjusted(RULE, 30.0, BAD, 60.0) == pytest.approx(33.0)
    assert adjusted(RULE, 30.0, GOOD, 60.0) == pytest.approx(27.0)


def test_it_waits_for_the_cooldown_and_for_enough_outcomes() -> None:
    """Within the cooldown, with few outcomes or at its target a value stays; a full short window is enough."""
    short = Threshold(low=5.0, high=120.0, window=3)

    assert adjusted(RULE, 30.0, BAD, 59.9) == 30.0
    assert adjusted(RULE, 30.0, BAD[1:], 60.0) == 30.0
    assert adjusted(RULE, 30.0, [True] * 95 + [False] * 5, 60.0) == 30.0
    assert adjusted(short, 30.0, BAD[:2], 60.0) == 30.0
    assert adjusted(short, 30.0, BAD[:3], 60.0) > 30.0


def test_it_stays_within_its_bounds() -> None:
    """A step never leads out of the range, and a value of 0 can be left."""
    around = Threshold(low=0.0, high=10.0)

    assert adjusted(RULE, 119.0, BAD, 60.0) == 120.0
    assert adjusted(RULE, 5.1, GOOD, 60.0) == 5.0
    assert 0.0 < adjusted(around, 0.0, BAD, 60.0) <= 10.0
    assert adjusted(Threshold(low=1.0, high=2.0, target=1.0), 1.5, GOOD, 60.0) == 1.5


@pytest.mark.parametrize(
    "wrong",
    [{"low": 2.0, "high": 2.0}, {"target": 0.0}, {"target": 1.1}, {"factor": 0.0}, {"window": 0},
     {"cooldown_seconds": -1.0}],
)  # fmt: skip
def test_a_rule_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    """The error names the field."""
    with pytest.raises(SettingsError, match=list(wrong)[-1]):
        Threshold(**{"low": 1.0, "high": 2.0, **wrong})
