"""Moves: how a line enters a stage, with the job that the stage waits for."""

from ringrift.events import model
from ringrift.jobs import STAGE, Distribute, Export, Sync, Train
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Policy
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline import challenge
from ringrift.pipeline.line import Candidate, Decision, Line, Stage
from ringrift.pipeline.step import Step, changed, gate, move, with_more


def start(line: Line, policy: Policy, at: float) -> Step:
    """Begin from nothing: make generation 0."""
    line = move(
        line, Stage.STARTING, at, champion=None, generation=-1, candidate=None, samples=None, tries=line.tries + 1
    )
    # The first generation has the same seed however often it must be made again: the same bytes come out.
    job = Train(variant=line.variant, generation=0, seed=seed_of(policy.seed, line.variant), priority=STAGE)
    line = changed(line, asked=job.key)
    return Step(line=line, jobs=(job,), verdicts=(gate(Stage.STARTING, "a model of generation 0", 0, 1, at),))


def collect(line: Line, policy: Policy, at: float) -> Step:
    """Collect games, or rest if the promotions asked for are done."""
    if policy.iterations_max is not None and line.iteration >= policy.iterations_max:
        return Step(
            line=move(line, Stage.RESTING, at, candidate=None, samples=None), verdicts=(_rest(line, policy, at),)
        )
    return export_if_enough(move(line, Stage.COLLECTING, at, candidate=None, samples=None), policy, at)


def export_if_enough(line: Line, policy: Policy, at: float) -> Step:
    """Export the window, if there are enough games since the last time."""
    enough = line.fresh >= policy.games_per_export and bool(line.window)
    verdict = Verdict(
        gate=Stage.COLLECTING, allowed=enough, rule="games since the last export", value=line.fresh,
        limit=policy.games_per_export, since=at,
    )  # fmt: skip
    if not enough:
        return Step(line=line, verdicts=(verdict,))
    return with_more(export(line, policy, at), verdicts=(verdict,))


def export(line: Line, policy: Policy, at: float) -> Step:
    """Export the window."""
    line = move(line, Stage.EXPORTING, at, fresh=0, tries=line.tries + 1)
    batches = tuple(batch.blob for batch in line.window)
    job = Export(variant=line.variant, batches=batches, seed=seed(line, policy), priority=STAGE)
    line = changed(line, asked=job.key)
    return Step(line=line, jobs=(job,), verdicts=(gate(Stage.EXPORTING, "samples from an export", 0, 1, at),))


def promote(line: Line, evidence: model.Evidence | None, at: float) -> Step:
    """The candidate becomes champion: record, event, evidence and next job in one transaction."""
    candidate = line.candidate
    assert candidate is not None
    assert candidate.copied
    assert candidate.verified
    previous = line.champion
    reason = "generation 0 is where a line begins" if evidence is None else evidence.rule
    job = Distribute(variant=line.variant, model=candidate.model, priority=STAGE)
    line = move(
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
        verdicts=(gate(Stage.DISTRIBUTING, "the champion on every node that plays", 0, 1, at),),
        cancel=challenge.keys(line.variant, candidate.model),
    )  # fmt: skip


def reject(line: Line, reason: str, evidence: model.Evidence | None, policy: Policy, at: float) -> Step:
    """The champion stays, and the line collects again."""
    candidate = line.candidate
    assert candidate is not None
    said = model.Rejected(variant=line.variant, model=candidate.model, reason=reason, evidence=evidence)
    decision = _decision(line, candidate, line.champion, False, reason, evidence, at)
    return with_more(
        collect(line, policy, at),
        events=(said,),
        decision=decision,
        cancel=challenge.keys(line.variant, candidate.model),
    )


def copy_games(line: Line, blob: str, source: str = "", priority: int = STAGE) -> Sync:
    """The job that copies a batch of games."""
    return Sync(variant=line.variant, blob=blob, kind_of="games", source=source, priority=priority)


def seed(line: Line, policy: Policy) -> int:
    """The seed of the job that this try of *line* asks for."""
    return seed_of(policy.seed, line.variant, line.tries)


def _rest(line: Line, policy: Policy, at: float) -> Verdict:
    assert policy.iterations_max is not None
    return Verdict(
        gate=Stage.RESTING, allowed=False, rule="promotions asked for are done", value=line.iteration,
        limit=policy.iterations_max, since=at,
    )  # fmt: skip


def _decision(
    line: Line, candidate: Candidate, previous: str | None, promoted: bool, reason: str,
    evidence: model.Evidence | None, at: float,
) -> Decision:  # fmt: skip
    return Decision(
        variant=line.variant, model=candidate.model, promoted=promoted, reason=reason, generation=candidate.generation,
        time=at, previous=previous, evidence=evidence,
    )  # fmt: skip
