"""The documented signals are those that the loop goes by."""

import pytest

from compat.subscribers import home
from compat.test_duties import keep, write
from ringrift.evaluation.interval import Interval
from ringrift.kernel.errors import UnknownName
from ringrift.kernel.settings import Policy
from ringrift.pipeline import signals
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.signals import FEEDBACK, Feedback
from ringrift_compat.embedded_node import embedded
from ringrift_compat.pipeline.unified_signals import UnifiedSignalComputer
from unit.pipeline.story import VARIANT, at

__all__ = ["home"]
DAY = 86_400.0


def store(feedback: Feedback) -> Line:
    """Store a line that collects games, and its *feedback*."""
    line = at(Stage.COLLECTING, rounds=0).line
    keep(line)
    write(lambda tx: FEEDBACK.put(tx, [feedback]))
    return line


@pytest.mark.parametrize(
    ("pace", "trend"),
    [
        (None, "unknown"),
        (Interval(value=20.0, lower=10.0, upper=30.0), "rising"),
        (Interval(value=20.0, lower=-10.0, upper=50.0), "steady"),
        (Interval(value=0.5, lower=0.0, upper=1.0), "flat"),
    ],
)
def test_the_trend_of_the_strength_is_that_of_the_ratings(pace: Interval | None, trend: str) -> None:
    """It is certain only where its bounds are, and the bounds are there too."""
    store(Feedback(variant=VARIANT, velocity=pace))

    computed = UnifiedSignalComputer().compute_signals(VARIANT)

    assert computed.elo_trend == trend
    assert computed.elo_per_hour == (None if pace is None else (pace.value, pace.lower, pace.upper))


def test_a_lost_champion_is_a_regression_and_makes_training_urgent_until_it_expires() -> None:
    """The effect of a sure regression is in force for a day; the urgency is the one that the loop computes."""
    now = embedded.node().clock.now()
    evidence = signals._Signal(name="regression", value=-9, lower=-20, upper=-1, limit=0, certain=True, rule="")
    line = store(Feedback(variant=VARIANT, effects=signals.apply_signal((), evidence, now)))
    before = UnifiedSignalComputer().compute_signals(VARIANT)
    expired = signals.apply_signal((), evidence, now - 2 * DAY)

    store(Feedback(variant=VARIANT, effects=expired))
    after = UnifiedSignalComputer().compute_signals(VARIANT)

    assert (before.regression, after.regression) == (True, False)
    assert before.effects == {"review_promotions": 1}
    assert before.urgency - after.urgency == pytest.approx(signals.URGENCY_REGRESSION)
    policy = embedded.node().settings.policy
    assert after.urgency == signals.urgency(line, Feedback(variant=VARIANT), policy, now).lower


def test_rejections_in_a_row_are_a_plateau_at_the_limit_of_the_policy() -> None:
    """One fewer is none."""
    limit = Policy().plateau_rejections
    results = []
    for rejections in (limit - 1, limit):
        store(Feedback(variant=VARIANT, rejections=rejections))
        results.append(UnifiedSignalComputer().compute_signals(VARIANT).plateau)

    assert results == [False, True]


def test_a_variant_that_is_not_open_is_named() -> None:
    """The error lists the open ones; without a line there are no signals."""
    assert UnifiedSignalComputer().compute_all() == {}
    store(Feedback(variant=VARIANT))

    with pytest.raises(UnknownName, match=f"unknown variant 'hex9_2p'; known: {VARIANT}"):
        UnifiedSignalComputer().compute_signals("hex9_2p")


def test_the_documented_modules_serve_the_same_class() -> None:
    """The signals, the feedback and the older package have one computer."""
    from app.coordination.feedback_signals import TrainingSignals
    from app.coordination.unified_feedback import UnifiedSignalComputer as Feedbacks
    from app.training.unified_signals import UnifiedSignalComputer as Signals

    assert Feedbacks is Signals is UnifiedSignalComputer
    assert TrainingSignals.__module__ == UnifiedSignalComputer.__module__
