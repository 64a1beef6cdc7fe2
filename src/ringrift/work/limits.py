"""Limits: what kinds of job a node takes, and how full a queue may be."""

from ringrift.jobs import JOBS, NODE_KINDS, Match, Play
from ringrift.kernel.verdict import Verdict

_ALL = frozenset(job.kind() for job in JOBS)

KINDS: dict[str, frozenset[str]] = {
    "full": _ALL,
    "coordinator": NODE_KINDS,
    "training_node": _ALL,
    "selfplay": frozenset({Play.kind(), Match.kind()}),
    "ephemeral": frozenset({Play.kind(), Match.kind()}),
    "minimal": frozenset(),
}
"""Profile → the kinds of job it takes.  A coordinator moves files and leaves games to others."""

READY_SOFT, READY_HARD = 2_000, 10_000
PLAYS = frozenset(profile for profile, kinds in KINDS.items() if Play.kind() in kinds)


def pressure(ready: int) -> str:
    """The level of a queue with *ready* jobs: none, soft or hard."""
    return "hard" if ready >= READY_HARD else "soft" if ready >= READY_SOFT else "none"


def may_fill(ready: int, now: float) -> Verdict:
    """Whether new self-play may be asked for while *ready* jobs wait."""
    return Verdict(
        gate="fill", allowed=pressure(ready) != "hard", rule="jobs that wait in the queue", value=ready,
        limit=READY_HARD, since=now,
    )  # fmt: skip
