"""The machine: what follows from what, as one function without clock, disk or network.

    Opened ─▶ Train (generation 0)
    BatchFinished ─▶ Sync          Synced ─▶ (enough games?) Export      Exported ─▶ Train
    Finished ─▶ Sync + Verify      both done ─▶ Match over numbered blocks, or the first promotion
    BlocksPlayed ─▶ (gate) promote + Distribute, reject, or more blocks  Distributed ─▶ collect again

How a stage is entered is in ``moves``; what follows when a job will never be done in ``burial``, when somebody asks out
of turn in ``request``.

An event out of turn changes nothing, so it does not matter how often or how late one comes.
"""

from ringrift.evaluation import blocks as results
from ringrift.evaluation.budget import Account, begin, settle
from ringrift.evaluation.gate import elo
from ringrift.events import data, evaluation, model, pipeline, selfplay, training, work
from ringrift.events.base import Event
from ringrift.jobs import STAGE, URGENT, Train
from ringrift.kernel import variant as variants
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Policy
from ringrift.pipeline import burial, challenge, moves, review
from ringrift.pipeline.line import Batch, Candidate, Challenge, Line, Stage
from ringrift.pipeline.models import Change, State
from ringrift.pipeline.request import requested
from ringrift.pipeline.step import Step, changed, gate, move, with_more


def open_line(event: pipeline.Opened, policy: Policy, at: float) -> Step:
    """A new line: its first job makes generation 0."""
    parsed = variants.parse(event.variant)
    line = Line(variant=event.variant, workload=event.workload, players=parsed.players, since=at)
    return moves.start(line, policy, at)


def advance(line: Line, event: Event, policy: Policy, at: float, account: Account) -> Step:
    """The line after *event*, and what that calls for.  Events out of turn change nothing.

    *account* is the run's error budget, from which every test of a candidate pays.
    """
    return concluded(line, _follow(line, event, policy, at, account), policy, account)


def concluded(line: Line, step: Step, policy: Policy, account: Account) -> Step:
    """*step*, which *line* took, with what follows from every step: a test that ended is settled, a move is told."""
    if under_way(line) and not under_way(step.line):
        promoted = step.decision is not None and step.decision.promoted
        step = changed(step, account=settle(account, policy.budget, promoted=promoted))
    if step.line.stage is line.stage:
        return step
    said = pipeline.Moved(variant=line.variant, stage=step.line.stage, before=line.stage)
    return with_more(step, events=(said,))


def under_way(line: Line) -> bool:
    """Whether a candidate's test has begun and is not decided yet."""
    return line.candidate is not None and line.candidate.challenge is not None


def _follow(line: Line, event: Event, policy: Policy, at: float, account: Account) -> Step:
    match event, line.stage:
        case selfplay.BatchFinished(), _:
            return _played(line, event)
        case data.Synced(kind="games"), _:
            return _kept(line, event.blob, policy, at)
        case data.Synced(kind="model") | model.Verified(), Stage.VERIFYING:
            return _vouched(line, event, policy, at, account)
        case data.Exported(), Stage.EXPORTING if event.job == line.asked:
            return _exported(line, event, policy, at)
        case training.Finished(), Stage.TRAINING | Stage.STARTING if event.job == line.asked:
            return _trained(line, event, policy, at)
        case evaluation.BlocksPlayed(), _ if _is_review(line, event):
            return review.judged(line, event, policy, at)
        case evaluation.BlocksPlayed(), Stage.EVALUATING:
            return _judged(line, event, policy, at)
        case model.Distributed(), Stage.DISTRIBUTING if event.model == line.champion:
            return review.begun_if_due(moves.collect(line, policy, at), policy)
        case work.Buried(), _:
            return burial.buried(line, event, policy, at)
        case pipeline.Opened(), Stage.RESTING:
            return moves.collect(line, policy, at)  # more promotions may be wanted than when it went to rest
        case pipeline.Requested(), _:
            return requested(line, event, policy, at)
    return Step(line=line)


# -- the stages, in the order of the loop ------------------------------------------------------------------------------


def _played(line: Line, event: selfplay.BatchFinished) -> Step:
    if any(batch.blob == event.batch for batch in (*line.pending, *line.window)):
        return Step(line=line)  # the same games again count once
    counts = changed(line.counts, batches=line.counts.batches + 1, games=line.counts.games + event.games)
    batch = Batch(blob=event.batch, games=event.games, node=event.node)
    line = changed(line, pending=(*line.pending, batch), counts=counts)
    # An ephemeral node may be gone in a minute; its games go first.
    priority = URGENT if event.ephemeral else STAGE
    return Step(line=line, jobs=(moves.copy_games(line, event.batch, event.node, priority),))


def _kept(line: Line, blob: str, policy: Policy, at: float) -> Step:
    batch = next((batch for batch in line.pending if batch.blob == blob), None)
    if batch is None:
        return Step(line=line)
    counts = changed(line.counts, kept=line.counts.kept + 1, games_kept=line.counts.games_kept + batch.games)
    line = changed(
        line, pending=tuple(b for b in line.pending if b is not batch), counts=counts, fresh=line.fresh + batch.games,
        window=(*line.window, batch)[-policy.window_batches_max :],
    )  # fmt: skip
    return moves.export_if_enough(line, policy, at) if line.stage is Stage.COLLECTING else Step(line=line)


def _exported(line: Line, event: data.Exported, policy: Policy, at: float) -> Step:
    line, said = burial.without(line, event.refused, "its games do not replay")
    line = move(line, Stage.TRAINING, at, samples=event.samples, tries=line.tries + 1)
    job = Train(
        variant=line.variant, generation=line.generation + 1, samples=event.samples, parent=line.champion,
        seed=moves.seed(line, policy), priority=STAGE,
    )  # fmt: skip
    line = changed(line, asked=job.key)
    waits = gate(Stage.TRAINING, "a model from training", 0, 1, at)
    return Step(line=line, jobs=(job,), events=said, verdicts=(waits,))


def _trained(line: Line, event: training.Finished, policy: Policy, at: float) -> Step:
    if event.model == line.champion:
        return moves.collect(line, policy, at)  # nothing was learnt: there is nobody new to judge
    return moves.vouch(line, Candidate(model=event.model, generation=event.generation), event.node, at)


def _vouched(line: Line, event: Event, policy: Policy, at: float, account: Account) -> Step:
    """A candidate counts only once it has its copies and somebody has checked it."""
    candidate = line.candidate
    assert candidate is not None
    match event:
        case data.Synced() if event.blob == candidate.model:
            candidate = changed(candidate, copied=True)
        case model.Verified() if event.model == candidate.model:
            candidate = changed(candidate, verified=True)
    line = changed(line, candidate=candidate)
    passed = candidate.copied + candidate.verified
    verdict = gate(Stage.VERIFYING, "copied and checked", passed, 2, at)
    if passed < 2:
        return Step(line=line, verdicts=(verdict,))
    if line.champion is None:
        return with_more(moves.promote(line, None, at), verdicts=(verdict,))
    account, agreed = begin(account, policy.gate)
    test = Challenge(opponent=line.champion, gate=agreed, seed=seed_of(line.variant, candidate.model))
    test, jobs = challenge.more(line, candidate.model, test, policy)
    line = move(line, Stage.EVALUATING, at, candidate=changed(candidate, challenge=test))
    return Step(
        line=line, jobs=jobs, account=account,
        models=(Change(model=candidate.model, generation=candidate.generation, state=State.EVALUATING),),
        verdicts=(verdict, challenge.verdict(line, Stage.EVALUATING, test, at)),
    )  # fmt: skip


def _judged(line: Line, event: evaluation.BlocksPlayed, policy: Policy, at: float) -> Step:
    candidate = line.candidate
    assert candidate is not None
    if candidate.challenge is None or not challenge.belongs(event, candidate.model, candidate.challenge):
        return Step(line=line)
    test = challenge.with_blocks(candidate.challenge, results.of(event), line.players)
    line = changed(line, candidate=changed(candidate, challenge=test))
    outcome = challenge.outcome(test, line.players)
    verdict = challenge.verdict(line, Stage.EVALUATING, test, at)
    if outcome.decided is None:
        test, jobs = challenge.more(line, candidate.model, test, policy)
        line = changed(line, candidate=changed(candidate, challenge=test))
        return Step(line=line, jobs=jobs, verdicts=(verdict,))
    scale = challenge.evidence(outcome, test).scale(line.players)
    said = evaluation.Finished(
        variant=line.variant, candidate=event.candidate, champion=event.champion, blocks=outcome.blocks,
        score=outcome.score, elo=elo(outcome.score, scale), promoted=outcome.decided,
    )  # fmt: skip
    if outcome.decided:
        step = moves.promote(line, outcome, at)
    else:
        step = moves.reject(line, outcome.rule, outcome, policy, at)
    return with_more(step, events=(said,), verdicts=(verdict,))


def _is_review(line: Line, event: evaluation.BlocksPlayed) -> bool:
    return (
        line.review is not None
        and line.champion is not None
        and challenge.belongs(event, line.champion, line.review.challenge)
    )
