"""Which kinds of job a node takes, by its profile and in quarantine, and how full every queue of the loop may be."""

from collections.abc import Collection, Iterable, Mapping

from ringrift.jobs import GAME_KINDS, JOB_KINDS, JOBS, NODE_KINDS, Play
from ringrift.kernel.value import Value
from ringrift.kernel.verdict import Verdict
from ringrift.store.ports import Reads
from ringrift.store.records import Records

KINDS: dict[str, frozenset[str]] = {
    "full": JOB_KINDS,
    "coordinator": NODE_KINDS,
    "training_node": JOB_KINDS,
    "selfplay": GAME_KINDS,
    "ephemeral": GAME_KINDS,
    "minimal": frozenset(),
}
"""Profile → the kinds of job it takes.  A coordinator moves files and leaves games to others."""

READY_SOFT, READY_HARD = 2_000, 10_000
PLAYS = frozenset(profile for profile, kinds in KINDS.items() if Play.kind() in kinds)


def pressure(ready: int) -> str:
    """The level of a queue with *ready* jobs: none, soft or hard."""
    return "hard" if ready >= READY_HARD else "soft" if ready >= READY_SOFT else "none"


def may_fill(ready: int, now: float) -> Verdict:
    """Whether more self-play may be enqueued while *ready* jobs wait."""
    is_allowed, rule = pressure(ready) != "hard", "jobs that wait in the queue"
    return Verdict(gate="fill", allowed=is_allowed, rule=rule, value=ready, limit=READY_HARD, since=now)


QUARANTINES = Records("quarantine", Verdict)
"""The reason for each quarantined node, by its id."""


async def allowed_kinds(view: Reads, node: str, kinds: Collection[str]) -> Collection[str]:
    """Those of *kinds* that *node* may do."""
    is_quarantined = await QUARANTINES.get(view, node) is not None
    return [kind for kind in kinds if kind not in GAME_KINDS] if is_quarantined else kinds


_LEVELS = "none 1.0, low 0.75, soft 0.50, medium 0.25, hard 0.10, high 0.05, critical 0.01, stop 0.0"
_FACTORS: Mapping[str, float] = {name: float(share) for name, share in (row.split() for row in _LEVELS.split(","))}
"""Every level, from none to a stop, and the share of its usual rate that production keeps."""
_STOP = "stop"
_OF_HARD = (("critical", 0.9), ("high", 0.75), ("hard", 0.5))
_OF_SOFT = (("medium", 1.0), ("soft", 0.75), ("low", 0.5))
"""Levels by the share of the hard bound, and below it of the soft one, at which they begin."""


class _Bounds(Value):
    """How deep a queue may be: *soft* slows production, *hard* stops it."""

    soft: int
    hard: int


BOUNDS: Mapping[str, _Bounds] = {
    "training_data": _Bounds(soft=100_000, hard=500_000),
    "pending_games": _Bounds(soft=1000, hard=5000),
    "evaluation": _Bounds(soft=50, hard=200),
    "promotion": _Bounds(soft=10, hard=50),
    "sync": _Bounds(soft=100, hard=500),
    "export": _Bounds(soft=20, hard=100),
}


def depths(tally: Mapping[tuple[str, str], int], fresh: int, pending: int) -> dict[str, int]:
    """How deep every queue is, from the *tally* of jobs and what the lines count.

    *fresh* games wait for an export, *pending* batches for their copies.  A job that was claimed no longer waits.
    """
    waiting = {
        queue: sum(tally.get((job.kind(), "ready"), 0) for job in JOBS if job.queue == queue)
        for queue in ("evaluation", "promotion", "sync", "export")
    }
    return {"training_data": fresh, "pending_games": pending, **waiting}


def level(depth: int | None, bounds: _Bounds) -> str:
    """The level of a queue of this *depth*; one that could not be measured counts as full."""
    if depth is None or depth >= bounds.hard:
        return _STOP
    for bound, steps in ((bounds.hard, _OF_HARD), (bounds.soft, _OF_SOFT)):
        for name, share in steps:
            if depth >= share * bound:
                return name
    return "none"


def hardest(levels: Iterable[str]) -> str:
    """The highest of *levels*; a stop if there are none."""
    order = list(_FACTORS)
    return max(levels, key=order.index, default=_STOP)
