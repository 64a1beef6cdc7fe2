"""A line's trend rests on several matches and is said when it changes; a plateau is said once and ends by promotion."""

import pytest

from ringrift.events import evaluation
from ringrift.kernel.settings import Policy
from ringrift.pipeline.feedback import MATCHES_MAX, Decided, Pace, elo_per_hour, feel, trend

HOUR = 3600.0
POLICY = Policy(plateau_rejections=4)


def matches(*gains: float) -> list[Decided]:
    """Decided matches, one an hour."""
    return [Decided(time=HOUR * number, gain=gain) for number, gain in enumerate(gains)]


def match(elo: float) -> evaluation.Finished:
    """A match that promoted a candidate so much stronger, or none at all."""
    return evaluation.Finished(
        variant="hex8_2p", candidate="c", champion="d", blocks=16, score=0.5, elo=elo or -20.0, promoted=elo > 0
    )


def story(*gains: float) -> tuple[Pace, list[str]]:
    """One match an hour with each of *gains*, 0 = rejected: the pace at the end, and what was said at which match."""
    pace, said = Pace(variant="hex8_2p"), []
    for number, gain in enumerate(gains):
        felt = feel(pace, match(gain), POLICY, HOUR * number)
        pace = felt.pace
        for event in felt.events:
            word = event.trend if isinstance(event, evaluation.VelocityChanged) else "plateau"
            said.append(f"{number}:{word}")
    return pace, said


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ((), None),
        ((50.0,), None),
        ((50.0, 50.0), None),
        ((50.0, 0.0, 0.0), "flat"),
        ((0.0, 50.0, 50.0), "steady"),
        ((50.0, 50.0, 0.0), "steady"),
        ((0.0, 0.0, 50.0), "rising"),
        ((0.0, 20.0, 20.0, 50.0, 50.0), "rising"),
        ((0.0, 40.0, 40.0, 20.0, 20.0), "steady"),
    ],
)
def test_a_trend_compares_the_newer_half_with_the_older(gains: tuple[float, ...], expected: str | None) -> None:
    """Too few matches say nothing; no gain at all is flat; much more than before is rising."""
    assert trend(matches(*gains), "unknown") == expected


def test_a_line_that_is_rising_stays_so_while_it_gets_faster() -> None:
    """It takes less to stay rising than to become it, so that one match does not turn it round."""
    faster = matches(0.0, 20.0, 20.0, 25.0, 25.0)

    assert (trend(faster, "steady"), trend(faster, "rising")) == ("steady", "rising")
    assert trend(matches(0.0, 20.0, 20.0, 20.0, 20.0), "rising") == "steady"


def test_the_pace_counts_what_was_gained_after_the_first_match() -> None:
    """The first match only says when the clock starts; equal times do not divide by nothing."""
    assert elo_per_hour(matches(1000.0, 30.0, 0.0, 30.0)) == pytest.approx(20.0)
    assert elo_per_hour([Decided(time=5.0, gain=1.0)] * 3) == pytest.approx(2.0 * HOUR)


def test_a_trend_is_said_when_it_changes() -> None:
    """At the third match for the first time, then only with another word."""
    _, said = story(30.0, 30.0, 30.0, 30.0, 30.0)

    assert said == ["2:steady"]


def test_the_change_says_from_what_to_what_and_on_how_many_matches() -> None:
    """With the pace in Elo an hour over the matches that are remembered."""
    pace = Pace(variant="hex8_2p", trend="flat", matches=tuple(matches(0.0, 0.0)), rejections=2)

    [said] = feel(pace, match(60.0), POLICY, 2 * HOUR).events

    assert said == evaluation.VelocityChanged(
        variant="hex8_2p", trend="rising", before="flat", elo_per_hour=30.0, matches=3
    )


def test_a_plateau_is_said_once_and_ends_with_a_promotion() -> None:
    """The fourth rejection in a row says it; more do not; a promotion ends it, and the next one is said again."""
    _, said = story(*(0.0,) * 6, 30.0, *(0.0,) * 4)

    assert [word for word in said if word.endswith("plateau")] == ["3:plateau", "10:plateau"]


def test_a_plateau_says_since_when() -> None:
    """From the first rejection after the last promotion."""
    pace, _ = story(30.0, 0.0, 0.0, 0.0)

    [said] = feel(pace, match(0.0), POLICY, 4 * HOUR).events

    assert said == evaluation.Plateaued(variant="hex8_2p", rejections=4, since=HOUR)


def test_only_the_last_matches_are_remembered() -> None:
    """What is kept does not grow."""
    pace, _ = story(*(30.0,) * 50)

    assert len(pace.matches) == MATCHES_MAX
