"""A line is overdue when it has been in its stage for longer than the stage's own limit."""

import msgspec
import pytest

from ringrift.kernel.settings import StageLimits
from ringrift.pipeline.line import Line, Stage, overdue, stay

LIMITS = StageLimits(training_seconds_max=100.0)


def line(stage: Stage = Stage.TRAINING) -> Line:
    """A line that came into *stage* at 1000."""
    return Line(variant="hex8_2p", workload="fake", players=2, stage=stage, since=1000.0)


@pytest.mark.parametrize(("now", "late"), [(900.0, False), (1100.0, False), (1100.5, True), (9000.0, True)])
def test_a_stay_has_a_limit(now: float, late: bool) -> None:
    """At the limit it is still in time, also when the clock went back."""
    assert (overdue(line(), now, LIMITS) is not None) is late


def test_the_verdict_has_the_duration_and_its_limit() -> None:
    """It has value, limit and beginning, like every gate."""
    actual = overdue(line(), 1200.0, LIMITS)

    assert actual is not None
    assert (actual.allowed, actual.value, actual.limit, actual.since) == (False, 200.0, 100.0, 1000.0)


@pytest.mark.parametrize("stage", list(Stage))
def test_every_stage_but_rest_has_a_limit(stage: Stage) -> None:
    """A resting line may rest for ever; no other stage may last for ever."""
    assert (overdue(line(stage), 1e12, StageLimits()) is None) is (stage is Stage.RESTING)


def test_each_stay_is_one_of_its_own() -> None:
    """The same stage again at another time is another stay."""
    again = msgspec.structs.replace(line(), since=2000.0)

    assert stay(line()) == stay(line())
    assert stay(line()) != stay(again)
