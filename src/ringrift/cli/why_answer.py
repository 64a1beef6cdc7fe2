"""Answers of ``ringrift why``: what a line waits for, decided from values by a table of causes.

The first cause of the table that holds is the answer: what stops everything comes before what stops one stage, and what
is wrong before what only takes its time.
"""

from collections.abc import Callable, Iterable, Sequence

from ringrift.cli.brakes import brake_reason, remedy
from ringrift.cli.formats import describe_error, plural, short, since
from ringrift.cluster.roster import NodeRecord
from ringrift.events import data, evaluation, model, selfplay, training, work
from ringrift.events.base import Event, Unknown
from ringrift.jobs import STAGES, Train
from ringrift.kernel.value import Value
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.absence import CHAMPION_GATE
from ringrift.pipeline.challenge import open_tests, outcome
from ringrift.pipeline.line import Line, Stage
from ringrift.store.ports import JobRow
from ringrift.work.claims import slot_rule, unfit_rule, workload_rule
from ringrift.work.limits import KINDS
from ringrift.work.run_states import BY_RUN, RunStates

CLAIM_PREFIX = "claim."
SUCCESSES: dict[type[Event], str] = {training.Finished: "train", data.Exported: "export", model.Verified: "verify"}
SUCCESSES |= {model.Distributed: "distribute", evaluation.BlocksPlayed: "match", selfplay.BatchFinished: "play"}
"""The event of a result, with the kind of its job."""
STAGE_JOBS: dict[str, str] = {Stage.STARTING: "train", Stage.COLLECTING: "play", Stage.EXPORTING: "export"}
STAGE_JOBS |= {Stage.TRAINING: "train", Stage.VERIFYING: "verify", Stage.EVALUATING: "match"}
STAGE_JOBS |= {Stage.DISTRIBUTING: "distribute"}
"""The kind of job that each stage waits for."""
_NOUNS = {"play": "self-play", "match": "matches", "train": "training", "verify": "the check of a model"}
_DEEDS = {"play": "play", "match": "play matches of", "train": "train", "export": "export games of"}


class _Failure(Value):
    """A job that was given up, with no success of its kind since."""

    job: str
    kind: str
    error: str
    attempts: int
    time: float  # when it was given up
    traceback: str = ""

    def __str__(self) -> str:
        return f"{describe_error(self.error, self.traceback)} (given up after {plural(self.attempts, 'attempt')})"


class Situation(Value):
    """Everything that the answer for one line depends on."""

    variant: str
    now: float
    line: Line | None = None
    faults: tuple[str, ...] = ()  # of this machine and of the disks of its nodes
    nodes: tuple[NodeRecord, ...] = ()  # those that run
    has_coordinator: bool = True  # whether one of them decides about lines
    coordinator_left: float | None = None  # when the last one was there, if none is
    run_states: RunStates = RunStates()
    verdicts: tuple[Verdict, ...] = ()
    jobs: tuple[JobRow, ...] = ()  # ready or claimed
    failures: tuple[_Failure, ...] = ()  # newest last
    tracebacks: dict[str, str] = {}  # by job, of its last failed attempt
    trainers: tuple[str, ...] = ()  # what holds the training slot
    disabled: tuple[str, ...] = ()  # daemons that settings forbid on every coordinator

    @property
    def kind(self) -> str:
        """The kind of job that the line waits for; empty if for none."""
        return STAGE_JOBS.get(self.line.stage, "") if self.line else ""

    @property
    def awaited(self) -> list[JobRow]:
        """The live jobs that the line waits for."""
        return [job for job in self.jobs if job.kind == self.kind]

    def verdict(self, gate: str, *, closed: bool = True) -> Verdict | None:
        """The verdict of *gate*, if it is *closed* or if both will do."""
        return next((row for row in self.verdicts if row.gate == gate and not (closed and row.allowed)), None)


class _Answer(Value):
    """Why a line waits or what it does: the *cause* for programs, a sentence, since when, and what to do about it."""

    text: str
    cause: str = ""
    since: float | None = None
    remedy: str = ""


def answer(facts: Situation) -> _Answer:
    """The first cause that holds."""
    find, (text, begin, command) = next((find, reply) for find in _CAUSES if (reply := find(facts)) is not None)
    if facts.line is not None and find not in _WIDER:
        # The same gate may have been closed in an earlier round: this wait began with the stage at the earliest.
        begin = max(begin or 0.0, facts.line.since)
    return _Answer(text=text, cause=find.__name__[1:], since=begin, remedy=command)


def first_line(facts: Situation, reply: _Answer) -> str:
    """The answer in one line."""
    return f"{facts.variant} {reply.text}" + ("" if reply.since is None else f", {since(reply.since, facts.now)}")


# -- the causes, each a pure function: a sentence, since when if that is not the stage, and a command ------------------

_Cause = tuple[str, float | None, str] | None


def _fault(facts: Situation) -> _Cause:
    return (f"waits: {facts.faults[0]}", None, "") if facts.faults else None


def _no_line(facts: Situation) -> _Cause:
    text = "has no line yet: it was never run here"
    return (text, None, f"ringrift run --variants {facts.variant}") if facts.line is None else None


def _rests(facts: Situation) -> _Cause:
    if facts.line is None or facts.line.stage is not Stage.RESTING:
        return None
    text = f"rests: the promotions asked for are done, {facts.line.iteration} in all"
    return text, None, "" if facts.has_coordinator else "ringrift run"


def _no_coordinator(facts: Situation) -> _Cause:
    text = "waits: no coordinator is running"
    return None if facts.has_coordinator else (text, facts.coordinator_left, "ringrift run")


def _brake(facts: Situation) -> _Cause:
    """A person or a rule stops the cluster, this variant, or the stage it is in."""
    stages = [STAGES.get(facts.kind, "")] + ["promote"] * (facts.kind == "match")
    states = (facts.run_states.find(variant=facts.variant, stage=stage, now=facts.now) for stage in stages)
    state = next(filter(None, states), None)
    if state is not None and state.by == BY_RUN:
        return f"rests: {state.reason}", state.since, f"ringrift run --variants {facts.variant}"
    return (f"waits: {brake_reason(state)}", state.since, remedy(state.scope)) if state else None


def _takers(facts: Situation) -> dict[str, Verdict | None]:
    """The nodes that run and take jobs of the kind that the line waits for: by id why one cannot do them, if so."""
    refusals = [verdict for verdict in facts.verdicts if verdict.gate == f"{CLAIM_PREFIX}{facts.kind}"]
    takers = [node.id for node in facts.nodes if facts.kind in KINDS.get(node.profile, ())]
    return {id: next((row for row in refusals if row.rule.startswith(unfit_rule(id))), None) for id in takers}


def _no_workload(facts: Situation) -> _Cause:
    """A node says that it cannot run the workload of the line, and no other can run a job of it."""
    rule = workload_rule(facts.line.workload) if facts.line else "\0"
    refusals = [verdict for verdict in facts.verdicts if rule in verdict.rule and not verdict.allowed]
    if not refusals or not all(_takers(facts).values()) or any(job.holder for job in facts.awaited):
        return None
    first = min(refusals, key=lambda verdict: verdict.since)
    return f"waits: {first.rule}", first.since, "ringrift doctor"


def _no_champion(facts: Situation) -> _Cause:
    verdict = facts.verdict(CHAMPION_GATE)
    return (f"waits: {verdict.rule}", verdict.since, "ringrift status") if verdict else None


def _on_request(facts: Situation) -> _Cause:
    """The line keeps its jobs until a person requests them."""
    verdict = facts.verdict("automatic") if facts.line and facts.line.manual_jobs else None
    return (f"waits: {verdict.rule}", verdict.since, f"ringrift request {facts.variant} STAGE") if verdict else None


def _no_node(facts: Situation) -> _Cause:
    """No node that runs takes the kind of job that the line waits for."""
    if not facts.kind or any(facts.kind in KINDS.get(node.profile, ()) for node in facts.nodes):
        return None
    others = ", ".join(f"{node.id} ({node.profile})" for node in facts.nodes)
    deed = _DEEDS.get(facts.kind, f"do {facts.kind} jobs of")
    text = f"waits: no node that can {deed} {facts.variant} is running"
    return f"{text}; running: {others}" if others else text, None, "ringrift run"


def _no_fit(facts: Situation) -> _Cause:
    """No node that runs has what the jobs need that the line waits for, or is allowed to do them."""
    takers = _takers(facts)
    refusals = [verdict for verdict in takers.values() if verdict is not None]
    if not facts.awaited or not refusals or len(refusals) < len(takers) or any(job.holder for job in facts.awaited):
        return None
    first = min(refusals, key=lambda verdict: verdict.since)
    more = f"; nor can {len(refusals) - 1} more" if refusals[1:] else ""
    return f"waits: {first.rule}{more}", first.since, "ringrift nodes list"


def _failing(facts: Situation) -> _Cause:
    """The stage waits for a job of a kind that was given up last time, or every job it waits for has failed."""
    start = f"waits: {_noun(facts.kind)} fails: "
    failure = next((failure for failure in reversed(facts.failures) if failure.kind == facts.kind), None)
    if failure is not None:
        return f"{start}{failure}", failure.time, f"ringrift jobs show {failure.job}"
    failed = [job for job in facts.awaited if job.error and job.attempts]  # not those that were only given back
    if facts.line is None or not failed or len(failed) < len(facts.awaited):
        return None
    job = max(failed, key=lambda job: (job.attempts, job.time))
    error = describe_error(job.error or "", facts.tracebacks.get(job.id, ""))
    text = f"{start}{error} (attempt {job.attempts}; it is tried again)"
    return text, facts.line.since, f"ringrift jobs show {job.id}"


def _refused(facts: Situation) -> _Cause:
    """The awaited jobs are in the queue, and the nodes that could do them refuse."""
    reasons = [(reason, begin) for kind, reason, begin in refusal_reasons(facts) if kind == facts.kind]
    if not facts.awaited or not reasons or any(job.holder for job in facts.awaited):
        return None
    return f"waits: {_noun(facts.kind)} is not started: {reasons[0][0]}", reasons[0][1], ""


def _not_filled(facts: Situation) -> _Cause:
    """Self-play is needed, and the daemon that asks for it is off, or asks for none."""
    if facts.kind != "play" or facts.awaited:
        return None
    if "fill" in facts.disabled:
        text = "waits: no games are played, because settings turn the daemon fill off (node.disabled_daemons)"
        return text, None, "ringrift daemons"
    verdict = facts.verdict("fill")
    return (f"waits: no games are played: {_numbers(verdict)}", verdict.since, "") if verdict else None


def _test(facts: Situation) -> _Cause:
    if facts.line is None or facts.line.stage is not Stage.EVALUATING or not open_tests(facts.line):
        return None
    candidate, test, _ = open_tests(facts.line)[0]
    now = outcome(test, facts.line.players)
    text = f"is testing candidate {short(candidate)}: LLR {now.llr:.2f} of {now.upper:.2f} after {now.blocks} blocks"
    return f"{text} (rejected at {now.lower:.2f}, or after {test.gate.blocks_max} blocks)", None, ""


def _working(facts: Situation) -> _Cause:
    """A job that a whole stage waits for is running."""
    job = next((job for job in facts.awaited if job.holder), None)
    if facts.line is None or job is None or facts.kind == "play":
        return None
    retry = retry_text(job)
    text = f"is {facts.line.stage}: {job.progress:.0%} done on node {job.holder}{retry}"
    return text, None, f"ringrift jobs show {job.id}" if retry else ""


def _stage(facts: Situation) -> _Cause:
    """Nothing is wrong: the stage takes its time."""
    stage = facts.line.stage if facts.line else ""
    verdict = facts.verdict(stage, closed=False)
    return f"is {stage}" + (f": {_numbers(verdict)}" if verdict else ""), None, ""


_CAUSES: Sequence[Callable[[Situation], _Cause]] = (
    *(_fault, _no_line, _rests, _no_coordinator, _brake, _no_workload, _no_champion, _on_request, _no_node),
    *(_no_fit, _failing, _refused, _not_filled, _test, _working, _stage),
)
"""Every cause in the order of precedence; programs know it by the name of its function."""
_WIDER = (_fault, _no_coordinator, _brake, _no_workload, _failing)  # their times are not those of a stage


def retry_text(job: JobRow) -> str:
    """The attempt and error of a job that has failed before; one that was only given back has used up no attempt."""
    has_failed = job.error and job.attempts
    return f", attempt {job.attempts} after: {describe_error(job.error or '', '')}" if has_failed else ""


def refusal_reasons(facts: Situation) -> list[tuple[str, str, float]]:
    """Why queued jobs are not started: kind, reason and since when, each reason once for however many nodes."""
    first: dict[tuple[str, str], Verdict] = {}
    for verdict in sorted(facts.verdicts, key=lambda verdict: verdict.since):
        if verdict.gate.startswith(CLAIM_PREFIX):
            first.setdefault((verdict.gate.removeprefix(CLAIM_PREFIX), verdict.rule), verdict)
    reasons = []
    for (kind, rule), verdict in first.items():
        reason = f"{rule}: {verdict.value:.4g} of {verdict.limit:.4g}" if verdict.limit > 1 else rule
        if kind == Train.kind() and rule == slot_rule(facts.variant) and facts.trainers:
            reason = f"{rule} is held by {', '.join(facts.trainers)}"
        reasons.append((kind, reason, verdict.since))
    return reasons


def find_failures(events: Iterable[tuple[float, Event | Unknown]], variant: str) -> list[_Failure]:
    """The jobs of *variant* that were given up in *events*, oldest first, with no success of their kind since."""
    failures: dict[str, _Failure] = {}
    for time, event in events:
        if isinstance(event, Unknown) or getattr(event, "variant", "") != variant:
            continue
        if isinstance(event, work.Buried):
            names = {name: getattr(event, name) for name in ("job", "kind", "error", "attempts", "traceback")}
            failures.pop(event.kind, None)
            failures[event.kind] = _Failure(time=time, **names)
        else:
            failures.pop(SUCCESSES[type(event)], None)
    return list(failures.values())


def _noun(kind: str) -> str:
    return _NOUNS.get(kind, kind)


def _numbers(verdict: Verdict) -> str:
    return f"{verdict.value:.4g} of {verdict.limit:.4g} {verdict.rule}"
