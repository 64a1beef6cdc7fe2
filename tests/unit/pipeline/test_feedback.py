"""A trend is published when the bounds of the velocity name another one; a plateau once, until a promotion ends it."""

import pytest

from ringrift.evaluation.budget import open_account
from ringrift.evaluation.interval import Interval
from ringrift.events import evaluation, model, pipeline
from ringrift.events.base import Event
from ringrift.events.evaluation import Rated, Strength, Summary
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import changed
from ringrift.pipeline.decide import _DECIDERS, decide
from ringrift.pipeline.feedback import update_feedback
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.ratings import ChampionPeriod, LineRatings
from ringrift.pipeline.signals import Feedback, trend
from ringrift.pipeline.step import Context, Step, context_for

HOUR = 3600.0
V = "hex8_2p"
POLICY = Policy(plateau_rejections=4)
LINE = Line(variant=V, workload="fake", players=2, stage=Stage.COLLECTING, champion="c", generation=3, tries=9)


def context(feedback: Feedback, at: float, ratings: LineRatings | None = None) -> Context:
    """Return the context of a decision."""
    context = context_for(LINE, POLICY, at, open_account(POLICY.budget))
    return changed(context, feedback=feedback, ratings=ratings or context.ratings)


def match(*, promoted: bool) -> evaluation.Finished:
    """A decided match."""
    return evaluation.Finished(
        variant=V, candidate="c", champion="d", blocks=16, score=0.5, elo=20.0, promoted=promoted
    )


def match_history(*results: bool) -> tuple[Feedback, list[tuple[int, Event]]]:
    """Play one match an hour with each of *results*: the feedback at the end, and the events of each match."""
    feedback, events = Feedback(variant=V), []
    for number, promoted in enumerate(results):
        step = update_feedback(LINE, match(promoted=promoted), context(feedback, HOUR * number))
        assert step.feedback is not None
        feedback, events = step.feedback, [*events, *((number, event) for event in step.events)]
    return feedback, events


def rate(before: Feedback, *elos: float, half: float = 1.0) -> Step:
    """The step after ratings of champions of these strengths, one an hour."""
    strengths = [
        Strength(weights=f"m{n}", settings="", elo=elo, lower=elo - half, upper=elo + half, blocks=9, anchored=True)
        for n, elo in enumerate(elos)
    ]
    periods = tuple(ChampionPeriod(model=f"m{n}", generation=n, since=n * HOUR) for n in range(len(elos)))
    summary = Summary(players=len(elos), blocks=9, strengths=tuple(strengths))
    event = Rated(variant=V, report="r", tally="t", node="n", summary=summary)
    return update_feedback(LINE, event, context(before, HOUR * len(elos), LineRatings(variant=V, periods=periods)))


@pytest.mark.parametrize(
    ("pace", "expected"),
    [
        (None, "unknown"),
        (Interval(value=0.0, lower=-1.0, upper=1.0), "flat"),
        (Interval(value=0.0, lower=-9.0, upper=9.0), "steady"),
        (Interval(value=9.0, lower=5.0, upper=13.0), "rising"),
    ],
)
def test_a_trend_needs_conclusive_bounds(pace: Interval | None, expected: str) -> None:
    """Bounds that allow both are steady."""
    assert trend(pace) == expected


def test_a_trend_is_published_when_it_changes() -> None:
    """With the velocity that the signals go by, and from what to what; the same again is not published."""
    first = rate(Feedback(variant=V), 0.0, 40.0, 80.0, 120.0)
    [event] = first.events
    assert first.feedback is not None
    assert first.feedback.velocity is not None

    assert event == evaluation.VelocityChanged(
        variant=V, trend="rising", before="unknown", elo_per_hour=first.feedback.velocity.value, champions=4
    )
    assert rate(first.feedback, 0.0, 40.0, 80.0, 120.0).events == ()
    [flat] = rate(first.feedback, *(120.0,) * 8).events
    assert isinstance(flat, evaluation.VelocityChanged)
    assert (flat.trend, flat.before) == ("flat", "rising")


def test_a_line_that_surely_stands_still_plays_more_for_an_export() -> None:
    """If nothing is surely gained the stall has its effect for some hours; while strength grows it has none."""
    still, growing = (rate(Feedback(variant=V), *elos).feedback for elos in ((120.0,) * 8, (0.0, 40.0, 80.0, 120.0)))
    assert still is not None
    assert growing is not None

    [effect] = still.effects
    assert (effect.signal, effect.setting, effect.how, effect.amount) == ("stall", "games_per_export", "times", 1.5)
    assert effect.until > effect.since
    assert growing.effects == ()


def test_too_few_champions_are_no_trend() -> None:
    """Nothing is published, and the velocity is unknown."""
    step = rate(Feedback(variant=V), 40.0)

    assert step.events == ()
    assert step.feedback is not None
    assert (step.feedback.velocity, step.feedback.trend) == (None, "unknown")


def test_a_plateau_is_published_once_and_ends_with_a_promotion() -> None:
    """The fourth rejection in a row begins it; more do not; a promotion ends it, and then it may begin again."""
    _, events = match_history(*(False,) * 6, True, *(False,) * 4)

    assert [number for number, _ in events] == [3, 10]
    assert all(isinstance(event, evaluation.Plateaued) for _, event in events)


def test_a_plateau_names_its_beginning() -> None:
    """From the first rejection after the last promotion."""
    _, [(_, event)] = match_history(True, False, False, False, False)

    assert event == evaluation.Plateaued(variant=V, rejections=4, since=HOUR)


def test_the_event_and_the_effect_begin_together() -> None:
    """There is one definition of a plateau: its event and its effect begin at the same time."""
    before, events = match_history(False, False, False)
    after, more = match_history(False, False, False, False)

    assert (before.effects, events) == ((), [])
    assert ([effect.signal for effect in after.effects], len(more)) == (["plateau"], 1)


def test_other_events_change_nothing() -> None:
    """Only decided matches, ratings and rollbacks are feedback."""
    start = context(Feedback(variant=V), HOUR)

    event = pipeline.Moved(variant=V, stage="exporting", before="collecting")

    assert update_feedback(LINE, event, start) is start.step


def test_every_decider_is_in_the_chain() -> None:
    """The chain is the documented one, and an event that concerns none of them leaves the line alone."""
    event = model.Distributed(variant=V, model="other", nodes=())

    assert [decider.__name__ for decider in _DECIDERS] == [
        "exclude",
        "expire_effects",
        "advance",
        "watch_win_rates",
        "set_lead",
        "update_feedback",
        "hold",
        "restrain",
    ]
    assert decide(LINE, event, context(Feedback(variant=V), HOUR)) == Step(line=LINE)
