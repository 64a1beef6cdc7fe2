"""Feedback: how fast a line gets stronger, from the matches that were decided, and whether it still does."""

from collections.abc import Sequence

import msgspec

from ringrift.events import evaluation
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import Value

KIND = "pace"
MATCHES_MIN, MATCHES_MAX = 3, 8
"""Matches that a trend rests on: fewer say nothing, older ones say nothing about now."""
RISING = 2.0
"""How much faster than the older half of its matches the newer half must have gained for a line to be rising.  One that
is rising stays so while the newer half is the faster at all: a single match would turn it round all the time."""
SECONDS_MIN = 1.0


class Decided(Value):
    """One decided match: when, and what the champion gained by it."""

    time: float
    gain: float


class Pace(Value):
    """What is remembered of one line."""

    variant: str
    trend: str = "unknown"
    """As it was last said."""
    matches: tuple[Decided, ...] = ()
    rejections: int = 0
    """Since the last promotion."""
    since: float = 0.0
    """When the first of them was."""
    plateaued: bool = False
    """It was said that these are too many."""


class Felt(Value):
    """What follows from a match."""

    pace: Pace
    events: tuple[evaluation.VelocityChanged | evaluation.Plateaued, ...] = ()


def feel(pace: Pace, event: evaluation.Finished, policy: Policy, at: float) -> Felt:
    """*pace* after *event*, and what is to be said of it: a trend when it changes, a plateau when it begins."""
    gain = event.elo if event.promoted else 0.0
    pace = msgspec.structs.replace(
        pace,
        matches=(*pace.matches, Decided(time=at, gain=gain))[-MATCHES_MAX:],
        rejections=0 if event.promoted else pace.rejections + 1,
        since=at if event.promoted or not pace.rejections else pace.since,
        plateaued=pace.plateaued and not event.promoted,
    )
    said: list[evaluation.VelocityChanged | evaluation.Plateaued] = []
    now = trend(pace.matches, pace.trend)
    if now is not None and now != pace.trend:
        said.append(
            evaluation.VelocityChanged(
                variant=pace.variant, trend=now, before=pace.trend, elo_per_hour=elo_per_hour(pace.matches),
                matches=len(pace.matches),
            )
        )  # fmt: skip
        pace = msgspec.structs.replace(pace, trend=now)
    if pace.rejections >= policy.plateau_rejections and not pace.plateaued:
        said.append(evaluation.Plateaued(variant=pace.variant, rejections=pace.rejections, since=pace.since))
        pace = msgspec.structs.replace(pace, plateaued=True)
    return Felt(pace=pace, events=tuple(said))


def trend(matches: Sequence[Decided], before: str) -> str | None:
    """*rising*, *steady* or *flat*, after it was *before*; None while there are too few matches to say."""
    if len(matches) < MATCHES_MIN:
        return None
    middle = len(matches) // 2
    older, newer = elo_per_hour(matches[: middle + 1]), elo_per_hour(matches[middle:])
    if elo_per_hour(matches) <= 0.0:
        return "flat"
    return "rising" if newer > older * (1.0 if before == "rising" else RISING) else "steady"


def elo_per_hour(matches: Sequence[Decided]) -> float:
    """What was gained after the first of *matches*, for each hour since then."""
    seconds = matches[-1].time - matches[0].time
    return sum(match.gain for match in matches[1:]) * 3600.0 / max(seconds, SECONDS_MIN)
