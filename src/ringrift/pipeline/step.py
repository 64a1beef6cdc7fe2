"""Step: the line after an event with what that calls for, and the small parts that steps are made of."""

from typing import TypeVar

import msgspec

from ringrift.evaluation.budget import Account
from ringrift.events.base import Event
from ringrift.jobs import Job
from ringrift.kernel.value import Value
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import Decision, Line, Stage
from ringrift.pipeline.models import Change

V = TypeVar("V", bound=Value)


class Step(Value):
    """The line after an event, and what that calls for.  Everything in it is written in one transaction."""

    line: Line
    jobs: tuple[Job, ...] = ()
    events: tuple[Event, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    decision: Decision | None = None
    evidence: tuple[str, ...] = ()
    """The ids of the blocks that the decision rests on."""
    models: tuple[Change, ...] = ()
    """Models that have come to another state."""
    account: Account | None = None
    """The run's error budget, if this step has changed it."""
    cancel: tuple[str, ...] = ()
    """Beginnings of the keys of jobs that are no longer wanted."""


def changed(value: V, **changes: object) -> V:
    """*value* with these *changes*."""
    return msgspec.structs.replace(value, **changes)


def move(line: Line, stage: Stage, at: float, **changes: object) -> Line:
    """*line* in *stage* from *at* on."""
    return changed(line, stage=stage, since=at, **changes)


def gate(stage: Stage, rule: str, value: float, limit: float, at: float) -> Verdict:
    """The verdict of a gate that opens when *value* has come to *limit*."""
    return Verdict(gate=stage, allowed=value >= limit, rule=rule, value=value, limit=limit, since=at)


def with_more(
    step: Step, *, jobs: tuple[Job, ...] = (), events: tuple[Event, ...] = (), verdicts: tuple[Verdict, ...] = (),
    decision: Decision | None = None, evidence: tuple[str, ...] = (), models: tuple[Change, ...] = (),
    cancel: tuple[str, ...] = (),
) -> Step:  # fmt: skip
    """*step* with more in it: what is said here comes first."""
    return changed(
        step, jobs=jobs + step.jobs, events=events + step.events, verdicts=verdicts + step.verdicts,
        decision=decision or step.decision, evidence=evidence or step.evidence, models=models + step.models,
        cancel=cancel + step.cancel,
    )  # fmt: skip
