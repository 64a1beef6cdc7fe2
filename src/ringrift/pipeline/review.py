"""Review: the champion itself is tested against one before it, and has to go if it lost strength.

It is due after some promotions, so that a row of lucky ones does not go unseen; and when a node was found to lie, for
then a promotion may rest on blocks that are no evidence: those are played again, and the same gate decides once more.
"""

from ringrift.evaluation import blocks as results
from ringrift.evaluation.gate import Outcome, elo
from ringrift.events import evaluation, model
from ringrift.jobs import STAGE, Distribute
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Policy
from ringrift.pipeline import challenge
from ringrift.pipeline.line import Ancestor, Challenge, Decision, Line, Review, Stage
from ringrift.pipeline.models import Change, State
from ringrift.pipeline.moves import REVIEW, review_keys
from ringrift.pipeline.step import Step, changed, gate, move, with_more

LEVELS = ((75.0, "critical"), (50.0, "severe"), (35.0, "moderate"))
"""How many Elo were lost, at the least, and what that is called."""


def level(lost: float) -> str:
    """What a loss of so many Elo is called."""
    return next((name for least, name in LEVELS if lost >= least), "minor")


def begun_if_due(step: Step, policy: Policy) -> Step:
    """*step*, after which the champion is on every node, with its review if one is due."""
    line, every = step.line, policy.review_promotions
    if not every or line.iteration % every or len(line.ancestors) < every or line.iteration == 0:
        return step
    opponent = line.ancestors[-every].model
    test = Challenge(
        opponent=opponent, gate=policy.review, seed=seed_of(line.variant, REVIEW, line.champion or "", opponent)
    )
    return begun(step, test, f"due after {every} promotions", policy)


def begun(step: Step, test: Challenge, reason: str, policy: Policy) -> Step:
    """*step* with the champion under review by *test*."""
    line = step.line
    assert line.champion is not None
    test, jobs = challenge.more(line, line.champion, test, policy, REVIEW)
    line = changed(line, review=Review(reason=reason, challenge=test))
    return with_more(changed(step, line=line), jobs=jobs)


def judged(line: Line, event: evaluation.BlocksPlayed, policy: Policy, at: float) -> Step:
    """The line after blocks of its champion's review."""
    under_review, champion = line.review, line.champion
    assert under_review is not None
    assert champion is not None
    test = challenge.with_blocks(under_review.challenge, results.of(event), line.players)
    said = challenge.verdict(line, REVIEW, test, at)
    outcome = challenge.outcome(test, line.players)
    if outcome.decided is None:
        test, jobs = challenge.more(line, champion, test, policy, REVIEW)
        return Step(line=changed(line, review=changed(under_review, challenge=test)), jobs=jobs, verdicts=(said,))
    gain = elo(outcome.score, challenge.evidence(outcome, test).scale(line.players))
    told = evaluation.Reviewed(
        variant=line.variant, model=champion, opponent=test.opponent, passed=outcome.decided, blocks=outcome.blocks,
        score=outcome.score, elo=gain, reason=under_review.reason,
    )  # fmt: skip
    if outcome.decided:
        cancel = review_keys(line.variant, champion, under_review)
        step = Step(line=changed(line, review=None), cancel=cancel)
    else:
        line = changed(line, review=changed(under_review, challenge=test))
        step = rolled_back(line, test.opponent, f"review ({under_review.reason}): {outcome.rule}", at, outcome)
    return with_more(step, events=(told,), verdicts=(said,))


def rolled_back(line: Line, to: str, reason: str, at: float, outcome: Outcome | None = None) -> Step:
    """The line goes back to its earlier champion *to*, all in one step; a candidate's test against the other ends."""
    target = next((one for one in line.ancestors if one.model == to), None)
    assert target is not None
    assert line.champion is not None
    before, candidate = line.champion, line.candidate
    test = line.review.challenge if line.review and outcome else None
    evidence = challenge.evidence(outcome, test) if outcome and test else None
    changes = [
        Change(model=before, generation=line.generation, state=State.ROLLED_BACK),
        Change(model=to, generation=target.generation, state=State.CHAMPION),
    ]
    cancel = review_keys(line.variant, before, line.review)
    rejected: tuple[model.Rejected, ...] = ()
    if candidate is not None:
        why = "the champion that it was tested against was rolled back"
        rejected = (model.Rejected(variant=line.variant, model=candidate.model, reason=why),)
        changes.append(Change(model=candidate.model, generation=candidate.generation, state=State.REJECTED))
        cancel += (challenge.keys(line.variant, candidate.model),)
    if line.stage in (Stage.EXPORTING, Stage.TRAINING) and line.asked is not None:
        cancel += (line.asked,)
    said = model.RolledBack(
        variant=line.variant, model=before, to=to, generation=target.generation, reason=reason,
        level=level(-elo(evidence.score, evidence.scale(line.players))) if evidence else "", evidence=evidence,
    )  # fmt: skip
    decision = Decision(
        variant=line.variant, model=to, promoted=False, reason=reason, generation=target.generation, time=at,
        previous=before, evidence=evidence, kind="rollback", gate=test.gate if test else None,
        seed=test.seed if test else 0,
    )  # fmt: skip
    counted = challenge.counted(test)[: outcome.blocks] if outcome and test else ()
    return Step(
        line=_pointed(line, target, at),
        jobs=(Distribute(variant=line.variant, model=to, priority=STAGE),),
        events=(*rejected, said),
        decision=decision,
        evidence=tuple(block.id for block in counted),
        models=tuple(changes),
        verdicts=(gate(Stage.DISTRIBUTING, "the champion on every node that plays", 0, 1, at),),
        cancel=cancel,
    )


def _pointed(line: Line, target: Ancestor, at: float) -> Line:
    """*line* with *target* as its champion, to be brought to every node."""
    job = Distribute(variant=line.variant, model=target.model, priority=STAGE)
    return move(
        line, Stage.DISTRIBUTING, at, champion=target.model, generation=target.generation, candidate=None, samples=None,
        review=None, ancestors=line.ancestors[: line.ancestors.index(target)], asked=job.key,
    )  # fmt: skip
