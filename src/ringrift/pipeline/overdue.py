"""Overdue: whether a line has been in its stage for longer than that should take."""

from ringrift.kernel.settings import StageLimits
from ringrift.kernel.value import Value
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import Line

KIND = "overdue"


class Stay(Value):
    """One stay of a line in a stage: it is said to be overdue once."""

    stage: str
    since: float


def stay(line: Line) -> Stay:
    """The stay that *line* is in."""
    return Stay(stage=line.stage, since=line.since)


def overdue(line: Line, now: float, limits: StageLimits) -> Verdict | None:
    """The verdict on a stay that takes too long.

    It reads the wall clock, which may jump: a false alarm costs somebody a look, and nothing else hangs on it.
    """
    limit = limits.of(line.stage)
    seconds = now - line.since
    # One that holds its jobs waits for a person, who may take all the time.
    if line.held or limit is None or seconds <= limit:
        return None
    rule = f"seconds in the stage {line.stage}"
    return Verdict(gate=KIND, allowed=False, rule=rule, value=seconds, limit=limit, since=line.since)
