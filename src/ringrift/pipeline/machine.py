"""The machine: what follows from what, as one function without clock, disk or network.

    Opened ─▶ Train (generation 0)
    BatchFinished ─▶ Sync          Synced ─▶ (enough games?) Export      Exported ─▶ Train
    Finished ─▶ Sync + Verify      both done ─▶ Match over numbered blocks, or the first promotion
    BlocksPlayed ─▶ (gate) promote + Distribute, reject, or more blocks  Distributed ─▶ collect again

``moves`` enters a stage, ``exclusion`` handles a job that will never be done, ``requests`` an operator's request.

An event out of turn changes nothing, so it does not matter how often or how late one comes.
"""

from typing import Any

from ringrift.evaluation import blocks as results
from ringrift.evaluation.budget import Account, begin, settle
from ringrift.evaluation.gate import elo
from ringrift.events import data, evaluation, model, pipeline, selfplay, training, work
from ringrift.events.base import Event
from ringrift.jobs import STAGE, URGENT, Purpose, Train
from ringrift.kernel import variant as variants
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import changed
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline import challenge, exclusion, moves, review, signals
from ringrift.pipeline.exclusion import is_excluded
from ringrift.pipeline.line import IDLE, Candidate, Challenge, Line, Stage, overdue
from ringrift.pipeline.models import Change, State
from ringrift.pipeline.requests import answer_request
from ringrift.pipeline.step import Context, Step, gate, move, with_more


def new_line(event: pipeline.Opened) -> Line:
    """A line that has not begun yet: :func:`advance` asks for generation 0."""
    players = variants.parse(event.variant).players
    return Line(variant=event.variant, workload=event.workload, players=players)


def advance(line: Line, event: Event, context: Context) -> Step:
    """The line after *event*, and what follows.  Events out of turn change nothing."""
    if is_excluded(event, context):
        return context.step
    policy = signals.steer(line, context.feedback, context.policy, context.at)
    step = _follow(line, event, changed(context, policy=policy))
    requested = isinstance(event, pipeline.Requested)
    step = conclude(line, step, policy, context.account, at=context.at, requested=requested)
    return with_more(step, verdicts=context.step.verdicts, feedback=context.step.feedback)


def conclude(line: Line, step: Step, policy: Policy, account: Account, *, at: float, requested: bool) -> Step:
    """*step* of *line* with what follows from every step: a test that ended is settled, a move is published."""
    if _is_testing(line) and not _is_testing(step.line):
        promoted = step.decision is not None and step.decision.promoted
        step = changed(step, account=settle(account, policy.budget, promoted=promoted))
    if line.setbacks and not step.line.setbacks:
        over = Verdict(moves.SETBACK, True, "a job went well; failures in a row", 0, 0, at)
        step = with_more(step, verdicts=(over,))
    if step.line.stage is line.stage:
        return step
    late = overdue(line, at, policy.stages) is not None
    move = pipeline.Moved(variant=line.variant, stage=step.line.stage, before=line.stage, late=late)
    return with_more(step, events=(changed(move, requested=requested),))


def _is_testing(line: Line) -> bool:
    return line.candidate is not None and line.candidate.challenge is not None


def _follow(line: Line, event: Event, context: Context) -> Step:
    policy, at = context.policy, context.at
    match event, line.stage:
        case pipeline.Opened(), _ if line.is_new:
            return moves.start(line, policy, at)
        case selfplay.BatchFinished(), _:
            return _add_batch(line, event)
        case data.Synced(kind="games"), _:
            return _add_games(line, event.blob, policy, at)
        case data.Synced(kind="model") | model.Verified(), Stage.VERIFYING:
            return _check_candidate(line, event, context)
        case data.Exported(), Stage.EXPORTING if event.job == line.awaited_job:
            return _train(line, event, context)
        case training.Finished(), Stage.TRAINING | Stage.STARTING if event.job == line.awaited_job:
            if event.model == line.champion:
                return moves.collect(line, policy, at)  # nothing was learnt: there is no new model to judge
            return moves.verify(line, Candidate(model=event.model, generation=event.generation), event.node, at)
        case evaluation.BlocksPlayed(), _:
            return _add_blocks(line, event, context)
        case model.Distributed(), Stage.DISTRIBUTING if event.model == line.champion:
            return review.begin_if_due(moves.collect(line, policy, at), policy)
        case model.Returned(generation=int(generation)), stage if stage in IDLE and event.model != line.champion:
            return moves.verify(line, Candidate(model=event.model, generation=generation), event.node, at)
        case work.Buried(), _:
            return exclusion.handle_failure(line, event, context)
        case pipeline.Opened(), Stage.RESTING:
            return moves.collect(line, policy, at)  # the policy may ask for more promotions than when it went to rest
        case pipeline.Requested(), _:
            return answer_request(line, event, context)
        case work.RunStateChanged(), _:
            return _decide_again(line, context)
    return Step(line=line)


def _add_batch(line: Line, event: selfplay.BatchFinished) -> Step:
    before, line = line, moves.with_batch(line, event)
    if line is before:
        return Step(line=line)
    # An ephemeral node may be gone in a minute; its games go first.
    priority = URGENT if event.ephemeral else STAGE
    return Step(line=line, jobs=(moves.copy_games(line, event.batch, event.node, priority),))


def _add_games(line: Line, blob: str, policy: Policy, at: float) -> Step:
    batch = next((batch for batch in line.pending if batch.blob == blob), None)
    if batch is None:
        return Step(line=line)
    counts = changed(line.counts, stored=line.counts.stored + 1, games_kept=line.counts.games_kept + batch.games)
    pending = tuple(other for other in line.pending if other is not batch)
    window = (*line.window, batch)[-policy.window_batches_max :]
    line = changed(line, pending=pending, counts=counts, fresh=line.fresh + batch.games, window=window, setbacks=0)
    return moves.export_if_enough(line, policy, at) if line.stage is Stage.COLLECTING else Step(line=line)


def _train(line: Line, event: data.Exported, context: Context) -> Step:
    policy, at, unreadable = context.policy, context.at, context.unreadable
    line, events = exclusion.leave_out(line, event.refused, unreadable)
    line = move(line, Stage.TRAINING, at, samples=event.samples, tries=line.tries + 1)
    generation, seed = line.generation + 1, seed_of(policy.seed, line.variant, line.tries)
    job = Train(variant=line.variant, generation=generation, samples=event.samples, parent=line.champion)
    job = changed(job, seed=seed, priority=STAGE)
    waits = gate(Stage.TRAINING, "a model from training", 0, 1, at)
    return Step(line=changed(line, awaited_job=job.key), jobs=(job,), events=events, verdicts=(waits,))


def _check_candidate(line: Line, event: Event, context: Context) -> Step:
    """A candidate counts only once it has its copies and a node has checked it."""
    candidate, policy, at = line.candidate, context.policy, context.at
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
        brake = context.brake
        step = moves.promote(line, None, at) if brake.allowed else Step(line=line, verdicts=(brake,))
        return with_more(step, verdicts=(verdict,))
    account, test_gate = begin(context.account, policy.gate)
    test = Challenge(opponent=line.champion, gate=test_gate, seed=seed_of(line.variant, candidate.model))
    test, jobs = challenge.next_blocks(line, candidate.model, test, policy)
    line = move(line, Stage.EVALUATING, at, candidate=changed(candidate, challenge=test))
    change = Change(candidate.model, candidate.generation, State.EVALUATING)
    verdicts = (verdict, challenge.verdict(line, Stage.EVALUATING, test, at))
    return Step(line=line, jobs=jobs, account=account, models=(change,), verdicts=verdicts)


def _add_blocks(line: Line, event: evaluation.BlocksPlayed, context: Context) -> Step:
    own = challenge.find_test(line, event)
    if own is None:
        return Step(line=line)
    _, test, purpose = own
    test = challenge.with_blocks(test, results.from_event(event), line.players)
    decide = review.decide_review if purpose == Purpose.REVIEW else _decide_candidate
    return decide(changed(challenge.with_test(line, test, purpose), setbacks=0), context)


def _decide_candidate(line: Line, context: Context) -> Step:
    """The line after the blocks of its test so far."""
    candidate, policy, at = line.candidate, context.policy, context.at
    assert candidate is not None
    test = candidate.challenge
    assert test is not None
    outcome = challenge.outcome(test, line.players)
    verdict = challenge.verdict(line, Stage.EVALUATING, test, at)
    if outcome.decided is None:
        test, jobs = challenge.next_blocks(line, candidate.model, test, policy)
        return Step(line=challenge.with_test(line, test, Purpose.PROMOTION), jobs=jobs, verdicts=(verdict,))
    # A line that rests waits with all its evidence; under any other brake a rejection moves no pointer.
    if not context.brake.allowed and (outcome.decided or context.rests):
        return Step(line=line, verdicts=(context.brake, verdict))
    promoted = outcome.decided
    step = moves.promote(line, outcome, at) if promoted else moves.reject(line, outcome.rule, outcome, policy, at)
    shared: dict[str, Any] = {"variant": line.variant, "candidate": candidate.model, "champion": test.opponent}
    shared |= {"blocks": outcome.blocks, "score": outcome.score, "elo": elo(outcome.score, outcome.scale(line.players))}
    finished = evaluation.Finished(promoted=outcome.decided, **shared)
    return with_more(step, events=(finished,), verdicts=(verdict,))


def _decide_again(line: Line, context: Context) -> Step:
    """After a change of the run state: make the decisions that a brake has put off, on the evidence of then."""
    step, brake, candidate = Step(line=line), context.brake, line.candidate
    # A champion that failed its review goes first: a candidate that beat it has beaten a weak one.
    if brake.allowed and line.review is not None and _is_decided(line.review.challenge, line):
        step = review.decide_review(line, context)
    elif brake.allowed and candidate is not None:
        test = candidate.challenge
        if test is not None and _is_decided(test, line):
            step = _decide_candidate(line, context)
        elif line.champion is None and candidate.copied and candidate.verified:
            step = moves.promote(line, None, context.at)
    return with_more(step, verdicts=(brake,))


def _is_decided(test: Challenge, line: Line) -> bool:
    return challenge.outcome(test, line.players).decided is not None
