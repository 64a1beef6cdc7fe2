"""Drawing: the board as text, and lines as people type them: two neighbouring dots, such as ``b2 c2`` or ``b2b3``."""

import re

from ringrift_dots.rules import Position

_OWNERS = "XO"
_LINE = re.compile(r"([a-z])([1-9])\W*([a-z])([1-9])")


class Board(Position):
    """A position that can be drawn, and whose lines have names."""

    @classmethod
    def start(cls, size: int) -> "Board":
        """The empty board of *size* x *size* boxes."""
        return cls(size, 0, (-1,) * (size * size))

    def play(self, action: int) -> "Board":
        """The position after the line *action*."""
        return Board(self.size, *self.owners_after(action))

    def render(self) -> str:
        """Dots, the lines drawn and the owner of each box."""
        size, rows = self.size, []
        for row in range(size + 1):
            lying = (self._mark(row * size + column, "---") for column in range(size))
            rows.append(f" {row + 1}  +" + "+".join(lying) + "+")
            if row < size:
                first = size * (size + 1) + row * (size + 1)
                inside = [f" {_OWNERS[owner]} " if owner >= 0 else "   " for owner in self.owners[row * size :][:size]]
                pairs = zip(range(first, first + size + 1), [*inside, ""], strict=True)
                rows.append("    " + "".join(self._mark(line, "|") + box for line, box in pairs))
        head = "    " + "   ".join(chr(97 + column) for column in range(size + 1))
        points = "   ".join(f"{sign} {count}" for sign, count in zip(_OWNERS, self.scores(), strict=True))
        return "\n".join([head, *(row.rstrip() for row in rows), points])

    def _mark(self, line: int, sign: str) -> str:
        return sign if self.drawn >> line & 1 else " " * len(sign)

    def text(self, action: int) -> str:
        """The two dots of a line."""
        first = self.size * (self.size + 1)
        is_lying = action < first
        row, column = divmod(action, self.size) if is_lying else divmod(action - first, self.size + 1)
        return f"{chr(97 + column)}{row + 1} {chr(97 + column + is_lying)}{row + 2 - is_lying}"

    def parse(self, text: str) -> int:
        """The line between the two dots of *text*.  Raises ValueError."""
        name = text.strip().lower()
        if match := _LINE.fullmatch(name):
            ends = {match[1] + match[2], match[3] + match[4]}
            for line in self.legal():
                if ends == set(self.text(line).split()):
                    return line
        raise ValueError(
            f"{name[:20]!r} is not a free line: type two neighbouring dots, such as {self.text(self.legal()[0])}"
        )
