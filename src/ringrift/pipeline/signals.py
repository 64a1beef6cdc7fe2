"""Signals: what is certain about the progress of a line, and the one table of what feedback may change because of it.

    signal, with bounds ─▶ certain? ─▶ effect on one setting, within a bound, for some hours ─▶ gone by itself

A signal whose bounds are too wide changes nothing, and its verdict names the reason.  Nothing here touches a gate, the
error budget or a review's bounds: feedback may change how much is played and which line goes first, never what counts
as evidence.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from ringrift.evaluation.interval import Interval, of_match, velocity
from ringrift.events.model import Evidence
from ringrift.kernel.settings import LEAD_MAX, Policy
from ringrift.kernel.value import Value, changed
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import FRESH_EXPORTS_MAX, Line
from ringrift.pipeline.ratings import ChampionPeriod
from ringrift.store.records import Records

_HOUR = 3600.0
_CONFIDENCE = 0.95
PERIODS_RECENT = 8  #: Champions that velocity rests on: older ones say nothing about now.
STALL, FAST = 2.0, 50.0  #: Elo an hour: next to nothing, and as much as urgency takes notice of.
# Weights of waiting games, a sure gain and a lost champion in the urgency of training; together 1.
URGENCY_DATA, URGENCY_VELOCITY, URGENCY_REGRESSION = 0.5, 0.3, 0.2
_Trend = Literal["unknown", "rising", "steady", "flat"]


class _Signal(Value):
    """A measurement of a line, with bounds: *certain* only if they leave no doubt."""

    name: str
    value: float
    lower: float
    upper: float
    limit: float
    certain: bool
    rule: str  #: The condition under which it is certain.


class _Change(Value):
    """A change of one setting because of a signal."""

    signal: str
    setting: str
    how: Literal["times", "at most", "is"]
    amount: float


class _Rule(_Change):
    """The effect of a certain signal on a setting, its limit, and when it ends."""

    bound: float  #: Limit of the amount, however often the signal comes.
    seconds: float


_EFFECTS: tuple[_Rule, ...] = (  #: Everything that feedback may change.
    _Rule(signal="plateau", setting="games_per_export", how="times", amount=1.5, bound=2.0, seconds=6 * _HOUR),
    _Rule(signal="stall", setting="games_per_export", how="times", amount=1.5, bound=2.0, seconds=6 * _HOUR),
    _Rule(signal="regression", setting="review_promotions", how="at most", amount=1, bound=1, seconds=24 * _HOUR),
    _Rule(signal="urgency", setting="lead", how="is", amount=LEAD_MAX, bound=LEAD_MAX, seconds=_HOUR),
)


class _Effect(_Change):
    """A change of one setting that is in force from *since* to *until*."""

    since: float
    until: float


class Feedback(Value):
    """The feedback of one line."""

    variant: str
    effects: tuple[_Effect, ...] = ()
    velocity: Interval | None = None  #: Elo an hour when its ratings were last computed; None if nothing can be said.
    trend: _Trend = "unknown"  #: As it was last published.
    rejections: int = 0  #: Since the last promotion.
    since: float = 0.0  #: When the first of them was.
    plateaued: bool = False  #: Whether this plateau was published.


FEEDBACK = Records("feedback", Feedback, id="variant")


def velocity_of(periods: Sequence[ChampionPeriod], at: float) -> Interval | None:
    """Elo gained in an hour up to *at*, by the newest champions; None if they show no line."""
    points = [(period.since, period.elo) for period in periods[-PERIODS_RECENT:] if period.elo is not None]
    if points and periods[-1].elo is not None and at > points[-1][0]:
        points.append((at, periods[-1].elo))  # while no better model is found, nothing is gained
    return velocity(points, _CONFIDENCE)


def trend(pace: Interval | None) -> _Trend:
    """*rising* or *flat* if the bounds of *pace* leave no doubt, *steady* if they do."""
    if pace is None:
        return "unknown"
    return "flat" if pace.upper < STALL else "rising" if pace.lower > STALL else "steady"


def stall(pace: Interval | None) -> _Signal:
    """That a line surely gains next to nothing."""
    rule = f"upper bound of Elo an hour is below {STALL:g}"
    return _signal("stall", pace, STALL, trend(pace) == "flat", rule)


def plateau(rejections: int, policy: Policy) -> _Signal:
    """That few candidates pass: as many in a row as the policy allows did not, since the last that did."""
    limit = _passing_share_max(policy.plateau_rejections)
    upper, certain = _passing_share_max(rejections), rejections >= policy.plateau_rejections
    rule = f"upper bound of the share of candidates that pass is at most {limit:.2g}"
    return _Signal(name="plateau", value=0.0, lower=0.0, upper=upper, limit=limit, certain=certain, rule=rule)


def _passing_share_max(rejections: int) -> float:
    """The upper bound of the share of candidates that pass, after so many rejections in a row."""
    return 1.0 - (1.0 - _CONFIDENCE) ** (1.0 / rejections) if rejections else 1.0


def regression(evidence: Evidence | None, players: int) -> _Signal:
    """That the champion which had to go was weaker than the one that is back: only blocks can show it."""
    scale = 0 if evidence is None else evidence.scale(players)
    elo = None if evidence is None else of_match(evidence.score, evidence.blocks, scale, _CONFIDENCE)
    rule = "upper bound of the gain of the replaced champion over the other is below 0"
    return _signal("regression", elo, 0.0, elo is not None and elo.upper < 0.0, rule)


def urgency(line: Line, feedback: Feedback, policy: Policy, at: float) -> _Signal:
    """How soon *line* should train, 0 … 1: by games that wait, by a sure gain, by a champion it lost."""
    waiting = min(line.fresh / (FRESH_EXPORTS_MAX * policy.games_per_export), 1.0)
    lost = any(effect.signal == "regression" for effect in active_effects(feedback.effects, at))
    base = URGENCY_DATA * waiting + URGENCY_REGRESSION * lost
    pace = feedback.velocity or Interval(value=0.0, lower=0.0, upper=1.0)
    gains = [min(max(elo / FAST, 0.0), 1.0) for elo in (pace.lower, pace.value, pace.upper)]
    low, middle, high = (base + URGENCY_VELOCITY * gain for gain in gains)
    rule = "urgency of training, 0 … 1: only its lower bound counts"
    return _Signal(name="urgency", value=middle, lower=low, upper=high, limit=1.0, certain=True, rule=rule)


def _signal(name: str, elo: Interval | None, limit: float, certain: bool, rule: str) -> _Signal:
    if elo is None:
        elo, rule = Interval(value=0.0, lower=-math.inf, upper=math.inf), f"{rule}; there is not enough data"
    lower, upper = elo.lower, elo.upper
    return _Signal(name=name, value=elo.value, lower=lower, upper=upper, limit=limit, certain=certain, rule=rule)


def active_effects(effects: Iterable[_Effect], now: float) -> tuple[_Effect, ...]:
    """Those of *effects* that are in force *now*: one from the future is not, in case a clock was wrong."""
    return tuple(effect for effect in effects if effect.since <= now < effect.until)


def apply_signal(effects: Sequence[_Effect], signal: _Signal, now: float) -> tuple[_Effect, ...]:
    """*effects* after *signal*: stronger and longer if it is certain, as they were if it is not."""
    by_setting = {effect.setting: effect for effect in active_effects(effects, now)}
    for rule in _EFFECTS if signal.certain else ():
        if rule.signal != signal.name:
            continue
        before = by_setting.get(rule.setting)
        same = before if before is not None and before.signal == signal.name else None
        amount, since, until = _amount(rule, signal, same), now if same is None else same.since, now + rule.seconds
        shared: dict[str, Any] = {name: getattr(rule, name) for name in ("signal", "setting", "how")}
        by_setting[rule.setting] = _Effect(amount=amount, since=since, until=until, **shared)
    return tuple(by_setting[setting] for setting in sorted(by_setting))


def _amount(rule: _Rule, signal: _Signal, before: _Effect | None) -> float:
    match rule.how:
        case "times" if before is not None:
            return min(before.amount * rule.amount, rule.bound)
        case "is":
            return float(round(rule.bound * signal.lower))
    return rule.amount


def _adjust_policy(policy: Policy, effects: Iterable[_Effect], now: float) -> Policy:
    """*policy* under those of *effects* that are in force.  A setting that is off stays off."""
    changes: dict[str, int] = {}
    for effect in active_effects(effects, now):
        value: int = getattr(policy, effect.setting)
        match effect.how:
            case "times":
                changes[effect.setting] = max(round(value * effect.amount), 1)
            case "at most":
                changes[effect.setting] = min(value, int(effect.amount))
            case "is":
                changes[effect.setting] = int(effect.amount)
    return changed(policy, **changes)


def steer(line: Line, feedback: Feedback, policy: Policy, at: float) -> Policy:
    """*policy* as feedback adjusts it for *line* now."""
    urgent = apply_signal((), urgency(line, feedback, policy, at), at)
    return _adjust_policy(policy, (*feedback.effects, *urgent), at)


def signal_verdict(signal: _Signal, effects: Iterable[_Effect], at: float) -> Verdict:
    """Why *signal* has an effect or has none: the bound that decides, and until when it lasts."""
    until = next((effect.until for effect in active_effects(effects, at) if effect.signal == signal.name), None)
    value = signal.upper if math.isfinite(signal.upper) else 0.0
    return Verdict(f"feedback {signal.name}", until is not None, signal.rule, value, signal.limit, at, until)


def expiry_verdict(effect: _Effect, at: float) -> Verdict:
    """The verdict on *effect* once it is over."""
    rule = f"its effect on {effect.setting} has expired"
    return Verdict(f"feedback {effect.signal}", False, rule, effect.amount, effect.amount, at)
