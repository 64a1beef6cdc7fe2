"""Blocks: results by number, and the completed prefix that alone may decide.

A block is one seeded opening played from every seat.  Results arrive in any order; a fast result must not count before
a slow one that was dispatched earlier, or quick wins would decide.  So only the prefix without a hole counts.
"""

import hashlib
from collections.abc import Iterable, Sequence

from ringrift.events.evaluation import BlocksPlayed
from ringrift.kernel.value import Value

MATCH_LETTERS = 20


class Block(Value):
    """One numbered block of a match, and the node that played it."""

    number: int
    scores: tuple[float, ...]
    """The candidate's share of first place from each seat."""
    ranks: tuple[float, ...] = ()
    """The share of its opponents that it finished before, from each seat, if that is known."""
    node: str = ""
    match: str = ""
    """The match that it belongs to."""

    @property
    def id(self) -> str:
        """What evidence calls it by.  The same block played on two nodes is two."""
        return f"{self.match}/{self.number:06d}/{self.node}"


def match_of(event: BlocksPlayed) -> str:
    """The name of the match that *event* tells of: two players, how they searched, and the openings of one seed."""
    said = (event.variant, event.candidate, event.champion, event.settings, event.seed)
    return hashlib.sha256(repr(said).encode()).hexdigest()[:MATCH_LETTERS]


def of(event: BlocksPlayed) -> tuple[Block, ...]:
    """The blocks that *event* tells of."""
    match = match_of(event)
    return tuple(
        Block(number=block.number, scores=block.scores, ranks=block.ranks, node=event.node, match=match)
        for block in event.blocks
    )


def is_sound(block: Block, players: int) -> bool:
    """Whether it can count at all: a score from every seat, and a rank from every seat or from none."""
    seats = (block.scores, block.ranks) if block.ranks else (block.scores,)
    return all(len(each) == players and all(0.0 <= one <= 1.0 for one in each) for each in seats)


def merged(known: Sequence[Block], more: Iterable[Block]) -> tuple[Block, ...]:
    """*known* and *more* in order of their numbers; the first result of a number stands."""
    by_number: dict[int, Block] = {}
    for block in (*known, *more):
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


def observed(blocks: Sequence[Block]) -> tuple[list[float], bool]:
    """What the gate takes as observations, and whether they are rank scores: only if every block knows its ranks."""
    if blocks and all(block.ranks for block in blocks):
        return [sum(block.ranks) / len(block.ranks) for block in blocks], True
    return means(blocks), False


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """*numbers* as (first, count) of those that follow each other."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and sum(found[-1]) == number:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((number, 1))
    return found
