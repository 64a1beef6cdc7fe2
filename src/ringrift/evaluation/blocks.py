"""Blocks: results by number, and the completed prefix that alone may decide.

A block is one seeded opening played from every seat.  Results arrive in any order; a fast result must not count before
a slow one that was dispatched earlier, or quick wins would decide.  So only the prefix without a hole counts.
"""

import hashlib
from collections.abc import Iterable, Sequence

from ringrift.events.evaluation import Block, BlocksPlayed
from ringrift.kernel.value import changed

_MATCH_LETTERS = 20


def match_id(event: BlocksPlayed) -> str:
    """The name of the match of *event*: two players, their search settings, and the openings of one seed."""
    fields = (event.variant, event.candidate, event.champion, event.settings, event.seed)
    return hashlib.sha256(repr(fields).encode()).hexdigest()[:_MATCH_LETTERS]


def from_event(event: BlocksPlayed) -> tuple[Block, ...]:
    """The blocks of *event*, each with its node and match."""
    match = match_id(event)
    return tuple(changed(block, node=event.node, match=match) for block in event.blocks)


def is_valid(block: Block, players: int) -> bool:
    """Whether it can count at all: a score from every seat, and a rank from every seat or from none."""
    seats = (block.scores, block.ranks) if block.ranks else (block.scores,)
    return all(len(shares) == players and all(0.0 <= share <= 1.0 for share in shares) for shares in seats)


def merge(blocks: Sequence[Block], more: Iterable[Block]) -> tuple[Block, ...]:
    """*blocks* and *more* in order of their numbers; the first result of a number stands."""
    by_number: dict[int, Block] = {}
    for block in (*blocks, *more):
        by_number.setdefault(block.number, block)
    return tuple(by_number[number] for number in sorted(by_number))


def prefix(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """The blocks numbered 0, 1, 2 … up to the first that is missing."""
    count = 0
    while count < len(blocks) and blocks[count].number == count:
        count += 1
    return tuple(blocks[:count])


def means(blocks: Iterable[Block]) -> list[float]:
    """The candidate's mean share of first place in each block."""
    return [sum(block.scores) / len(block.scores) for block in blocks]


def observations(blocks: Sequence[Block]) -> tuple[list[float], bool]:
    """The observations of the gate, and whether they are rank scores: only if every block knows its ranks."""
    if blocks and all(block.ranks for block in blocks):
        return [sum(block.ranks) / len(block.ranks) for block in blocks], True
    return means(blocks), False


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """*numbers* as (first, count) of those that follow each other."""
    spans: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if spans and sum(spans[-1]) == number:
            spans[-1] = (spans[-1][0], spans[-1][1] + 1)
        else:
            spans.append((number, 1))
    return spans
