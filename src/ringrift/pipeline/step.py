"""Step: the line after an event with everything that follows from it; context: what a decision may look at besides."""

from collections.abc import Mapping
from typing import Any

from ringrift.evaluation.budget import Account
from ringrift.events.base import Event
from ringrift.events.evaluation import Block, WinRateFell
from ringrift.jobs import Job, JobFilter
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import Value, changed
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import Decision, Line, Stage
from ringrift.pipeline.models import Change
from ringrift.pipeline.ratings import LineRatings
from ringrift.pipeline.signals import Feedback
from ringrift.work.pressure import QueuePressure
from ringrift.work.run_states import RunStates

Promotion = tuple[Decision, tuple[Block, ...]]  #: The decision that made a champion, and the blocks that it rests on.
PROMOTE = "promote"  #: The stage, and the gate, of every move of the champion pointer.


class Step(Value):
    """The line after an event, and what follows.  Everything in it is written in one transaction."""

    line: Line
    jobs: tuple[Job, ...] = ()
    events: tuple[Event, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    decision: Decision | None = None
    evidence: tuple[str, ...] = ()  #: The ids of the blocks that the decision rests on.
    models: tuple[Change, ...] = ()  #: Models that have come to another state.
    account: Account | None = None  #: The run's error budget, if this step has changed it.
    feedback: Feedback | None = None  #: The feedback of the line, if this step has changed it.
    cancel: tuple[JobFilter, ...] = ()  #: Live jobs that are obsolete.


def move(line: Line, stage: Stage, at: float, **changes: object) -> Line:
    """*line* in *stage* from *at* on."""
    return changed(line, stage=stage, since=at, **changes)


def gate(stage: Stage, rule: str, value: float, limit: float, at: float) -> Verdict:
    """The verdict of a gate that opens when *value* has come to *limit*."""
    return Verdict(gate=stage, allowed=value >= limit, rule=rule, value=value, limit=limit, since=at)


def with_more(step: Step, **more: Any) -> Step:
    """*step* with more in it: tuples come before those of *step*, everything else replaces what was there."""
    joined = {name: value + getattr(step, name) for name, value in more.items() if isinstance(value, tuple)}
    return changed(step, **{**more, **joined})


class Context(Value):
    """The input of a decision about one line.  The pipeline daemon loads what the event calls for."""

    policy: Policy
    at: float  #: The time of the event.
    account: Account  #: The run's error budget, from which every test of a candidate pays.
    step: Step  #: The step that the deciders before this one have made.
    feedback: Feedback
    ratings: LineRatings
    quarantined: frozenset[str] = frozenset()  #: Those of the nodes of the event that are in quarantine.
    unreadable: frozenset[str] = frozenset()  #: Batches of another workload or version than the refusing one.
    promotion: Promotion | None = None
    drop: WinRateFell | None = None  #: The fall of the champion's win rate that the event shows, if it does.
    run_states: RunStates = RunStates()
    pressures: Mapping[str, QueuePressure] = {}  #: By queue, where it was measured.

    @property
    def brake(self) -> Verdict:
        """Whether the champion pointer of the line may move: in every run state but *running* it stays."""
        return self.run_states.verdict(PROMOTE, variant=self.step.line.variant, stage=PROMOTE, now=self.at)

    @property
    def rests(self) -> bool:
        """Whether the line rests because a run works on others: then nothing is decided about it at all."""
        return self.run_states.rests(self.step.line.variant, self.at)


def context_for(line: Line, policy: Policy, at: float, account: Account) -> Context:
    """The context of an event that calls for nothing but the policy, the time and the error budget."""
    feedback, ratings = Feedback(variant=line.variant), LineRatings(variant=line.variant)
    return Context(policy=policy, at=at, account=account, step=Step(line=line), feedback=feedback, ratings=ratings)
