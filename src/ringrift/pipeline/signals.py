"""Signals: what feedback takes for certain about a line, and the one table of what it may change because of it.

    signal, with bounds ─▶ certain? ─▶ effect on one setting, within a bound, for some hours ─▶ gone by itself

A signal whose bounds are too wide changes nothing, and says so.  Nothing here touches a gate, the error budget or a
review's bounds: feedback may change how much is played and who goes first, never what counts as evidence.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from ringrift.evaluation.interval import Interval, summed
from ringrift.evaluation.velocity import Point, velocity
from ringrift.events.model import Evidence
from ringrift.jobs import Export, Train
from ringrift.kernel.settings import LEAD_MAX, Policy
from ringrift.kernel.value import Value
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.fill import FRESH_EXPORTS_MAX
from ringrift.pipeline.line import Line
from ringrift.pipeline.standing import Reign
from ringrift.pipeline.step import Step, changed, with_more
from ringrift.store.ports import Put, Reads, Tx

KIND = "influence"
HOUR = 3600.0
CONFIDENCE = 0.95
REIGNS_RECENT = 8
"""Champions that velocity rests on: older ones say nothing about now."""
STALL, FAST = 2.0, 50.0
"""Elo an hour: next to nothing, and as much as urgency takes notice of."""
PASSING_SHARE = 1 / 3
"""Of candidates: a line of which fewer pass stands on a plateau."""
URGENCY_DATA, URGENCY_VELOCITY, URGENCY_REGRESSION = 0.5, 0.3, 0.2
"""What games that wait, a sure gain and a lost champion add to the urgency of training; together 1."""


class Signal(Value):
    """Something about a line, with bounds: *certain* only if they leave no doubt."""

    name: str
    value: float
    lower: float
    upper: float
    limit: float
    certain: bool
    rule: str
    """What must be the case for it to be certain."""


class Rule(Value):
    """What a certain signal does to a setting, how far that may go, and when it ends."""

    signal: str
    setting: str
    how: Literal["times", "at most", "is"]
    amount: float
    bound: float
    """Of the amount, however often the signal comes."""
    seconds: float


EFFECTS: tuple[Rule, ...] = (
    Rule(signal="plateau", setting="games_per_export", how="times", amount=1.5, bound=2.0, seconds=6 * HOUR),
    Rule(signal="stall", setting="games_per_export", how="times", amount=1.5, bound=2.0, seconds=6 * HOUR),
    Rule(signal="regression", setting="review_promotions", how="at most", amount=1, bound=1, seconds=24 * HOUR),
    Rule(signal="urgency", setting="lead", how="is", amount=LEAD_MAX, bound=LEAD_MAX, seconds=HOUR),
)
"""Everything that feedback may change."""


class Effect(Value):
    """A change of one setting that is in force from *since* to *until*."""

    signal: str
    setting: str
    how: Literal["times", "at most", "is"]
    amount: float
    since: float
    until: float


class Influence(Value):
    """What feedback does to one line, and how fast that line was when its ratings were last computed."""

    variant: str
    effects: tuple[Effect, ...] = ()
    """One for each setting: the newest signal counts."""
    pace: Interval | None = None


# -- what is certain ---------------------------------------------------------------------------------------------------


def pace_of(reigns: Sequence[Reign], at: float) -> Interval | None:
    """Elo gained in an hour up to *at*, by the newest champions; None if they show no line."""
    points = [Point(at=reign.since, elo=reign.elo) for reign in reigns[-REIGNS_RECENT:] if reign.elo is not None]
    if points and reigns[-1].elo is not None and at > points[-1].at:
        points.append(Point(at=at, elo=reigns[-1].elo))  # as long as nobody is promoted, nothing is gained
    return velocity(points, CONFIDENCE)


def stall(pace: Interval | None) -> Signal:
    """That a line surely gains next to nothing."""
    rule = f"Elo an hour, the upper bound, is below {STALL:g}"
    return _of(pace, "stall", STALL, pace is not None and pace.upper < STALL, rule)


def plateau(rejections: int) -> Signal:
    """That few candidates pass: so many in a row did not, since the last that did."""
    upper = 1.0 - (1.0 - CONFIDENCE) ** (1.0 / rejections) if rejections else 1.0
    rule = f"the share of candidates that pass, the upper bound, is below {PASSING_SHARE:.2g}"
    certain = upper < PASSING_SHARE
    return Signal(name="plateau", value=0.0, lower=0.0, upper=upper, limit=PASSING_SHARE, certain=certain, rule=rule)


def regression(evidence: Evidence | None, players: int) -> Signal:
    """That the champion which had to go was weaker than the one that is back: only blocks can say so."""
    found = None
    if evidence is not None:
        found = summed([(evidence.score, evidence.blocks, evidence.scale(players))], CONFIDENCE)
    rule = "Elo of the champion that went, the upper bound, is below 0"
    return _of(found, "regression", 0.0, found is not None and found.upper < 0.0, rule)


def urgency(line: Line, influence: Influence, policy: Policy, at: float) -> Signal:
    """How soon *line* should train, 0 … 1: by games that wait, by a pace that is surely up, by a champion it lost."""
    waiting = min(line.fresh / (FRESH_EXPORTS_MAX * policy.games_per_export), 1.0)
    lost = any(effect.signal == "regression" for effect in in_force(influence.effects, at))
    known = URGENCY_DATA * waiting + URGENCY_REGRESSION * lost
    pace = influence.pace
    lower, value, upper = (0.0, 0.0, 1.0) if pace is None else (pace.lower, pace.value, pace.upper)
    low, middle, high = (known + URGENCY_VELOCITY * min(max(elo / FAST, 0.0), 1.0) for elo in (lower, value, upper))
    rule = "urgency of training, 0 … 1: only its lower bound counts"
    return Signal(name="urgency", value=middle, lower=low, upper=high, limit=1.0, certain=True, rule=rule)


def _of(found: Interval | None, name: str, limit: float, certain: bool, rule: str) -> Signal:
    if found is None:
        nothing = f"{rule}; there is not enough to say"
        return Signal(name=name, value=0.0, lower=-math.inf, upper=math.inf, limit=limit, certain=False, rule=nothing)
    return Signal(
        name=name, value=found.value, lower=found.lower, upper=found.upper, limit=limit, certain=certain, rule=rule
    )


# -- what follows ------------------------------------------------------------------------------------------------------


def in_force(effects: Iterable[Effect], now: float) -> tuple[Effect, ...]:
    """Those of *effects* that hold *now*: one from the future does not, in case a clock was wrong."""
    return tuple(effect for effect in effects if effect.since <= now < effect.until)


def felt(effects: Sequence[Effect], signal: Signal, now: float) -> tuple[Effect, ...]:
    """*effects* after *signal*: stronger and longer if it is certain, as they were if it is not."""
    kept = {effect.setting: effect for effect in in_force(effects, now)}
    for rule in EFFECTS:
        if rule.signal == signal.name and signal.certain:
            before = kept.get(rule.setting)
            again = before.amount if before is not None and before.signal == signal.name else None
            kept[rule.setting] = Effect(
                signal=signal.name, setting=rule.setting, how=rule.how, amount=_amount(rule, signal, again),
                since=now if before is None or again is None else before.since, until=now + rule.seconds,
            )  # fmt: skip
    return tuple(kept[setting] for setting in sorted(kept))


def _amount(rule: Rule, signal: Signal, again: float | None) -> float:
    match rule.how:
        case "times" if again is not None:
            return min(again * rule.amount, rule.bound)
        case "is":
            return float(round(rule.bound * signal.lower))
    return rule.amount


def adjusted(policy: Policy, effects: Iterable[Effect], now: float) -> Policy:
    """*policy* under those of *effects* that are in force.  What is off stays off."""
    changes: dict[str, int] = {}
    for effect in in_force(effects, now):
        value: int = getattr(policy, effect.setting)
        match effect.how:
            case "times":
                changes[effect.setting] = max(round(value * effect.amount), 1)
            case "at most":
                changes[effect.setting] = min(value, int(effect.amount))
            case "is":
                changes[effect.setting] = int(effect.amount)
    return changed(policy, **changes)


def steered(line: Line, influence: Influence, policy: Policy, at: float) -> Policy:
    """*policy* as feedback wants it for *line* now."""
    urgent = felt((), urgency(line, influence, policy, at), at)
    return adjusted(policy, (*influence.effects, *urgent), at)


def ahead(step: Step, lead: int, at: float) -> Step:
    """*step* with its Export and Train jobs so far before those of other lines, and with the reason."""
    jobs = tuple(
        changed(job, priority=job.priority + lead) if isinstance(job, Export | Train) else job for job in step.jobs
    )
    if not any(isinstance(job, Export | Train) for job in jobs):
        return step
    rule = "lead of its training: games that wait, a pace that is surely up, a champion that was lost"
    said = Verdict(gate="feedback urgency", allowed=lead > 0, rule=rule, value=lead, limit=LEAD_MAX, since=at)
    return with_more(changed(step, jobs=jobs), verdicts=(said,))


def verdict(signal: Signal, effects: Iterable[Effect], at: float) -> Verdict:
    """Why *signal* has an effect or has none: the bound that decides, and until when it lasts."""
    mine = [effect for effect in in_force(effects, at) if effect.signal == signal.name]
    return Verdict(
        gate=f"feedback {signal.name}", allowed=bool(mine), rule=signal.rule, limit=signal.limit, since=at,
        value=signal.upper if math.isfinite(signal.upper) else 0.0, until=mine[0].until if mine else None,
    )  # fmt: skip


def expired(effect: Effect, at: float) -> Verdict:
    """That *effect* is over."""
    return Verdict(
        gate=f"feedback {effect.signal}", allowed=False, rule=f"its effect on {effect.setting} has expired",
        value=effect.amount, limit=effect.amount, since=at,
    )  # fmt: skip


# -- records -----------------------------------------------------------------------------------------------------------


async def load(view: Reads, variant: str) -> Influence:
    """What feedback does to *variant*."""
    body = (await view.get(KIND, [variant])).get(variant)
    return Influence(variant=variant) if body is None else msgspec.json.decode(body, type=Influence)


async def save(tx: Tx, influence: Influence) -> None:
    """Write *influence*."""
    await tx.put([Put(kind=KIND, id=influence.variant, body=msgspec.json.encode(influence))])
