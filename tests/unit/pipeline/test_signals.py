"""Feedback acts only on what its bounds leave no doubt about, within the bounds of one table, and for a time."""

import math

import msgspec
import pytest

from ringrift.evaluation.budget import open_account
from ringrift.evaluation.interval import Interval
from ringrift.events.model import Evidence
from ringrift.events.pipeline import Moved
from ringrift.jobs import STAGE, URGENT, Export, Job, Match, Train
from ringrift.kernel.settings import LEAD_MAX, Policy
from ringrift.kernel.value import changed
from ringrift.pipeline.feedback import set_lead
from ringrift.pipeline.line import FRESH_EXPORTS_MAX, Line, Stage
from ringrift.pipeline.ratings import ChampionPeriod
from ringrift.pipeline.signals import (
    _EFFECTS,
    PERIODS_RECENT,
    STALL,
    Feedback,
    _adjust_policy,
    _Effect,
    _Signal,
    active_effects,
    apply_signal,
    expiry_verdict,
    plateau,
    regression,
    signal_verdict,
    stall,
    steer,
    urgency,
    velocity_of,
)
from ringrift.pipeline.step import Step, context_for

HOUR = 3600.0
NOW = 1000 * HOUR
POLICY = Policy(games_per_export=400, review_promotions=4)
LINE = Line(variant="hex8_2p", workload="fake", players=2, stage=Stage.COLLECTING, champion="c", generation=3)
MOVED = Moved(variant="hex8_2p", stage="exporting", before="collecting")
RULES = {rule.signal: rule for rule in _EFFECTS}


def between(lower: float, upper: float) -> Interval:
    """An interval with these bounds."""
    return Interval(value=(lower + upper) / 2, lower=lower, upper=upper)


def periods(*elos: float, width: float = 10.0, every: float = HOUR) -> list[ChampionPeriod]:
    """Champions of these strengths, one after the other, the last one until now."""
    begin = NOW - every * len(elos)
    return [
        ChampionPeriod(model=f"m{n}", generation=n, since=begin + every * n, elo=between(elo - width, elo + width))
        for n, elo in enumerate(elos)
    ]


def lost(score: float, blocks: int) -> Evidence:
    """Return the result of a lost review."""
    return Evidence(blocks=blocks, score=score, llr=-3.0, lower=-2.9, upper=2.9, rule="below")


def effects_of(signal: _Signal, *, times: int = 1) -> tuple[_Effect, ...]:
    """Return the effects of *signal* applied that often, an hour apart, the last time now."""
    effects: tuple[_Effect, ...] = ()
    for number in range(times):
        effects = apply_signal(effects, signal, NOW - HOUR * (times - 1 - number))
    return effects


# -- what is certain ---------------------------------------------------------------------------------------------------


def test_a_velocity_rests_on_the_newest_champions_and_on_now() -> None:
    """A line that gained 40 an hour has that velocity; one that then stood still a lower one; old periods do not
    count."""
    steady = velocity_of(periods(0.0, 40.0, 80.0, 120.0), NOW)
    assert steady is not None
    assert steady.lower < steady.value < 40.0 <= steady.upper

    later = velocity_of(periods(0.0, 40.0, 80.0, 120.0), NOW + 100 * HOUR)
    assert later is not None
    assert later.value < 2.0

    many = periods(*range(0, 400, 40), *(360.0,) * PERIODS_RECENT)
    stood = velocity_of(many, NOW)
    assert stood is not None
    assert stood.value == pytest.approx(0.0, abs=1e-9)


def test_too_few_champions_have_no_velocity() -> None:
    """Without ratings, or with one champion only, there is no signal, and nothing is certain."""
    unrated = [msgspec.structs.replace(value, elo=None) for value in periods(0.0, 40.0, 80.0)]

    assert velocity_of([], NOW) is None
    assert velocity_of(unrated, NOW) is None
    assert velocity_of(periods(0.0), NOW) is None
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
    """Only the bound against the claim decides: a line that may gain a lot does not stall."""
    assert stall(pace).certain is stalls


@pytest.mark.parametrize(("rejections", "certain"), [(0, False), (4, False), (7, False), (8, True), (20, True)])
def test_a_plateau_takes_enough_rejections_to_be_sure(rejections: int, certain: bool) -> None:
    """After seven in a row a third of all candidates may still pass by chance; after eight that is ruled out."""
    signal = plateau(rejections, POLICY)

    assert signal.certain is certain
    assert (1.0 - signal.upper) ** rejections == pytest.approx(0.05 if rejections else 1.0)


@pytest.mark.parametrize(
    ("evidence", "certain"), [(None, False), (lost(0.45, 20), False), (lost(0.40, 400), True), (lost(0.6, 400), False)]
)
def test_a_regression_needs_evidence_of_blocks(evidence: Evidence | None, certain: bool) -> None:
    """A rollback by an operator, or on a few blocks, is no reason to change anything."""
    assert regression(evidence, 2).certain is certain


# -- the table ---------------------------------------------------------------------------------------------------------


def test_the_table_leaves_evidence_alone() -> None:
    """Every setting is a number of the policy; none is a gate, a budget or what a plateau is; every effect ends."""
    numbers = {name for name in Policy.__struct_fields__ if isinstance(getattr(POLICY, name), int)}

    assert {rule.setting for rule in _EFFECTS} <= numbers - {"plateau_rejections", "seed"}
    assert all(0 < rule.seconds <= 24 * HOUR for rule in _EFFECTS)


def test_more_games_for_an_export_can_always_be_had() -> None:
    """Self-play stops when so many exports' worth of games wait: an effect must not ask for more than that."""
    assert max(rule.bound for rule in _EFFECTS if rule.setting == "games_per_export") < FRESH_EXPORTS_MAX


@pytest.mark.parametrize(("times", "games"), [(1, 600), (2, 800), (3, 800), (50, 800)])
def test_a_plateau_requires_more_games_up_to_its_bound(times: int, games: int) -> None:
    """Half as many more, at most twice as many, however often it is applied."""
    assert _adjust_policy(POLICY, effects_of(plateau(8, POLICY), times=times), NOW).games_per_export == games


def test_the_newest_signal_about_a_setting_counts() -> None:
    """A plateau of a line that stalls replaces its effect, and does not multiply with it."""
    effects = apply_signal(effects_of(stall(between(-5.0, 1.0)), times=2), plateau(8, POLICY), NOW + 1.0)

    assert [effect.signal for effect in effects] == ["plateau"]
    assert _adjust_policy(POLICY, effects, NOW + 1.0).games_per_export == 600


def test_a_regression_brings_the_next_review_sooner() -> None:
    """After every promotion, for a day; where reviews are off they stay off."""
    effects = effects_of(regression(lost(0.4, 400), 2))
    off = msgspec.structs.replace(POLICY, review_promotions=0)

    assert _adjust_policy(POLICY, effects, NOW).review_promotions == 1
    assert _adjust_policy(POLICY, effects, NOW + 24 * HOUR).review_promotions == 4
    assert _adjust_policy(off, effects, NOW).review_promotions == 0


def test_an_uncertain_signal_changes_nothing() -> None:
    """Effects in force stay unchanged, and no new one begins."""
    before = effects_of(plateau(8, POLICY))

    assert apply_signal(before, plateau(3, POLICY), NOW + 1.0) == before
    assert apply_signal((), plateau(3, POLICY), NOW) == ()


@pytest.mark.parametrize("signal", ["plateau", "stall", "regression"])
def test_an_effect_ends_by_itself(signal: str) -> None:
    """Up to the last moment it holds, from then on it is gone; one from the future does not hold either."""
    sure = _Signal(name=signal, value=0, lower=0, upper=0, limit=0, certain=True, rule="r")
    [effect] = effects_of(sure)
    until = NOW + RULES[signal].seconds

    assert effect.until == until
    assert active_effects([effect], until - 1.0) == (effect,)
    assert active_effects([effect], until) == ()
    assert active_effects([effect], NOW - 1.0) == ()
    assert _adjust_policy(POLICY, [effect], until) == POLICY


# -- training order ---------------------------------------------------------------------------------------------------


def test_a_line_with_more_waiting_games_trains_first() -> None:
    """Urgency grows with them up to its share, and the lead with it."""
    fresh = [msgspec.structs.replace(LINE, fresh=games) for games in (0, 400, 1600, 99_999)]

    urgencies = [urgency(line, Feedback(variant="hex8_2p"), POLICY, NOW).lower for line in fresh]
    leads = [steer(line, Feedback(variant="hex8_2p"), POLICY, NOW).lead for line in fresh]

    assert urgencies == pytest.approx([0.0, 0.125, 0.5, 0.5])
    assert leads == [0, 1, 4, 4]


def test_a_velocity_counts_only_by_its_lower_bound() -> None:
    """An unknown velocity, or one that may be zero, adds nothing to the lower bound, which alone is acted on."""
    velocities = (None, between(-500.0, 600.0), between(25.0, 75.0), between(60.0, 90.0))

    urgencies = [urgency(LINE, Feedback(variant="hex8_2p", velocity=velocity), POLICY, NOW) for velocity in velocities]

    assert [urgency.lower for urgency in urgencies] == pytest.approx([0.0, 0.0, 0.15, 0.3])
    assert [urgency.upper for urgency in urgencies] == pytest.approx([0.006, 0.3, 0.3, 0.3])
    assert all(urgency.lower <= urgency.value <= urgency.upper for urgency in urgencies)


def test_a_line_that_lost_its_champion_goes_first_for_a_day() -> None:
    """All together make an urgency of 1 and the largest lead there is."""
    after = Feedback(variant="hex8_2p", effects=effects_of(regression(lost(0.4, 400), 2)), velocity=between(60.0, 90.0))
    full = msgspec.structs.replace(LINE, fresh=1600)

    assert urgency(full, after, POLICY, NOW).lower == pytest.approx(1.0)
    assert steer(full, after, POLICY, NOW).lead == LEAD_MAX
    assert urgency(full, after, POLICY, NOW + 24 * HOUR).lower == pytest.approx(0.8)


def test_a_lead_moves_training_and_nothing_else() -> None:
    """Export and Train go before those of other lines, never before urgent jobs; a match keeps its priority."""
    jobs = (
        Export(variant="hex8_2p", batches=("b",), priority=STAGE),
        Train(variant="hex8_2p", generation=1, priority=STAGE),
        Match(variant="hex8_2p", candidate="c", champion="d", first=0, count=1),
    )

    urgent = changed(LINE, fresh=1600)
    effects = effects_of(regression(lost(0.4, 400), 2))
    urgently = Feedback(variant="hex8_2p", effects=effects, velocity=between(60.0, 90.0))
    context = context_for(urgent, POLICY, NOW, open_account(POLICY.budget))

    def lead(line: Line, feedback: Feedback, *jobs: Job) -> Step:
        return set_lead(line, MOVED, changed(context, feedback=feedback, step=Step(line=line, jobs=jobs)))

    step = lead(urgent, urgently, *jobs)

    assert [job.priority for job in step.jobs] == [STAGE + LEAD_MAX, STAGE + LEAD_MAX, jobs[2].priority]
    assert STAGE + LEAD_MAX < URGENT
    assert [(v.gate, v.allowed, v.value) for v in step.verdicts] == [("feedback urgency", True, LEAD_MAX)]
    assert lead(LINE, Feedback(variant="hex8_2p"), *jobs).jobs == jobs
    assert lead(urgent, urgently, jobs[2]) == Step(line=urgent, jobs=jobs[2:])


# -- why ---------------------------------------------------------------------------------------------------------------


def test_a_verdict_explains_an_effect() -> None:
    """It has the bound, the limit, and the end."""
    sure, doubtful = plateau(8, POLICY), plateau(4, POLICY)
    effects = effects_of(sure)

    verdict = signal_verdict(sure, effects, NOW)
    assert (verdict.gate, verdict.allowed, verdict.until) == ("feedback plateau", True, NOW + 6 * HOUR)
    assert verdict.value == pytest.approx(0.3123, abs=1e-4)

    refused = signal_verdict(doubtful, (), NOW)
    assert (refused.allowed, refused.until) == (False, None)
    assert refused.value > refused.limit


def test_a_verdict_on_an_unknown_value_is_still_a_number() -> None:
    """JSON has no infinity; the rule states that there was not enough."""
    verdict = signal_verdict(stall(None), (), NOW)

    assert (verdict.allowed, verdict.value) == (False, 0.0)
    assert verdict.rule.endswith("there is not enough data")


def test_an_expired_effect_is_reported() -> None:
    """It has the same gate, so that it replaces the verdict before."""
    [effect] = effects_of(plateau(8, POLICY))

    verdict = expiry_verdict(effect, NOW + 6 * HOUR)

    assert (verdict.gate, verdict.allowed) == ("feedback plateau", False)
    assert verdict.rule == "its effect on games_per_export has expired"
