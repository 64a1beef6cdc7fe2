"""Review: the champion itself is tested against one before it, and the line is rolled back if it lost strength.

A review is due after some promotions, so that a row of lucky ones is noticed; when the champion does worse against an
opponent than the one before it did; and when a node is quarantined, for then a promotion may rest on blocks that are no
evidence: those are played again, and the same gate decides once more.
"""

from typing import Any

from ringrift.evaluation.gate import Outcome, elo
from ringrift.events import evaluation, model
from ringrift.events.base import Event
from ringrift.jobs import JobFilter, Purpose
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import changed
from ringrift.pipeline import challenge
from ringrift.pipeline.line import Challenge, Decision, Line, Review, Stage
from ringrift.pipeline.models import Change, State
from ringrift.pipeline.moves import distribute, test_jobs
from ringrift.pipeline.step import Context, Step, with_more

_LEVELS = ((75.0, "critical"), (50.0, "severe"), (35.0, "moderate"))  #: Elo lost, at least, and its name.


def _level(lost: float) -> str:
    return next((name for least, name in _LEVELS if lost >= least), "minor")


def begin_if_due(step: Step, policy: Policy) -> Step:
    """*step*, after which the champion is on every node, with its review if one is due."""
    line, every = step.line, policy.review_promotions
    if not every or line.iteration % every or len(line.ancestors) < every or line.iteration == 0:
        return step
    return _begin(step, line.ancestors[-every].model, f"due after {every} promotions", policy)


def _begin(step: Step, opponent: str, reason: str, policy: Policy) -> Step:
    """*step* with a review of the champion against its ancestor *opponent*."""
    line, champion = step.line, step.line.champion
    assert champion is not None
    seed = seed_of(line.variant, Purpose.REVIEW, champion, opponent)
    test = Challenge(opponent=opponent, gate=policy.review, seed=seed)
    test, jobs = challenge.next_blocks(line, champion, test, policy, Purpose.REVIEW)
    return with_more(changed(step, line=changed(line, review=Review(reason=reason, challenge=test))), jobs=jobs)


def watch_win_rates(line: Line, event: Event, context: Context) -> Step:
    """Publish a fall of the champion's win rate, and review the champion against the one that did better."""
    step, drop, policy = context.step, context.drop, context.policy
    if drop is None or step.line.champion != drop.model:
        return step
    step = with_more(step, events=(drop,))
    ancestors = {ancestor.model for ancestor in step.line.ancestors}
    if not policy.review_promotions or step.line.review is not None or drop.predecessor not in ancestors:
        return step  # it is published, and nothing else
    reason = f"its win rate against {drop.opponent[:12]} is {drop.rate:.2f}, before {drop.before:.2f}"
    return _begin(step, drop.predecessor, reason, policy)


def decide_review(line: Line, context: Context) -> Step:
    """The line after the blocks of its review so far.  While a brake is set, a lost review waits with its evidence."""
    review, champion, at = line.review, line.champion, context.at
    assert review is not None
    assert champion is not None
    test = review.challenge
    verdict = challenge.verdict(line, Purpose.REVIEW, test, at)
    outcome = challenge.outcome(test, line.players)
    if outcome.decided is None:
        test, jobs = challenge.next_blocks(line, champion, test, context.policy, Purpose.REVIEW)
        return Step(line=challenge.with_test(line, test, Purpose.REVIEW), jobs=jobs, verdicts=(verdict,))
    if not outcome.decided and not context.brake.allowed:
        return Step(line=line, verdicts=(verdict, context.brake))
    gain = elo(outcome.score, outcome.scale(line.players))
    result = {"blocks": outcome.blocks, "score": outcome.score, "elo": gain, "reason": review.reason}
    shared: dict[str, Any] = {"variant": line.variant, "model": champion, "opponent": test.opponent, **result}
    reviewed = evaluation.Reviewed(passed=outcome.decided, **shared)
    if outcome.decided:
        step = Step(line=changed(line, review=None), cancel=test_jobs(line, Purpose.REVIEW))
    else:
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
    evidence = challenge.evidence(outcome) if outcome else None
    changes = [Change(before, line.generation, state), Change(to, target.generation, State.CHAMPION)]
    cancel = test_jobs(line)
    rejected: tuple[model.Rejected, ...] = ()
    if candidate is not None:
        why = "the champion that it was tested against was rolled back"
        rejected = (model.Rejected(variant=line.variant, model=candidate.model, reason=why),)
        changes.append(Change(candidate.model, candidate.generation, State.REJECTED))
    if line.stage in (Stage.EXPORTING, Stage.TRAINING) and line.awaited_job is not None:
        cancel += (JobFilter(variant=line.variant, key=line.awaited_job),)
    level = _level(-elo(evidence.score, evidence.scale(line.players))) if evidence else ""
    about: dict[str, Any] = {"variant": line.variant, "reason": reason, "generation": target.generation}
    rolled_back = model.RolledBack(model=before, to=to, level=level, evidence=evidence, **about)
    decision = Decision(model=to, previous=before, promoted=False, time=at, kind="rollback", evidence=evidence, **about)
    decision = changed(decision, gate=test.gate, seed=test.seed) if test else decision
    earlier = line.ancestors[: line.ancestors.index(target)]
    step = distribute(changed(line, ancestors=earlier), target, at)
    step = with_more(step, events=(*rejected, rolled_back), models=tuple(changes), cancel=cancel)
    return with_more(step, decision=decision, evidence=challenge.evidence_ids(outcome, test))
