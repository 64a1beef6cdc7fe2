"""Exclusion: how a line goes on without a job that will never be done, or without a node whose results are wrong.

The games of such a node leave the window, its blocks are played again elsewhere with the same openings, and if the
champion owes its promotion to any of them, that decision is taken once more without them.
"""

from collections.abc import Collection, Sequence

from ringrift.events import data, evaluation, node, selfplay, work
from ringrift.events.base import Event
from ringrift.events.evaluation import Block
from ringrift.jobs import Match, Purpose, Verify
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import changed
from ringrift.pipeline import challenge
from ringrift.pipeline.line import Batch, Challenge, Line, Review, Stage
from ringrift.pipeline.models import Change, State
from ringrift.pipeline.moves import ask_again, collect, copy_games, reject, setback, start, test_jobs, with_batch
from ringrift.pipeline.review import roll_back
from ringrift.pipeline.step import Context, Promotion, Step, with_more

_REASON = "its node is quarantined"
_CHAMPION_KINDS = ("play", "match", "train")  #: Kinds of jobs that need the champion.
_REFUSED, _CANCELLED = "refused", "cancelled"  #: Causes of :class:`ringrift.events.work.Buried`.
_COPY_ROUNDS_MAX = 50  #: Rounds of tries to copy a batch of a node that does not answer: about an hour.
_Result = evaluation.BlocksPlayed | selfplay.BatchFinished


def is_excluded(event: Event, context: Context) -> bool:
    """Whether *event* is about a node in quarantine, and so for :func:`exclude` alone."""
    return isinstance(event, node.Quarantined) or (isinstance(event, _Result) and event.node in context.quarantined)


def exclude(line: Line, event: Event, context: Context) -> Step:
    """Take the results of a quarantined node out of *line*: those it has reported, and those that come later."""
    if not is_excluded(event, context):
        return context.step
    if isinstance(event, node.Quarantined):
        step = _exclude_node(line, event.node, context.policy)
        return _review_promotion(step, context.promotion, event.node, context.policy)
    assert isinstance(event, _Result)
    return _discard_result(line, event, context.policy)


def _exclude_node(line: Line, node: str, policy: Policy) -> Step:
    """The line without what *node* has reported of tests that are under way, and without its games."""
    blobs = tuple(batch.blob for batch in (*line.window, *line.pending) if batch.node == node)
    line, events = _drop_batches(line, blobs, _REASON)
    jobs: tuple[Match, ...] = ()
    for model, test, purpose in challenge.open_tests(line):
        rest, numbers = challenge.without_node(test, node)
        line = challenge.with_test(line, rest, purpose)
        jobs += challenge.replay_blocks(line, model, rest, numbers, policy, purpose)
    return Step(line=line, jobs=jobs, events=events)


def _discard_result(line: Line, event: _Result, policy: Policy) -> Step:
    """The line after a result that counts for nothing: its blocks are asked for again, its games given up."""
    if isinstance(event, selfplay.BatchFinished):
        after = with_batch(line, event)
        return Step(line=line) if after is line else _give_up_batch(after, event.batch, _REASON)
    own = challenge.find_test(line, event)
    if own is None:
        return Step(line=line)
    model, test, purpose = own
    numbers = [block.number for block in event.blocks]
    return Step(line=line, jobs=challenge.replay_blocks(line, model, test, numbers, policy, purpose))


def _review_promotion(step: Step, promotion: Promotion | None, node: str, policy: Policy) -> Step:
    """*step* with the champion under review, if *promotion*, which made it champion, rests on blocks of *node*."""
    # The blocks that are left stand, the others are played again: in the end the same gate decides as it would have.
    line = step.line
    if promotion is None or line.champion is None:
        return step
    decision, blocks = promotion
    numbers = [block.number for block in blocks if block.node == node]
    if not numbers or decision.gate is None or decision.previous != line.previous or decision.previous is None:
        return step
    rest = tuple(block for block in blocks if block.node != node)
    test = Challenge(opponent=decision.previous, gate=decision.gate, seed=decision.seed, dispatched=len(blocks))
    test = changed(test, blocks=rest)
    jobs = challenge.replay_blocks(line, line.champion, test, numbers, policy, Purpose.REVIEW)
    reason = f"{len(numbers)} of its {len(blocks)} blocks are of {node}, which is quarantined"
    return with_more(changed(step, line=changed(line, review=Review(reason=reason, challenge=test))), jobs=jobs)


def blocks_without(blocks: Sequence[Block], node: str) -> tuple[Block, ...]:
    """*blocks* as if *node* had never played: those that are left, numbered from 0 on, for the gate to judge."""
    rest = [block for block in blocks if block.node != node]
    return tuple(changed(block, number=number) for number, block in enumerate(rest))


def handle_failure(line: Line, event: work.Buried, context: Context) -> Step:
    """A job of the line will not be done.  The line goes on without it, and publishes what it gave up."""
    # While a brake is set, a line whose champion is lost keeps it: the next job that needs the champion fails again.
    # One that a workload refuses is not lost: it was checked when it was promoted, and its files are as they were.
    policy, at, brake = context.policy, context.at, context.brake
    is_about_champion = event.kind in _CHAMPION_KINDS and event.blob == line.champion is not None
    is_champion_lost = is_about_champion and event.cause != _REFUSED
    if is_champion_lost and brake.allowed:
        return _lose_champion(line, event, policy, at)
    step = _go_on_without(line, event, context)
    return with_more(step, verdicts=(brake,)) if is_champion_lost else step


def _go_on_without(line: Line, event: work.Buried, context: Context) -> Step:
    policy, at = context.policy, context.at
    batch = next((batch for batch in line.pending if copy_games(line, batch.blob).key == event.key), None)
    is_awaited = event.key == line.awaited_job
    match event.kind, line.stage:
        case "sync", _ if batch is not None:
            return _copy_again(line, batch, event)
        case (("sync" | "verify" | "match"), (Stage.VERIFYING | Stage.EVALUATING)) if _is_vital(line, event):
            if not _is_at_fault(line, event) or context.rests:
                return ask_again(line, event, policy, at)  # nobody could test it, so nothing is known about it
            if line.champion is None:
                return _start_again(line, event, policy, at)
            return reject(line, f"{event.kind} failed: {event.error}", None, policy, at)
        case "play", _ if line.champion is not None and event.blob in (None, line.champion):
            line = changed(line, setbacks=line.setbacks + 1)
            return Step(line=line, verdicts=(setback(line, event, at),))
        case "export", Stage.EXPORTING if is_awaited:
            # One that failed on a batch goes on without it; one that failed otherwise waits for new games.
            line, events = _drop_batches(line, (event.blob,), event.error)
            line = changed(line, fresh=sum(batch.games for batch in line.window)) if events else line
            return with_more(collect(line, policy, at), events=events)
        case "train", Stage.STARTING if is_awaited:
            return _start_again(line, event, policy, at)
        case ("train", Stage.TRAINING) | ("distribute", Stage.DISTRIBUTING) if is_awaited:
            return collect(line, policy, at)  # nodes that lack the champion fetch it when they need it
    return Step(line=line)


def _drop_batches(line: Line, blobs: tuple[str | None, ...], reason: str) -> tuple[Line, tuple[Event, ...]]:
    """The line without *blobs* of its window or that wait for their copies, counted as lost, and the events."""
    stored, counts = [batch for batch in line.window if batch.blob in blobs], line.counts
    bad = [*stored, *(batch for batch in line.pending if batch.blob in blobs)]
    games = counts.games_kept - sum(batch.games for batch in stored)
    counts = changed(counts, stored=counts.stored - len(stored), games_kept=games, lost=counts.lost + len(bad))
    counts = changed(counts, games_lost=counts.games_lost + sum(batch.games for batch in bad))
    window, pending = (tuple(batch for batch in row if batch not in bad) for row in (line.window, line.pending))
    events = (data.Lost(variant=line.variant, blob=batch.blob, reason=reason, kind="games") for batch in bad)
    return changed(line, window=window, pending=pending, counts=counts), tuple(events)


def leave_out(line: Line, refused: Collection[str], unreadable: Collection[str]) -> tuple[Line, tuple[Event, ...]]:
    """The line without the batches that an export *refused*: those that are *unreadable* here are not lost by that."""
    line = changed(line, window=tuple(batch for batch in line.window if batch.blob not in unreadable))
    return _drop_batches(line, tuple(blob for blob in refused if blob not in unreadable), "its games do not replay")


def _give_up_batch(line: Line, blob: str, reason: str) -> Step:
    line, events = _drop_batches(line, (blob,), reason)
    return Step(line=line, events=events)


def _is_vital(line: Line, event: work.Buried) -> bool:
    candidate = line.candidate
    if candidate is None:
        return False
    match event.kind:
        case "sync":
            return not candidate.copied and event.key == copy_games(line, candidate.model).key
        case "verify":
            return not candidate.verified and event.key == Verify(variant=line.variant, model=candidate.model).key
    return (event.purpose, event.candidate) == (Purpose.PROMOTION, candidate.model)


def _is_at_fault(line: Line, event: work.Buried) -> bool:
    """Whether the job failed because of the candidate itself, or was cancelled by a person who has given it up."""
    assert line.candidate is not None
    is_refused = event.kind == "verify" and event.cause == _REFUSED and event.blob is None
    return event.blob == line.candidate.model or is_refused or event.cause == _CANCELLED


def _start_again(line: Line, event: work.Buried, policy: Policy, at: float) -> Step:
    """Make generation 0 once more, after a pause that grows."""
    line = changed(line, setbacks=line.setbacks + 1)
    return with_more(start(line, policy, at), verdicts=(setback(line, event, at),))


def _copy_again(line: Line, batch: Batch, event: work.Buried) -> Step:
    """A batch without its copies: lost if no copy is left, else it is tried again, for it may be there still."""
    if event.blob == batch.blob or batch.rounds >= _COPY_ROUNDS_MAX:
        return _give_up_batch(line, batch.blob, event.error)
    again = changed(batch, rounds=batch.rounds + 1)
    line = changed(line, pending=tuple(again if other is batch else other for other in line.pending))
    return Step(line=line, jobs=(copy_games(line, batch.blob),))


def _lose_champion(line: Line, event: work.Buried, policy: Policy, at: float) -> Step:
    """No copy of the champion is left anywhere: roll back to the one before it, or begin again with generation 0."""
    assert line.champion is not None
    reason = event.error
    lost = data.Lost(variant=line.variant, blob=line.champion, reason=reason, kind="model")
    if line.previous is not None:
        step = roll_back(line, line.previous, f"no copy of the champion is left: {reason}", at, state=State.LOST)
        return with_more(step, events=(lost,))
    changes: tuple[Change, ...] = (Change(line.champion, line.generation, State.LOST),)
    if line.candidate is not None:
        changes += (Change(line.candidate.model, line.candidate.generation, State.REJECTED),)
    cancel = test_jobs(line)
    return with_more(_start_again(line, event, policy, at), events=(lost,), models=changes, cancel=cancel)
