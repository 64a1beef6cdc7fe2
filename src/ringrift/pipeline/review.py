"""Review: the champion itself is tested against one before it, and the line is rolled back if it lost strength.

A review is due after some promotions, so that a row of lucky ones is noticed; and when a node is quarantined, for then
a promotion may rest on blocks that are no evidence: those are played again, and the same gate decides once more.
"""

from typing import Any

from ringrift.evaluation import blocks as results
from ringrift.evaluation.gate import Outcome, elo
from ringrift.events import evaluation, model
from ringrift.jobs import JobFilter, Purpose
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import changed
from ringrift.pipeline import challenge
from ringrift.pipeline.line import Challenge, Decision, Line, Review, Stage
from ringrift.pipeline.models import Change, State
from ringrift.pipeline.moves import distribute, review_jobs, test_jobs
from ringrift.pipeline.step import Step, with_more

_LEVELS = ((75.0, "critical"), (50.0, "severe"), (35.0, "moderate"))
"""How many Elo were lost, at the least, and the name of such a loss."""


def _level(lost: float) -> str:
    return next((name for least, name in _LEVELS if lost >= least), "minor")


def begin_if_due(step: Step, policy: Policy) -> Step:
    """*step*, after which the champion is on every node, with its review if one is due."""
    line, every = step.line, policy.review_promotions
    if not every or line.iteration % every or len(line.ancestors) < every or line.iteration == 0:
        return step
    assert line.champion is not None
    opponent = line.ancestors[-every].model
    seed = seed_of(line.variant, Purpose.REVIEW, line.champion, opponent)
    test = Challenge(opponent=opponent, gate=policy.review, seed=seed)
    test, jobs = challenge.next_blocks(line, line.champion, test, policy, Purpose.REVIEW)
    line = changed(line, review=Review(reason=f"due after {every} promotions", challenge=test))
    return with_more(changed(step, line=line), jobs=jobs)


def judge_review(line: Line, event: evaluation.BlocksPlayed, policy: Policy, at: float) -> Step:
    """The line after blocks of its champion's review."""
    review, champion = line.review, line.champion
    assert review is not None
    assert champion is not None
    test = challenge.with_blocks(review.challenge, results.from_event(event), line.players)
    verdict = challenge.verdict(line, Purpose.REVIEW, test, at)
    outcome = challenge.outcome(test, line.players)
    if outcome.decided is None:
        test, jobs = challenge.next_blocks(line, champion, test, policy, Purpose.REVIEW)
        return Step(line=changed(line, review=changed(review, challenge=test)), jobs=jobs, verdicts=(verdict,))
    gain = elo(outcome.score, challenge.evidence(outcome, test).scale(line.players))
    result = {"blocks": outcome.blocks, "score": outcome.score, "elo": gain, "reason": review.reason}
    shared: dict[str, Any] = {"variant": line.variant, "model": champion, "opponent": test.opponent, **result}
    reviewed = evaluation.Reviewed(passed=outcome.decided, **shared)
    if outcome.decided:
        step = Step(line=changed(line, review=None), cancel=review_jobs(line))
    else:
        line = changed(line, review=changed(review, challenge=test))
        step = roll_back(line, test.opponent, f"review ({review.reason}): {outcome.rule}", at, outcome)
    return with_more(step, events=(reviewed,), verdicts=(verdict,))


def roll_back(
    line: Line, to: str, reason: str, at: float, outcome: Outcome | None = None, state: State = State.ROLLED_BACK
) -> Step:
    """The line goes back to its earlier champion *to*, all in one step; the one that goes comes to *state*.

    A candidate's test against the old champion ends, and so does an export or a training under way.
    """
    target = next((ancestor for ancestor in line.ancestors if ancestor.model == to), None)
    assert target is not None
    assert line.champion is not None
    before, candidate = line.champion, line.candidate
    test = line.review.challenge if line.review and outcome else None
    evidence = challenge.evidence(outcome, test) if outcome and test else None
    changes = [
        Change(model=before, generation=line.generation, state=state),
        Change(model=to, generation=target.generation, state=State.CHAMPION),
    ]
    cancel: tuple[JobFilter, ...] = (*review_jobs(line), *test_jobs(line))
    rejected: tuple[model.Rejected, ...] = ()
    if candidate is not None:
        why = "the champion that it was tested against was rolled back"
        rejected = (model.Rejected(variant=line.variant, model=candidate.model, reason=why),)
        changes.append(Change(model=candidate.model, generation=candidate.generation, state=State.REJECTED))
    if line.stage in (Stage.EXPORTING, Stage.TRAINING) and line.awaited_job is not None:
        cancel += (JobFilter(variant=line.variant, key=line.awaited_job),)
    level = _level(-elo(evidence.score, evidence.scale(line.players))) if evidence else ""
    rolled_back = model.RolledBack(
        variant=line.variant, model=before, to=to, generation=target.generation, reason=reason
    )
    rolled_back = changed(rolled_back, level=level, evidence=evidence)
    earlier = line.ancestors[: line.ancestors.index(target)]
    step = distribute(changed(line, ancestors=earlier), target, at)
    step = with_more(step, events=(*rejected, rolled_back), models=tuple(changes), cancel=cancel)
    return with_more(step, decision=_decision(rolled_back, test, at), evidence=challenge.evidence_ids(outcome, test))


def _decision(event: model.RolledBack, test: Challenge | None, at: float) -> Decision:
    shared = {name: getattr(event, name) for name in ("variant", "reason", "generation", "evidence")}
    decision = Decision(model=event.to, previous=event.model, promoted=False, time=at, kind="rollback", **shared)
    return decision if test is None else changed(decision, gate=test.gate, seed=test.seed)
