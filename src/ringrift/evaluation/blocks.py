"""Blocks: results by number, and the completed prefix that alone may decide.

A block is one seeded opening played from every seat.  Results arrive in any order; a fast result must not count before
a slow one that was dispatched earlier, or quick wins would decide.  So only the prefix without a hole counts.
"""

from collections.abc import Iterable, Sequence

from ringrift.events.evaluation import Played


def merged(known: Sequence[Played], more: Iterable[Played]) -> tuple[Played, ...]:
    """*known* and *more* in order of their numbers; the first result of a number stands."""
    by_number: dict[int, Played] = {}
    for block in (*known, *more):
        by_number.setdefault(block.number, block)
    return tuple(by_number[number] for number in sorted(by_number))


def prefix(blocks: Sequence[Played]) -> tuple[Played, ...]:
    """The blocks numbered 0, 1, 2 … up to the first that is missing."""
    count = 0
    while count < len(blocks) and blocks[count].number == count:
        count += 1
    return tuple(blocks[:count])


def means(blocks: Iterable[Played]) -> list[float]:
    """The candidate's mean score in each block: what the gate takes as one observation."""
    return [sum(block.scores) / len(block.scores) for block in blocks]
