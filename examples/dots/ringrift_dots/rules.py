"""Rules of Dots and Boxes.

Two players draw lines between neighbouring dots.  Whoever draws the fourth side of a box owns it and moves again.  The
game is over when every line is drawn: on 4 x 4 boxes after exactly 40 plies.  Most boxes win.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random


@dataclass(frozen=True)
class Position:
    """The lines drawn, as bits; the owner of each box, -1 for none; the seat to move."""

    size: int
    drawn: int
    owners: tuple[int, ...]
    seat: int = 0

    @property
    def is_over(self) -> bool:
        """Whether every line is drawn."""
        return -1 not in self.owners

    def legal(self) -> Sequence[int]:
        """The lines that are not drawn yet."""
        return [line for line in range(count_lines(self.size)) if not self.drawn >> line & 1]

    def owners_after(self, line: int) -> tuple[int, tuple[int, ...], int]:
        """The fields after *line*: lines drawn, owners and the seat to move."""
        drawn, owners, seat = self.drawn | 1 << line, list(self.owners), 1 - self.seat
        for box, mask in boxes_at(self.size)[line]:
            if drawn & mask == mask:
                owners[box] = seat = self.seat
        return drawn, tuple(owners), seat

    def scores(self) -> Sequence[float]:
        """The boxes of each seat."""
        return self.owners.count(0), self.owners.count(1)


def count_lines(size: int) -> int:
    """The lines of a board, row by row: first those that lie, then those that stand."""
    return 2 * size * (size + 1)


@cache
def sides(size: int) -> tuple[tuple[int, ...], ...]:
    """The lines above, below, left and right of every box."""
    lefts = (size * (size + 1) + box + box // size for box in range(size * size))
    return tuple((box, box + size, left, left + 1) for box, left in enumerate(lefts))


@cache
def boxes_at(size: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """For every line, the boxes that it is a side of, each with the bits of all its sides."""
    masks = [sum(1 << line for line in lines) for lines in sides(size)]
    return tuple(
        tuple((box, mask) for box, mask in enumerate(masks) if mask >> line & 1) for line in range(count_lines(size))
    )


def play_greedy(position: Position, random: Random) -> int:
    """A player that never trains: it closes a box if it can, else avoids third sides if it can."""
    missing = [sum(not position.drawn >> line & 1 for line in lines) for lines in sides(position.size)]

    def value(line: int) -> int:
        left = [missing[box] for box, _ in boxes_at(position.size)[line]]
        return 1 if 1 in left else -1 if 2 in left else 0

    legal = position.legal()
    best = max(map(value, legal))
    return random.choice([line for line in legal if value(line) == best])


@cache
def symmetries(size: int) -> tuple[tuple[int, ...], ...]:
    """The eight turns and mirrors of the board: for each, where every line goes."""
    dots = [(row, column) for row in range(size + 1) for column in range(size + 1)]
    lying = [((row, column), (row, column + 1)) for row, column in dots if column < size]
    standing = [((row, column), (row + 1, column)) for row, column in dots if row < size]
    number = {frozenset(ends): line for line, ends in enumerate([*lying, *standing])}
    turns = []
    for turn in range(8):
        goes = {dot: dot for dot in dots}
        for _ in range(turn % 4):
            goes = {dot: (column, size - row) for dot, (row, column) in goes.items()}
        if turn >= 4:
            goes = {dot: (row, size - column) for dot, (row, column) in goes.items()}
        turns.append(tuple(number[frozenset(goes[end] for end in ends)] for ends in [*lying, *standing]))
    return tuple(turns)
