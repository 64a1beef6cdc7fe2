"""Distrust: what a line does without a node whose results are wrong.

Its games leave the window, its blocks are played again elsewhere with the same openings, and if the champion owes its
promotion to any of them, that decision is taken once more without them.
"""

from collections.abc import Sequence

from ringrift.evaluation.blocks import Block
from ringrift.events import evaluation, selfplay
from ringrift.jobs import Match
from ringrift.kernel.settings import Policy
from ringrift.pipeline import burial, challenge
from ringrift.pipeline.line import Batch, Challenge, Decision, Line, Review
from ringrift.pipeline.moves import REVIEW
from ringrift.pipeline.step import Step, changed, with_more

REASON = "its node is quarantined"


def shut_out(line: Line, node: str, policy: Policy) -> Step:
    """The line without what *node* has reported of tests that are under way, and without its games."""
    line, said = burial.without(line, tuple(batch.blob for batch in line.window if batch.node == node), REASON)
    for batch in [batch for batch in line.pending if batch.node == node]:
        given_up = burial.lost(line, batch, REASON)
        line, said = given_up.line, (*said, *given_up.events)
    jobs: tuple[Match, ...] = ()
    candidate, under_review = line.candidate, line.review
    if candidate is not None and candidate.challenge is not None:
        test, numbers = challenge.without(candidate.challenge, node)
        line = changed(line, candidate=changed(candidate, challenge=test))
        jobs += challenge.again(line, candidate.model, test, numbers, policy)
    if under_review is not None:
        test, numbers = challenge.without(under_review.challenge, node)
        jobs += challenge.again(line, line.champion or "", test, numbers, policy, REVIEW)
        line = changed(line, review=changed(under_review, challenge=test))
    return Step(line=line, jobs=jobs, events=said)


def unheard(line: Line, event: evaluation.BlocksPlayed | selfplay.BatchFinished, policy: Policy) -> Step:
    """What follows from a result of a node that is quarantined: its blocks are asked for again, its games given up."""
    if isinstance(event, selfplay.BatchFinished):
        batch = Batch(blob=event.batch, games=event.games, node=event.node)
        if any(known.blob == batch.blob for known in (*line.pending, *line.window)):
            return Step(line=line)
        counts = changed(line.counts, batches=line.counts.batches + 1, games=line.counts.games + batch.games)
        return burial.lost(changed(line, pending=(*line.pending, batch), counts=counts), batch, REASON)
    numbers = [block.number for block in event.blocks]
    candidate, under_review = line.candidate, line.review
    if candidate is not None and candidate.challenge and challenge.belongs(event, candidate.model, candidate.challenge):
        return Step(line=line, jobs=challenge.again(line, candidate.model, candidate.challenge, numbers, policy))
    if under_review and line.champion and challenge.belongs(event, line.champion, under_review.challenge):
        return Step(
            line=line, jobs=challenge.again(line, line.champion, under_review.challenge, numbers, policy, REVIEW)
        )
    return Step(line=line)


def in_doubt(step: Step, decision: Decision, blocks: Sequence[Block], node: str, policy: Policy) -> Step:
    """*step* with the champion under review, if *decision*, which made it champion, rests on blocks of *node*.

    The blocks that are left stand, the others are played again: in the end the gate says what it would have said.
    """
    line = step.line
    gone = [block.number for block in blocks if block.node == node]
    if not gone or decision.gate is None or decision.previous != line.previous or decision.previous is None:
        return step
    kept = tuple(block for block in blocks if block.node != node)
    test = Challenge(
        opponent=decision.previous, gate=decision.gate, seed=decision.seed, dispatched=len(blocks), blocks=kept
    )
    assert line.champion is not None
    jobs = challenge.again(line, line.champion, test, gone, policy, REVIEW)
    reason = f"{len(gone)} of its {len(blocks)} blocks are of {node}, which is quarantined"
    return with_more(changed(step, line=changed(line, review=Review(reason=reason, challenge=test))), jobs=jobs)


def without(blocks: Sequence[Block], node: str) -> tuple[Block, ...]:
    """*blocks* as if *node* had never played: what is left, counted from 0 on, so that the gate can be asked of it."""
    kept = [block for block in blocks if block.node != node]
    return tuple(changed(block, number=number) for number, block in enumerate(kept))
