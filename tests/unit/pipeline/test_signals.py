"""Feedback acts only on what its bounds leave no doubt about, within the bounds of one table, and for a time."""

import math

import msgspec
import pytest

from ringrift.evaluation.interval import Interval
from ringrift.events.model import Evidence
from ringrift.jobs import STAGE, URGENT, Export, Match, Train
from ringrift.kernel.settings import LEAD_MAX, Policy
from ringrift.pipeline.fill import FRESH_EXPORTS_MAX
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.signals import (
    EFFECTS,
    REIGNS_RECENT,
    STALL,
    Effect,
    Influence,
    Signal,
    adjusted,
    ahead,
    expired,
    felt,
    in_force,
    pace_of,
    plateau,
    regression,
    stall,
    steered,
    urgency,
    verdict,
)
from ringrift.pipeline.standing import Reign
from ringrift.pipeline.step import Step

HOUR = 3600.0
NOW = 1000 * HOUR
POLICY = Policy(games_per_export=400, review_promotions=4)
LINE = Line(variant="hex8_2p", workload="fake", players=2, stage=Stage.COLLECTING, champion="c", generation=3)
RULES = {rule.signal: rule for rule in EFFECTS}


def between(lower: float, upper: float) -> Interval:
    """An interval with these bounds."""
    return Interval(value=(lower + upper) / 2, lower=lower, upper=upper)


def reigns(*elos: float, width: float = 10.0, every: float = HOUR) -> list[Reign]:
    """Champions of these strengths, one after the other, the last one until now."""
    begin = NOW - every * len(elos)
    return [
        Reign(model=f"m{n}", generation=n, since=begin + every * n, elo=between(elo - width, elo + width))
        for n, elo in enumerate(elos)
    ]


def lost(score: float, blocks: int) -> Evidence:
    """What a review found."""
    return Evidence(blocks=blocks, score=score, llr=-3.0, lower=-2.9, upper=2.9, rule="below")


def effects_of(signal: Signal, *, times: int = 1) -> tuple[Effect, ...]:
    """What comes of *signal* when it is felt so often, an hour apart, the last time now."""
    effects: tuple[Effect, ...] = ()
    for number in range(times):
        effects = felt(effects, signal, NOW - HOUR * (times - 1 - number))
    return effects


# -- what is certain ---------------------------------------------------------------------------------------------------


def test_a_pace_rests_on_the_newest_champions_and_on_now() -> None:
    """A line that gained 40 an hour is told so; one that then stood still is told less; old reigns say nothing."""
    steady = pace_of(reigns(0.0, 40.0, 80.0, 120.0), NOW)
    assert steady is not None
    assert steady.lower < steady.value < 40.0 <= steady.upper

    later = pace_of(reigns(0.0, 40.0, 80.0, 120.0), NOW + 100 * HOUR)
    assert later is not None
    assert later.value < 2.0

    many = reigns(*range(0, 400, 40), *(360.0,) * REIGNS_RECENT)
    stood = pace_of(many, NOW)
    assert stood is not None
    assert stood.value == pytest.approx(0.0, abs=1e-9)


def test_too_few_champions_show_no_pace() -> None:
    """Without ratings, or with one champion only, nothing is said, and nothing is certain."""
    unrated = [msgspec.structs.replace(one, elo=None) for one in reigns(0.0, 40.0, 80.0)]

    assert pace_of([], NOW) is None
    assert pace_of(unrated, NOW) is None
    assert pace_of(reigns(0.0), NOW) is None
    assert not stall(None).certain
    assert stall(None).upper == math.inf


@pytest.mark.parametrize(
    ("pace", "stalls"),
    [
        (between(-5.0, STALL - 0.1), True),
        (between(-5.0, STALL + 0.1), False),
        (between(-500.0, 500.0), False),
        (between(STALL, 500.0), False),
    ],
)
def test_a_wide_interval_makes_no_signal(pace: Interval, stalls: bool) -> None:
    """Only the bound that speaks against the claim decides: a line that may gain a lot does not stall."""
    assert stall(pace).certain is stalls


@pytest.mark.parametrize(("rejections", "certain"), [(0, False), (4, False), (7, False), (8, True), (20, True)])
def test_a_plateau_takes_enough_rejections_to_be_sure(rejections: int, certain: bool) -> None:
    """After seven in a row a third of all candidates may still pass by chance; after eight that is ruled out."""
    said = plateau(rejections)

    assert said.certain is certain
    assert (1.0 - said.upper) ** rejections == pytest.approx(0.05 if rejections else 1.0)


@pytest.mark.parametrize(
    ("evidence", "certain"), [(None, False), (lost(0.45, 20), False), (lost(0.40, 400), True), (lost(0.6, 400), False)]
)
def test_a_regression_is_what_blocks_say(evidence: Evidence | None, certain: bool) -> None:
    """Going back by hand, or on a few blocks, is no reason to change anything."""
    assert regression(evidence, 2).certain is certain


# -- the table ---------------------------------------------------------------------------------------------------------


def test_the_table_leaves_evidence_alone() -> None:
    """Every setting is a number of the policy; none is a gate, a budget or what a plateau is; every effect ends."""
    numbers = {name for name in Policy.__struct_fields__ if isinstance(getattr(POLICY, name), int)}

    assert {rule.setting for rule in EFFECTS} <= numbers - {"plateau_rejections", "seed"}
    assert all(0 < rule.seconds <= 24 * HOUR for rule in EFFECTS)


def test_more_games_for_an_export_can_always_be_had() -> None:
    """Self-play stops when so many exports' worth of games wait: an effect must not ask for more than that."""
    assert max(rule.bound for rule in EFFECTS if rule.setting == "games_per_export") < FRESH_EXPORTS_MAX


@pytest.mark.parametrize(("times", "games"), [(1, 600), (2, 800), (3, 800), (50, 800)])
def test_a_plateau_asks_for_more_games_up_to_its_bound(times: int, games: int) -> None:
    """Half as many more, at most twice as many, however often it is felt."""
    assert adjusted(POLICY, effects_of(plateau(8), times=times), NOW).games_per_export == games


def test_the_newest_signal_about_a_setting_counts() -> None:
    """A plateau of a line that stalls replaces its effect, and does not multiply with it."""
    effects = felt(effects_of(stall(between(-5.0, 1.0)), times=2), plateau(8), NOW + 1.0)

    assert [effect.signal for effect in effects] == ["plateau"]
    assert adjusted(POLICY, effects, NOW + 1.0).games_per_export == 600


def test_a_regression_brings_the_next_review_sooner() -> None:
    """After every promotion, for a day; where reviews are off they stay off."""
    effects = effects_of(regression(lost(0.4, 400), 2))
    off = msgspec.structs.replace(POLICY, review_promotions=0)

    assert adjusted(POLICY, effects, NOW).review_promotions == 1
    assert adjusted(POLICY, effects, NOW + 24 * HOUR).review_promotions == 4
    assert adjusted(off, effects, NOW).review_promotions == 0


def test_a_signal_in_doubt_changes_nothing() -> None:
    """What was in force stays as it was, and nothing new comes."""
    before = effects_of(plateau(8))

    assert felt(before, plateau(3), NOW + 1.0) == before
    assert felt((), plateau(3), NOW) == ()


@pytest.mark.parametrize("signal", ["plateau", "stall", "regression"])
def test_an_effect_ends_by_itself(signal: str) -> None:
    """Up to the last moment it holds, from then on it is gone; one from the future does not hold either."""
    sure = Signal(name=signal, value=0, lower=0, upper=0, limit=0, certain=True, rule="r")
    [effect] = effects_of(sure)
    until = NOW + RULES[signal].seconds

    assert effect.until == until
    assert in_force([effect], until - 1.0) == (effect,)
    assert in_force([effect], until) == ()
    assert in_force([effect], NOW - 1.0) == ()
    assert adjusted(POLICY, [effect], until) == POLICY


# -- who trains first --------------------------------------------------------------------------------------------------


def test_who_has_more_games_waiting_trains_first() -> None:
    """Urgency grows with them up to its share, and the lead with it."""
    fresh = [msgspec.structs.replace(LINE, fresh=games) for games in (0, 400, 1600, 99_999)]

    said = [urgency(line, Influence(variant="hex8_2p"), POLICY, NOW).lower for line in fresh]
    leads = [steered(line, Influence(variant="hex8_2p"), POLICY, NOW).lead for line in fresh]

    assert said == pytest.approx([0.0, 0.125, 0.5, 0.5])
    assert leads == [0, 1, 4, 4]


def test_a_pace_counts_only_as_far_as_it_is_sure() -> None:
    """An unknown one and one that may be none add nothing to the lower bound, which alone is acted on."""
    paces = (None, between(-500.0, 600.0), between(25.0, 75.0), between(60.0, 90.0))

    said = [urgency(LINE, Influence(variant="hex8_2p", pace=pace), POLICY, NOW) for pace in paces]

    assert [one.lower for one in said] == pytest.approx([0.0, 0.0, 0.15, 0.3])
    assert [one.upper for one in said] == pytest.approx([0.006, 0.3, 0.3, 0.3])
    assert all(one.lower <= one.value <= one.upper for one in said)


def test_a_line_that_lost_its_champion_goes_first_for_a_day() -> None:
    """All together make an urgency of 1 and the largest lead there is."""
    after = Influence(variant="hex8_2p", effects=effects_of(regression(lost(0.4, 400), 2)), pace=between(60.0, 90.0))
    full = msgspec.structs.replace(LINE, fresh=1600)

    assert urgency(full, after, POLICY, NOW).lower == pytest.approx(1.0)
    assert steered(full, after, POLICY, NOW).lead == LEAD_MAX
    assert urgency(full, after, POLICY, NOW + 24 * HOUR).lower == pytest.approx(0.8)


def test_a_lead_moves_training_and_nothing_else() -> None:
    """Export and Train go before those of other lines, never before what is urgent; a match keeps its place."""
    jobs = (
        Export(variant="hex8_2p", batches=("b",), priority=STAGE),
        Train(variant="hex8_2p", generation=1, priority=STAGE),
        Match(variant="hex8_2p", candidate="c", champion="d", first=0, count=1),
    )

    step = ahead(Step(line=LINE, jobs=jobs), LEAD_MAX, NOW)

    assert [job.priority for job in step.jobs] == [STAGE + LEAD_MAX, STAGE + LEAD_MAX, jobs[2].priority]
    assert STAGE + LEAD_MAX < URGENT
    assert [(said.gate, said.allowed, said.value) for said in step.verdicts] == [("feedback urgency", True, LEAD_MAX)]
    assert ahead(Step(line=LINE, jobs=jobs), 0, NOW).jobs == jobs
    assert ahead(Step(line=LINE, jobs=jobs[2:]), LEAD_MAX, NOW) == Step(line=LINE, jobs=jobs[2:])


# -- why ---------------------------------------------------------------------------------------------------------------


def test_a_verdict_says_why_an_effect_is_in_force_or_not() -> None:
    """By which bound, against which limit, and until when."""
    sure, doubtful = plateau(8), plateau(4)
    effects = effects_of(sure)

    said = verdict(sure, effects, NOW)
    assert (said.gate, said.allowed, said.until) == ("feedback plateau", True, NOW + 6 * HOUR)
    assert said.value == pytest.approx(0.3123, abs=1e-4)

    refused = verdict(doubtful, (), NOW)
    assert (refused.allowed, refused.until) == (False, None)
    assert refused.value > refused.limit


def test_a_verdict_on_what_nobody_knows_is_a_number_all_the_same() -> None:
    """JSON has no infinity; the rule says that there was not enough."""
    said = verdict(stall(None), (), NOW)

    assert (said.allowed, said.value) == (False, 0.0)
    assert said.rule.endswith("there is not enough to say")


def test_an_effect_that_is_over_says_so() -> None:
    """Under the same gate, so that it replaces what was said before."""
    [effect] = effects_of(plateau(8))

    said = expired(effect, NOW + 6 * HOUR)

    assert (said.gate, said.allowed) == ("feedback plateau", False)
    assert said.rule == "its effect on games_per_export has expired"
