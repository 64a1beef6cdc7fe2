"""Pressure: how hard each queue of the loop presses back on whoever fills it, by its depth."""

from collections.abc import Iterable, Mapping

from ringrift.jobs import Distribute, Export, Match, Sync, Verify
from ringrift.kernel.value import Value

FACTORS: Mapping[str, float] = {
    "none": 1.0, "low": 0.75, "soft": 0.50, "medium": 0.25, "hard": 0.10, "high": 0.05, "critical": 0.01, "stop": 0.0,
}  # fmt: skip
"""Every level, from not at all to a stop, and the share of its usual pace that production keeps."""
STOP = "stop"
OF_HARD, OF_SOFT = (("critical", 0.9), ("high", 0.75), ("hard", 0.5)), (("medium", 1.0), ("soft", 0.75), ("low", 0.5))
"""Levels by the share of the hard bound, and below them of the soft one, from which on they hold."""
TREND_SECONDS_MIN, TREND_SECONDS_MAX = 300.0, 600.0
"""How old the depths are that a trend compares with."""
TREND_SHARE = 0.1
"""By how much a depth must differ from theirs to be called rising or falling."""


class Bounds(Value):
    """How deep a queue may be: *soft* slows production, *hard* stops it, *target* is where it should stand."""

    soft: int
    hard: int
    target: int
    drain: int
    """How many usually leave it in an hour."""


BOUNDS: Mapping[str, Bounds] = {
    "training_data": Bounds(soft=100_000, hard=500_000, target=50_000, drain=10_000),
    "pending_games": Bounds(soft=1000, hard=5000, target=500, drain=500),
    "evaluation": Bounds(soft=50, hard=200, target=20, drain=20),
    "promotion": Bounds(soft=10, hard=50, target=5, drain=5),
    "sync": Bounds(soft=100, hard=500, target=50, drain=100),
    "export": Bounds(soft=20, hard=100, target=10, drain=10),
}
KINDS: Mapping[str, frozenset[str]] = {
    "evaluation": frozenset({Match.kind(), Verify.kind()}),
    "promotion": frozenset({Distribute.kind()}),
    "sync": frozenset({Sync.kind()}),
    "export": frozenset({Export.kind()}),
}
"""Queue → the kinds of job that wait in it.  The others hold games and batches, which lines count."""


class Depth(Value):
    """How deep a queue was at one moment of the observer's monotonic clock."""

    tick: float
    depth: int


def depths(tally: Mapping[tuple[str, str], int], fresh: int, pending: int) -> dict[str, int]:
    """How deep every queue is, from the *tally* of jobs and what the lines count.

    *fresh* games wait for an export, *pending* batches for their copies.  A job that somebody does no longer waits.
    """
    waiting = {
        queue: sum(tally.get((kind, "ready"), 0) for kind in kinds) for queue, kinds in KINDS.items()
    }  # fmt: skip
    return {"training_data": fresh, "pending_games": pending, **waiting}


def level(depth: int | None, bounds: Bounds) -> str:
    """The level of a queue that is so deep.  What nobody could measure is let through as little as what is full."""
    if depth is None or depth >= bounds.hard:
        return STOP
    for bound, steps in ((bounds.hard, OF_HARD), (bounds.soft, OF_SOFT)):
        for word, share in steps:
            if depth >= share * bound:
                return word
    return "none"


def hardest(levels: Iterable[str]) -> str:
    """The one of *levels* that presses hardest; a stop if there are none."""
    order = list(FACTORS)
    return max(levels, key=order.index, default=STOP)


def trend(seen: Iterable[Depth], depth: int, tick: float) -> str:
    """Whether a queue is *rising*, *falling* or *stable* against a while ago; *unknown* if nobody looked then."""
    ages = ((tick - one.tick, one.depth) for one in seen)
    before = [then for age, then in ages if TREND_SECONDS_MIN <= age <= TREND_SECONDS_MAX]
    if not before:
        return "unknown"
    mean = sum(before) / len(before)
    if depth > mean * (1 + TREND_SHARE):
        return "rising"
    return "falling" if depth < mean * (1 - TREND_SHARE) else "stable"


def drain_seconds(depth: int, bounds: Bounds) -> float:
    """How long the queue takes to come down to its target at its usual pace."""
    return max(depth - bounds.target, 0) / bounds.drain * 3600
