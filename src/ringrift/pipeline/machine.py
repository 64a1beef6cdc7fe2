"""The machine: what follows from what, as one function without clock, disk or network.

    Opened ─▶ Train (generation 0)
    BatchFinished ─▶ Sync          Synced ─▶ (enough games?) Export      Exported ─▶ Train
    Finished ─▶ Sync + Verify      both done ─▶ Match over numbered blocks, or the first promotion
    BlocksPlayed ─▶ (gate) promote + Distribute, reject, or more blocks  Distributed ─▶ collect again

An event out of turn changes nothing, so it does not matter how often or how late one comes.
"""

from typing import TypeVar

import msgspec

from ringrift.events import data, evaluation, model, pipeline, selfplay, training, work
from ringrift.events.base import Event
from ringrift.jobs import STAGE, URGENT, Distribute, Export, Job, Sync, Train, Verify
from ringrift.kernel import variant as variants
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import Value
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline import challenge
from ringrift.pipeline.line import Batch, Candidate, Decision, Line, Stage

V = TypeVar("V", bound=Value)
COPY_ROUNDS_MAX = 50
"""Rounds of tries to copy a batch whose holder does not answer: about an hour, then it is gone for good."""


class Step(Value):
    """The line after an event, and what that calls for.  Everything in it is written in one transaction."""

    line: Line
    jobs: tuple[Job, ...] = ()
    events: tuple[Event, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    decision: Decision | None = None
    cancel: str | None = None
    """Beginning of the keys of jobs that are no longer wanted."""


def open_line(event: pipeline.Opened, policy: Policy, at: float) -> Step:
    """A new line: its first job makes generation 0."""
    parsed = variants.parse(event.variant)
    line = Line(variant=event.variant, workload=event.workload, players=parsed.players, since=at)
    return _start(line, policy, at)


def advance(line: Line, event: Event, policy: Policy, at: float) -> Step:
    """The line after *event*, and what that calls for.  Events out of turn change nothing."""
    step = _follow(line, event, policy, at)
    if step.line.stage is line.stage:
        return step
    said = pipeline.Moved(variant=line.variant, stage=step.line.stage, before=line.stage)
    return _with(step, events=(said,))


def _follow(line: Line, event: Event, policy: Policy, at: float) -> Step:
    match event, line.stage:
        case selfplay.BatchFinished(), _:
            return _played(line, event)
        case data.Synced(kind="games"), _:
            return _kept(line, event.blob, policy, at)
        case data.Synced(kind="model") | model.Verified(), Stage.VERIFYING:
            return _vouched(line, event, policy, at)
        case data.Exported(), Stage.EXPORTING if event.job == line.asked:
            return _exported(line, event, policy, at)
        case training.Finished(), Stage.TRAINING | Stage.STARTING if event.job == line.asked:
            return _trained(line, event, at)
        case evaluation.BlocksPlayed(), Stage.EVALUATING:
            return _judged(line, event, policy, at)
        case model.Distributed(), Stage.DISTRIBUTING if event.model == line.champion:
            return _collect(line, policy, at)
        case work.Buried(), _:
            return _buried(line, event, policy, at)
        case pipeline.Opened(), Stage.RESTING:
            return _collect(line, policy, at)  # more promotions may be wanted than when it went to rest
    return Step(line=line)


# -- the stages, in the order of the loop ------------------------------------------------------------------------------


def _start(line: Line, policy: Policy, at: float) -> Step:
    line = _move(
        line, Stage.STARTING, at, champion=None, generation=-1, candidate=None, samples=None, tries=line.tries + 1
    )
    # The first generation has the same seed however often it must be made again: the same bytes come out.
    job = Train(variant=line.variant, generation=0, seed=seed_of(policy.seed, line.variant), priority=STAGE)
    line = _changed(line, asked=job.key)
    return Step(line=line, jobs=(job,), verdicts=(_gate(Stage.STARTING, "a model of generation 0", 0, 1, at),))


def _played(line: Line, event: selfplay.BatchFinished) -> Step:
    if any(batch.blob == event.batch for batch in (*line.pending, *line.window)):
        return Step(line=line)  # the same games again count once
    counts = _changed(line.counts, batches=line.counts.batches + 1, games=line.counts.games + event.games)
    line = _changed(line, pending=(*line.pending, Batch(blob=event.batch, games=event.games)), counts=counts)
    # An ephemeral node may be gone in a minute; its games go first.
    priority = URGENT if event.ephemeral else STAGE
    return Step(line=line, jobs=(_sync(line, event.batch, event.node, priority),))


def _kept(line: Line, blob: str, policy: Policy, at: float) -> Step:
    batch = next((batch for batch in line.pending if batch.blob == blob), None)
    if batch is None:
        return Step(line=line)
    counts = _changed(line.counts, kept=line.counts.kept + 1, games_kept=line.counts.games_kept + batch.games)
    line = _changed(
        line, pending=tuple(b for b in line.pending if b is not batch), counts=counts, fresh=line.fresh + batch.games,
        window=(*line.window, batch)[-policy.window_batches_max :],
    )  # fmt: skip
    return _export_if_enough(line, policy, at) if line.stage is Stage.COLLECTING else Step(line=line)


def _collect(line: Line, policy: Policy, at: float) -> Step:
    if policy.iterations_max is not None and line.iteration >= policy.iterations_max:
        return Step(
            line=_move(line, Stage.RESTING, at, candidate=None, samples=None), verdicts=(_rest(line, policy, at),)
        )
    return _export_if_enough(_move(line, Stage.COLLECTING, at, candidate=None, samples=None), policy, at)


def _export_if_enough(line: Line, policy: Policy, at: float) -> Step:
    enough = line.fresh >= policy.games_per_export and bool(line.window)
    verdict = Verdict(
        gate=Stage.COLLECTING, allowed=enough, rule="games since the last export", value=line.fresh,
        limit=policy.games_per_export, since=at,
    )  # fmt: skip
    if not enough:
        return Step(line=line, verdicts=(verdict,))
    line = _move(line, Stage.EXPORTING, at, fresh=0, tries=line.tries + 1)
    batches = tuple(batch.blob for batch in line.window)
    job = Export(variant=line.variant, batches=batches, seed=_seed(line, policy), priority=STAGE)
    line = _changed(line, asked=job.key)
    return Step(line=line, jobs=(job,), verdicts=(verdict, _gate(Stage.EXPORTING, "samples from an export", 0, 1, at)))


def _exported(line: Line, event: data.Exported, policy: Policy, at: float) -> Step:
    line, said = _without(line, event.refused, "its games do not replay")
    line = _move(line, Stage.TRAINING, at, samples=event.samples, tries=line.tries + 1)
    job = Train(
        variant=line.variant, generation=line.generation + 1, samples=event.samples, parent=line.champion,
        seed=_seed(line, policy), priority=STAGE,
    )  # fmt: skip
    line = _changed(line, asked=job.key)
    gate = _gate(Stage.TRAINING, "a model from training", 0, 1, at)
    return Step(line=line, jobs=(job,), events=said, verdicts=(gate,))


def _trained(line: Line, event: training.Finished, at: float) -> Step:
    candidate = Candidate(model=event.model, generation=event.generation)
    line = _move(line, Stage.VERIFYING, at, candidate=candidate)
    copy = Sync(variant=line.variant, blob=event.model, kind_of="model", source=event.node, priority=URGENT)
    vouch = Verify(variant=line.variant, model=event.model, priority=STAGE)
    gate = _gate(Stage.VERIFYING, "copied and checked", 0, 2, at)
    return Step(line=line, jobs=(copy, vouch), verdicts=(gate,))


def _vouched(line: Line, event: Event, policy: Policy, at: float) -> Step:
    """A candidate counts only once it has its copies and somebody has checked it."""
    candidate = line.candidate
    assert candidate is not None
    match event:
        case data.Synced() if event.blob == candidate.model:
            candidate = _changed(candidate, copied=True)
        case model.Verified() if event.model == candidate.model:
            candidate = _changed(candidate, verified=True)
    line = _changed(line, candidate=candidate)
    passed = candidate.copied + candidate.verified
    verdict = _gate(Stage.VERIFYING, "copied and checked", passed, 2, at)
    if passed < 2:
        return Step(line=line, verdicts=(verdict,))
    if line.champion is None:
        return _with(_promote(line, None, at), verdicts=(verdict,))
    line = _move(line, Stage.EVALUATING, at)
    line, jobs = challenge.more(line, policy)
    return Step(line=line, jobs=jobs, verdicts=(verdict, challenge.verdict(line, policy, at)))


def _judged(line: Line, event: evaluation.BlocksPlayed, policy: Policy, at: float) -> Step:
    candidate = line.candidate
    assert candidate is not None
    if (event.candidate, event.champion) != (candidate.model, line.champion):
        return Step(line=line)
    line = _changed(line, candidate=challenge.with_blocks(candidate, event.blocks, line.players))
    outcome = challenge.outcome(line, policy)
    verdict = challenge.verdict(line, policy, at)
    if outcome.decided is None:
        line, jobs = challenge.more(line, policy)
        return Step(line=line, jobs=jobs, verdicts=(verdict,))
    evidence = challenge.evidence(outcome)
    step = _promote(line, evidence, at) if outcome.decided else _reject(line, outcome.rule, evidence, policy, at)
    return _with(step, verdicts=(verdict,))


def _promote(line: Line, evidence: model.Evidence | None, at: float) -> Step:
    """The candidate becomes champion: record, event, evidence and next job in one transaction."""
    candidate = line.candidate
    assert candidate is not None
    assert candidate.copied
    assert candidate.verified
    previous = line.champion
    reason = "generation 0 is where a line begins" if evidence is None else evidence.rule
    job = Distribute(variant=line.variant, model=candidate.model, priority=STAGE)
    line = _move(
        line, Stage.DISTRIBUTING, at, champion=candidate.model, generation=candidate.generation, previous=previous,
        asked=job.key, candidate=None, samples=None, iteration=line.iteration + (evidence is not None),
    )  # fmt: skip
    return Step(
        line=line,
        jobs=(job,),
        events=(
            model.Promoted(
                variant=line.variant, model=candidate.model, generation=candidate.generation, previous=previous,
                evidence=evidence,
            ),
        ),
        decision=_decision(line, candidate, previous, True, reason, evidence, at),
        verdicts=(_gate(Stage.DISTRIBUTING, "the champion on every node that plays", 0, 1, at),),
        cancel=challenge.keys(line.variant, candidate.model),
    )  # fmt: skip


def _reject(line: Line, reason: str, evidence: model.Evidence | None, policy: Policy, at: float) -> Step:
    candidate = line.candidate
    assert candidate is not None
    said = model.Rejected(variant=line.variant, model=candidate.model, reason=reason, evidence=evidence)
    decision = _decision(line, candidate, line.champion, False, reason, evidence, at)
    return _with(
        _collect(line, policy, at),
        events=(said,),
        decision=decision,
        cancel=challenge.keys(line.variant, candidate.model),
    )


def _buried(line: Line, event: work.Buried, policy: Policy, at: float) -> Step:
    """A job of the line will not be done.  The line goes on without it, and says what it gave up."""
    blob, candidate = event.blob, line.candidate
    waiting = next((batch for batch in line.pending if _sync(line, batch.blob).key == event.key), None)
    asked = event.key == line.asked
    match event.kind, line.stage:
        case "sync", _ if waiting is not None:
            return _uncopied(line, waiting, event)
        case (("play" | "match" | "train"), _) if blob is not None and blob == line.champion:
            return _champion_lost(line, event.error, policy, at)
        case (("sync" | "verify" | "match"), (Stage.VERIFYING | Stage.EVALUATING)) if candidate and _awaited(
            line, event
        ):
            if line.champion is None:
                return _start(line, policy, at)
            return _reject(line, f"{event.kind} failed: {event.error}", None, policy, at)
        case "export", Stage.EXPORTING if asked:
            return _export_again(line, blob, event.error, policy, at)
        case "train", Stage.TRAINING if asked:
            return _collect(line, policy, at)
        case "train", Stage.STARTING if asked:
            return _start(line, policy, at)
        case "distribute", Stage.DISTRIBUTING if asked:
            return _collect(line, policy, at)  # nodes that lack the champion fetch it when they need it
    return Step(line=line)


def _awaited(line: Line, event: work.Buried) -> bool:
    """Whether the candidate cannot do without the job that was buried."""
    candidate = line.candidate
    assert candidate is not None
    match event.kind:
        case "sync":
            return not candidate.copied and event.key == _sync(line, candidate.model).key
        case "verify":
            return not candidate.verified and event.key == Verify(variant=line.variant, model=candidate.model).key
    return event.key.startswith(challenge.keys(line.variant, candidate.model))


def _uncopied(line: Line, batch: Batch, event: work.Buried) -> Step:
    """A batch without its copies: lost if no copy is left, else it is tried again, for it may be there still."""
    if event.blob == batch.blob or batch.rounds >= COPY_ROUNDS_MAX:
        return _lost(line, batch, event.error)
    again = _changed(batch, rounds=batch.rounds + 1)
    line = _changed(line, pending=tuple(again if one is batch else one for one in line.pending))
    return Step(line=line, jobs=(_sync(line, batch.blob),))


def _sync(line: Line, blob: str, source: str = "", priority: int = STAGE) -> Sync:
    return Sync(variant=line.variant, blob=blob, kind_of="games", source=source, priority=priority)


def _lost(line: Line, batch: Batch, reason: str) -> Step:
    counts = _changed(line.counts, lost=line.counts.lost + 1, games_lost=line.counts.games_lost + batch.games)
    line = _changed(line, pending=tuple(b for b in line.pending if b is not batch), counts=counts)
    return Step(line=line, events=(data.Lost(variant=line.variant, blob=batch.blob, reason=reason),))


def _export_again(line: Line, blob: str | None, reason: str, policy: Policy, at: float) -> Step:
    """An export that failed on one batch goes on without it; one that failed for no known batch waits for new games."""
    line, said = _without(line, (blob,), reason)
    if said:
        line = _changed(line, fresh=sum(batch.games for batch in line.window))
    return _with(_collect(line, policy, at), events=said)


def _without(line: Line, blobs: tuple[str | None, ...], reason: str) -> tuple[Line, tuple[Event, ...]]:
    """The line without those of *blobs* that are in its window, counted as lost, and what is said of them."""
    bad = [batch for batch in line.window if batch.blob in blobs]
    games, counts = sum(batch.games for batch in bad), line.counts
    line = _changed(
        line,
        window=tuple(batch for batch in line.window if batch not in bad),
        counts=_changed(
            counts, kept=counts.kept - len(bad), games_kept=counts.games_kept - games, lost=counts.lost + len(bad),
            games_lost=counts.games_lost + games,
        ),
    )  # fmt: skip
    return line, tuple(data.Lost(variant=line.variant, blob=batch.blob, reason=reason) for batch in bad)


def _champion_lost(line: Line, reason: str, policy: Policy, at: float) -> Step:
    """No copy of the champion is left anywhere: go back to the one before it, or to generation 0."""
    assert line.champion is not None
    said = data.Lost(variant=line.variant, blob=line.champion, reason=reason)
    cancel = challenge.keys(line.variant, line.candidate.model) if line.candidate else None
    if line.previous is None:
        step = _start(line, policy, at)
    else:
        line = _changed(line, champion=line.previous, generation=line.generation - 1, previous=None)
        step = _collect(line, policy, at)
    return _with(step, events=(said,), cancel=cancel)


# -- small parts -------------------------------------------------------------------------------------------------------


def _changed(value: V, **changes: object) -> V:
    return msgspec.structs.replace(value, **changes)


def _move(line: Line, stage: Stage, at: float, **changes: object) -> Line:
    return _changed(line, stage=stage, since=at, **changes)


def _seed(line: Line, policy: Policy) -> int:
    return seed_of(policy.seed, line.variant, line.tries)


def _gate(stage: Stage, rule: str, value: float, limit: float, at: float) -> Verdict:
    return Verdict(gate=stage, allowed=value >= limit, rule=rule, value=value, limit=limit, since=at)


def _rest(line: Line, policy: Policy, at: float) -> Verdict:
    assert policy.iterations_max is not None
    return Verdict(
        gate=Stage.RESTING, allowed=False, rule="promotions asked for are done", value=line.iteration,
        limit=policy.iterations_max, since=at,
    )  # fmt: skip


def _with(
    step: Step, *, events: tuple[Event, ...] = (), verdicts: tuple[Verdict, ...] = (), decision: Decision | None = None,
    cancel: str | None = None,
) -> Step:  # fmt: skip
    """*step* with more in it: what is said here comes first."""
    return _changed(
        step, events=events + step.events, verdicts=verdicts + step.verdicts, decision=decision or step.decision,
        cancel=cancel or step.cancel,
    )  # fmt: skip


def _decision(
    line: Line, candidate: Candidate, previous: str | None, promoted: bool, reason: str,
    evidence: model.Evidence | None, at: float,
) -> Decision:  # fmt: skip
    return Decision(
        variant=line.variant, model=candidate.model, promoted=promoted, reason=reason, generation=candidate.generation,
        time=at, previous=previous, evidence=evidence,
    )  # fmt: skip
