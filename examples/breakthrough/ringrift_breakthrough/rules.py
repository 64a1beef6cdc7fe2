"""Rules of Breakthrough on 8 x 8: whoever first reaches the far row, or takes every piece, wins."""

from collections.abc import Sequence
from dataclasses import dataclass

FILE_A, FILE_H = 0x0101010101010101, 0x8080808080808080
ACTIONS = 192  # from-square * 3 + direction (left, straight, right), as the player to move sees the board
_FILES = "abcdefgh"


def _flip(bits: int) -> int:
    """The squares *bits* as the other player sees them: rows in reverse order, columns as they are."""
    return int.from_bytes(bits.to_bytes(8, "little"), "big")


@dataclass(frozen=True)
class Board:
    """Bits of both sides as the player to move sees them: it moves upwards, square = row * 8 + column."""

    own: int = 0xFFFF
    other: int = 0xFFFF << 48
    seat: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the last move has reached the far row or taken the last piece."""
        return bool(self.other & 0xFF) or not self.own

    def legal(self) -> Sequence[int]:
        """A step ahead onto a free square, or diagonally ahead onto any square without an own piece."""
        if self.is_over:
            return []
        sources = (
            self.own & ~FILE_A & ~(self.own >> 7),
            self.own & ~((self.own | self.other) >> 8),
            self.own & ~FILE_H & ~(self.own >> 9),
        )
        return [3 * square + way for square in range(56) for way in range(3) if sources[way] >> square & 1]

    def play(self, action: int) -> "Board":
        """The position after *action*, as the other player sees it."""
        square, way = divmod(action, 3)
        to = 1 << square + 7 + way
        return Board(_flip(self.other & ~to), _flip(self.own & ~(1 << square) | to), 1 - self.seat)

    def scores(self) -> Sequence[float]:
        """One point for the winner, who made the last move."""
        return (float(self.seat), float(1 - self.seat)) if self.is_over else (0.0, 0.0)

    def render(self) -> str:
        """The board as the first player sees it, with the names of rows and columns."""
        white, black = (self.own, self.other) if self.seat == 0 else (_flip(self.other), _flip(self.own))
        rows = []
        for row in reversed(range(8)):
            cells = ("o" if white >> 8 * row + x & 1 else "x" if black >> 8 * row + x & 1 else "." for x in range(8))
            rows.append(f"{row + 1}  {' '.join(cells)}")
        return "\n".join([*rows, f"   {' '.join(_FILES)}   (o moves up, x moves down)"])

    def text(self, action: int) -> str:
        """From and to, such as ``b2b3``."""
        square, way = divmod(action, 3)
        row, to = square // 8, square // 8 + 1
        if self.seat:
            row, to = 7 - row, 7 - to
        return f"{_FILES[square % 8]}{row + 1}{_FILES[square % 8 + way - 1]}{to + 1}"

    def parse(self, text: str) -> int:
        """The move that *text* names.  Raises ValueError."""
        for action in self.legal():
            if self.text(action) == text.strip().lower():
                return action
        raise ValueError(f"{text.strip()!r:.20} is not a move: type from and to, such as b2b3")
