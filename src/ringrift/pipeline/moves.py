"""Moves: how a line enters a stage, with the job that the stage waits for."""

from collections.abc import Sequence
from typing import Any

from ringrift.evaluation.gate import Outcome
from ringrift.events import model
from ringrift.events.selfplay import BatchFinished
from ringrift.events.work import Buried
from ringrift.jobs import STAGE, URGENT, Distribute, Export, Job, JobFilter, Purpose, Sync, Train, Verify
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import changed
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline import challenge
from ringrift.pipeline.line import ANCESTORS_MAX, Ancestor, Batch, Candidate, Decision, Line, Stage, setback_seconds
from ringrift.pipeline.models import Change, State
from ringrift.pipeline.step import Step, gate, move, with_more

SETBACK = "setback"  #: The gate of a line whose jobs fail.


def start(line: Line, policy: Policy, at: float) -> Step:
    """Begin from nothing: make generation 0, the later the more often that has failed."""
    empty = {"champion": None, "generation": -1, "candidate": None, "samples": None, "review": None, "ancestors": ()}
    line = move(line, Stage.STARTING, at, tries=line.tries + 1, **empty)
    # The first generation has the same seed however often it must be made again: the same bytes come out.
    job = Train(variant=line.variant, generation=0, seed=seed_of(policy.seed, line.variant), priority=STAGE)
    job = changed(job, pause_seconds=setback_seconds(line))
    line = changed(line, awaited_job=job.key)
    return Step(line=line, jobs=(job,), verdicts=(gate(Stage.STARTING, "a model of generation 0", 0, 1, at),))


def collect(line: Line, policy: Policy, at: float) -> Step:
    """Collect games, or rest if the promotions that the policy asks for are done."""
    limit = policy.iterations_max
    if limit is None or line.iteration < limit:
        return export_if_enough(move(line, Stage.COLLECTING, at, candidate=None, samples=None), policy, at)
    verdict = Verdict(Stage.RESTING, False, "promotions asked for are done", line.iteration, limit, at)
    return Step(line=move(line, Stage.RESTING, at, candidate=None, samples=None), verdicts=(verdict,))


def export_if_enough(line: Line, policy: Policy, at: float) -> Step:
    """Export the window, if there are enough games since the last time."""
    limit = policy.games_per_export
    enough = line.fresh >= limit and bool(line.window)
    verdict = Verdict(Stage.COLLECTING, enough, "games since the last export", line.fresh, limit, at)
    return with_more(export(line, policy, at) if enough else Step(line=line), verdicts=(verdict,))


def export(line: Line, policy: Policy, at: float) -> Step:
    """Export the window."""
    line = move(line, Stage.EXPORTING, at, fresh=0, tries=line.tries + 1)
    batches = tuple(batch.blob for batch in line.window)
    seed = seed_of(policy.seed, line.variant, line.tries)
    job = Export(variant=line.variant, batches=batches, seed=seed, priority=STAGE)
    line = changed(line, awaited_job=job.key)
    return Step(line=line, jobs=(job,), verdicts=(gate(Stage.EXPORTING, "samples from an export", 0, 1, at),))


def verify(line: Line, candidate: Candidate, holder: str, at: float) -> Step:
    """Have *candidate* copied and checked before it counts; the node *holder* has the first copy."""
    setbacks = line.setbacks if line.champion is None else 0  # another candidate has its own chance
    line = move(line, Stage.VERIFYING, at, candidate=candidate, setbacks=setbacks)
    copy = Sync(variant=line.variant, blob=candidate.model, kind_of="model", source=holder, priority=URGENT)
    check = Verify(variant=line.variant, model=candidate.model, priority=STAGE)
    verdict = gate(Stage.VERIFYING, "copied and checked", 0, 2, at)
    change = Change(candidate.model, candidate.generation, State.CANDIDATE)
    return Step(line=line, jobs=(copy, check), verdicts=(verdict,), models=(change,))


def ask_again(line: Line, event: Buried, policy: Policy, at: float) -> Step:
    """*line* without a decision about its candidate, because a job that it waits for failed: that is tried later."""
    line = changed(line, setbacks=line.setbacks + 1)
    candidate, seconds = line.candidate, setback_seconds(line)
    assert candidate is not None
    jobs: Sequence[Job]
    match event.kind:
        case "sync":
            jobs = (Sync(variant=line.variant, blob=candidate.model, kind_of="model", source="", priority=URGENT),)
        case "verify":
            jobs = (Verify(variant=line.variant, model=candidate.model, priority=STAGE),)
        case _:
            # Those that are alive are not asked for twice.
            jobs = challenge.missing_blocks(line, candidate.model, candidate.challenge, policy)
    again = tuple(changed(job, pause_seconds=seconds) for job in jobs)
    return Step(line=line, jobs=again, verdicts=(setback(line, event, at),))


def setback(line: Line, event: Buried, at: float) -> Verdict:
    """The verdict on a line that waits because a job was given up."""
    rule = f"{event.kind} failed and is tried again in {setback_seconds(line):g} s: {event.error}; failures in a row"
    return Verdict(SETBACK, False, rule, line.setbacks, 0, at)


def promote(line: Line, outcome: Outcome | None, at: float) -> Step:
    """The candidate becomes champion: record, event, evidence and next job in one transaction."""
    candidate = line.candidate
    assert candidate is not None
    assert candidate.copied
    assert candidate.verified
    previous, ancestors = line.champion, line.ancestors
    decision = _decision(line, candidate, True, outcome, at)
    changes = [Change(candidate.model, candidate.generation, State.CHAMPION)]
    if previous is not None:
        changes.append(Change(previous, line.generation, State.RETIRED))
        ancestors = (*ancestors, Ancestor(previous, line.generation))[-ANCESTORS_MAX:]
    cancel = test_jobs(line)
    line = changed(line, ancestors=ancestors, iteration=line.iteration + (outcome is not None))
    event = model.Promoted(variant=line.variant, model=candidate.model, generation=candidate.generation)
    event = changed(event, previous=previous, evidence=decision.evidence)
    step = distribute(line, Ancestor(candidate.model, candidate.generation), at)
    evidence, models = challenge.evidence_ids(outcome, candidate.challenge), tuple(changes)
    return with_more(step, events=(event,), decision=decision, evidence=evidence, models=models, cancel=cancel)


def distribute(line: Line, champion: Ancestor, at: float) -> Step:
    """*champion* is the champion of *line* now, and is brought to every node that plays."""
    job = Distribute(variant=line.variant, model=champion.model, priority=STAGE)
    empty = {"candidate": None, "samples": None, "review": None, "awaited_job": job.key}
    line = move(line, Stage.DISTRIBUTING, at, champion=champion.model, generation=champion.generation, **empty)
    verdict = gate(Stage.DISTRIBUTING, "the champion on every node that plays", 0, 1, at)
    return Step(line=line, jobs=(job,), verdicts=(verdict,))


def reject(line: Line, reason: str, outcome: Outcome | None, policy: Policy, at: float) -> Step:
    """The champion stays, and the line collects again."""
    candidate = line.candidate
    assert candidate is not None
    decision = changed(_decision(line, candidate, False, outcome, at), reason=reason)
    event = model.Rejected(variant=line.variant, model=candidate.model, reason=reason, evidence=decision.evidence)
    evidence = challenge.evidence_ids(outcome, candidate.challenge)
    models = (Change(candidate.model, candidate.generation, State.REJECTED),)
    step = with_more(collect(line, policy, at), events=(event,), models=models, decision=decision, evidence=evidence)
    return with_more(step, cancel=test_jobs(line, Purpose.PROMOTION))


def test_jobs(line: Line, *purposes: Purpose) -> tuple[JobFilter, ...]:
    """The jobs of the tests of *line* that are under way, for *purposes* alone or for all."""
    tests = [(model, purpose) for model, _, purpose in challenge.open_tests(line) if purpose in (purposes or Purpose)]
    return tuple(JobFilter(variant=line.variant, purpose=purpose, candidate=model) for model, purpose in tests)


def with_batch(line: Line, event: BatchFinished) -> Line:
    """*line* with the batch of *event*, which waits for its copies; the same games again count once."""
    if any(batch.blob == event.batch for batch in (*line.pending, *line.window)):
        return line
    counts = changed(line.counts, batches=line.counts.batches + 1, games=line.counts.games + event.games)
    batch = Batch(blob=event.batch, games=event.games, node=event.node)
    return changed(line, pending=(*line.pending, batch), counts=counts)


def copy_games(line: Line, blob: str, source: str = "", priority: int = STAGE) -> Sync:
    """The job that copies a batch of games."""
    games = next((batch.games for batch in line.pending if batch.blob == blob), 0)
    return Sync(variant=line.variant, blob=blob, kind_of="games", source=source, played=games, priority=priority)


def _decision(line: Line, candidate: Candidate, promoted: bool, outcome: Outcome | None, at: float) -> Decision:
    shared: dict[str, Any] = {"variant": line.variant, "previous": line.champion, "promoted": promoted, "time": at}
    shared |= {"model": candidate.model, "generation": candidate.generation}
    decision, test = Decision(reason="generation 0 is where a line begins", **shared), candidate.challenge
    if test is None or outcome is None:
        return decision
    evidence = challenge.evidence(outcome)
    return changed(decision, reason=outcome.rule, evidence=evidence, gate=test.gate, seed=test.seed)
