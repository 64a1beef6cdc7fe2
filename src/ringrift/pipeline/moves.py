"""Moves: how a line enters a stage, with the job that the stage waits for."""

from ringrift.evaluation.gate import Outcome
from ringrift.events import model
from ringrift.jobs import STAGE, URGENT, Distribute, Export, Match, Sync, Train, Verify
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Policy
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline import challenge
from ringrift.pipeline.line import ANCESTORS_MAX, Ancestor, Candidate, Decision, Line, Review, Stage
from ringrift.pipeline.models import Change, State
from ringrift.pipeline.step import Step, changed, gate, move, with_more

REVIEW = "review"
"""The purpose of a match by which the champion itself is tested."""


def start(line: Line, policy: Policy, at: float) -> Step:
    """Begin from nothing: make generation 0."""
    line = move(
        line, Stage.STARTING, at, champion=None, generation=-1, candidate=None, samples=None, review=None, ancestors=(),
        tries=line.tries + 1,
    )  # fmt: skip
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


def vouch(line: Line, candidate: Candidate, holder: str, at: float) -> Step:
    """A candidate counts only once it has its copies and somebody has checked it; *holder* has the first copy."""
    line = move(line, Stage.VERIFYING, at, candidate=candidate)
    copy = Sync(variant=line.variant, blob=candidate.model, kind_of="model", source=holder, priority=URGENT)
    check = Verify(variant=line.variant, model=candidate.model, priority=STAGE)
    return Step(
        line=line, jobs=(copy, check), verdicts=(gate(Stage.VERIFYING, "copied and checked", 0, 2, at),),
        models=(Change(model=candidate.model, generation=candidate.generation, state=State.CANDIDATE),),
    )  # fmt: skip


def promote(line: Line, decided: Outcome | None, at: float) -> Step:
    """The candidate becomes champion: record, event, evidence and next job in one transaction."""
    candidate = line.candidate
    assert candidate is not None
    assert candidate.copied
    assert candidate.verified
    previous, review = line.champion, line.review
    decision = _decision(line, candidate, True, decided, at)
    job = Distribute(variant=line.variant, model=candidate.model, priority=STAGE)
    changes = [Change(model=candidate.model, generation=candidate.generation, state=State.CHAMPION)]
    ancestors = line.ancestors
    if previous is not None:
        changes.append(Change(model=previous, generation=line.generation, state=State.RETIRED))
        ancestors = (*ancestors, Ancestor(model=previous, generation=line.generation))[-ANCESTORS_MAX:]
    line = move(
        line, Stage.DISTRIBUTING, at, champion=candidate.model, generation=candidate.generation, ancestors=ancestors,
        asked=job.key, candidate=None, samples=None, review=None, iteration=line.iteration + (decided is not None),
    )  # fmt: skip
    said = model.Promoted(
        variant=line.variant, model=candidate.model, generation=candidate.generation, previous=previous,
        evidence=decision.evidence,
    )  # fmt: skip
    return Step(
        line=line,
        jobs=(job,),
        events=(said,),
        decision=decision,
        evidence=_rests_on(candidate, decided),
        models=tuple(changes),
        verdicts=(gate(Stage.DISTRIBUTING, "the champion on every node that plays", 0, 1, at),),
        cancel=(challenge.keys(line.variant, candidate.model), *review_keys(line.variant, previous, review)),
    )


def reject(line: Line, reason: str, decided: Outcome | None, policy: Policy, at: float) -> Step:
    """The champion stays, and the line collects again."""
    candidate = line.candidate
    assert candidate is not None
    decision = changed(_decision(line, candidate, False, decided, at), reason=reason)
    said = model.Rejected(variant=line.variant, model=candidate.model, reason=reason, evidence=decision.evidence)
    return with_more(
        collect(line, policy, at),
        events=(said,),
        decision=decision,
        evidence=_rests_on(candidate, decided),
        models=(Change(model=candidate.model, generation=candidate.generation, state=State.REJECTED),),
        cancel=(challenge.keys(line.variant, candidate.model),),
    )


def review_keys(variant: str, champion: str | None, review: Review | None) -> tuple[str, ...]:
    """What the keys of the jobs of a review begin with, if there is one."""
    return () if review is None or champion is None else (Match.prefix(variant, champion, REVIEW),)


def copy_games(line: Line, blob: str, source: str = "", priority: int = STAGE) -> Sync:
    """The job that copies a batch of games."""
    played = next((batch.games for batch in line.pending if batch.blob == blob), 0)
    return Sync(variant=line.variant, blob=blob, kind_of="games", source=source, played=played, priority=priority)


def seed(line: Line, policy: Policy) -> int:
    """The seed of the job that this try of *line* asks for."""
    return seed_of(policy.seed, line.variant, line.tries)


def _rest(line: Line, policy: Policy, at: float) -> Verdict:
    assert policy.iterations_max is not None
    return Verdict(
        gate=Stage.RESTING, allowed=False, rule="promotions asked for are done", value=line.iteration,
        limit=policy.iterations_max, since=at,
    )  # fmt: skip


def _decision(line: Line, candidate: Candidate, promoted: bool, decided: Outcome | None, at: float) -> Decision:
    test, reason = candidate.challenge, "generation 0 is where a line begins"
    if test is None or decided is None:
        return Decision(
            variant=line.variant, model=candidate.model, promoted=promoted, reason=reason,
            generation=candidate.generation, time=at, previous=line.champion,
        )  # fmt: skip
    return Decision(
        variant=line.variant, model=candidate.model, promoted=promoted, reason=decided.rule,
        generation=candidate.generation, time=at, previous=line.champion,
        evidence=challenge.evidence(decided, test), gate=test.gate, seed=test.seed,
    )  # fmt: skip


def _rests_on(candidate: Candidate, decided: Outcome | None) -> tuple[str, ...]:
    """The ids of the blocks that *decided* looked at."""
    if candidate.challenge is None or decided is None:
        return ()
    return tuple(block.id for block in challenge.counted(candidate.challenge)[: decided.blocks])
