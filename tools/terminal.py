"""Terminal: runs a program on a pseudo-terminal and emulates as much of a screen as the command line uses.

It wraps long lines, scrolls, reflows when it is resized, knows colours, and draws itself as text or as SVG.  The tests
use it to see what a person would see, and ``tools/screens.py`` to make the pictures of the documentation.
"""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from html import escape

_CODE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")
_COLOURS = {"31": "#f85149", "32": "#3fb950", "33": "#d29922", "36": "#39c5cf"}
_PAPER, _INK, _DIM = "#0d1117", "#e6edf3", "#8b949e"
_CHARACTER_WIDTH, _LINE_HEIGHT, _MARGIN = 8.4, 18, 12
_HISTORY_MAX = 10_000
Cell = tuple[str, str]  # a character and its style: the codes that are on


class Terminal:
    """A screen of *columns* by *lines*, with what has scrolled out of it above."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self._rows: list[list[Cell]] = [[]]  # all rows, the oldest first; the screen is the last of them
        self._wrapped: list[bool] = [False]  # whether the row goes on in the next
        self._row = self._column = 0
        self._style, self._rest = "", ""

    def feed(self, text: str) -> None:
        """Print *text*, which may end within a code."""
        text, place = self._rest + text, 0
        self._rest = ""
        while place < len(text):
            character = text[place]
            if character == "\x1b":
                match = _CODE.match(text, place)
                if match is None:
                    if len(text) - place < 16:
                        self._rest = text[place:]
                        return
                    place += 1
                    continue
                self._obey(match[1], match[2])
                place = match.end()
                continue
            place += 1
            if character == "\n":
                self._next_row(wrapped=False)
            elif character == "\r":
                self._column = 0
            elif character >= " ":
                self._print(character)

    def _print(self, character: str) -> None:
        if self._column >= self.columns:
            self._next_row(wrapped=True)
            self._column = 0
        row = self._rows[self._row]
        row.extend([(" ", "")] * (self._column - len(row)))
        row[self._column : self._column + 1] = [(character, self._style)]
        self._column += 1

    def _next_row(self, *, wrapped: bool) -> None:
        self._wrapped[self._row] = wrapped
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append([])
            self._wrapped.append(False)
        del self._rows[:-_HISTORY_MAX], self._wrapped[:-_HISTORY_MAX]
        self._row = min(self._row, len(self._rows) - 1)

    def _obey(self, arguments: str, code: str) -> None:
        number = int(arguments) if arguments.isdecimal() else 0
        top = max(len(self._rows) - self.lines, 0)
        if code == "A":
            self._row = max(self._row - max(number, 1), top)
        elif code == "K":
            del self._rows[self._row][self._column :]
        elif code == "J" and number == 0:
            del self._rows[self._row][self._column :]
            # What is below becomes empty, and stays part of the screen.
            for row in range(self._row + 1, len(self._rows)):
                self._rows[row], self._wrapped[row] = [], False
            self._wrapped[self._row] = False
        elif code == "m":
            self._style = "" if arguments in ("", "0") else arguments

    def resize(self, columns: int, lines: int) -> None:
        """Become another size; long lines are wrapped anew, as most terminals do."""
        wholes: list[list[Cell]] = [[]]
        cursor = (0, 0)
        for number, (row, wrapped) in enumerate(zip(self._rows, self._wrapped, strict=True)):
            if number == self._row:
                cursor = (len(wholes) - 1, len(wholes[-1]) + self._column)
            wholes[-1] = wholes[-1] + row
            if not wrapped:
                wholes.append([])
        wholes.pop()
        self._rows, self._wrapped = [], []
        for number, whole in enumerate(wholes):
            parts = [whole[at : at + columns] for at in range(0, len(whole), columns)] or [[]]
            if number == cursor[0]:
                self._row = len(self._rows) + min(cursor[1] // columns, len(parts) - 1)
                self._column = cursor[1] % columns
            self._rows += parts
            self._wrapped += [True] * (len(parts) - 1) + [False]
        self.columns, self.lines = columns, lines

    def cells(self, *, history: bool = False) -> list[list[Cell]]:
        """The rows of the screen, or of everything, without empty ones at the end."""
        rows = self._rows if history else self._rows[-self.lines :]
        while rows and not any(character.strip() for character, _ in rows[-1]):
            rows = rows[:-1]
        return rows

    def text(self, *, history: bool = False) -> str:
        """The same as text."""
        return "\n".join("".join(character for character, _ in row).rstrip() for row in self.cells(history=history))

    def svg(self, title: str) -> str:
        """The screen as a picture."""
        rows = self.cells()
        width = round(self.columns * _CHARACTER_WIDTH + 2 * _MARGIN)
        height = len(rows) * _LINE_HEIGHT + 2 * _MARGIN
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" aria-label="{escape(title)}" font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" '
            f'font-size="14">'
        )
        paper = f'<rect width="100%" height="100%" rx="6" fill="{_PAPER}"/>'
        lines = [self._svg_row(row, number) for number, row in enumerate(rows)]
        return "\n".join([head, paper, *filter(None, lines), "</svg>\n"])

    @staticmethod
    def _svg_row(row: Sequence[Cell], number: int) -> str:
        y, parts, place = _MARGIN + (number + 1) * _LINE_HEIGHT - 5, [], 0
        while place < len(row):
            end = place
            while end < len(row) and row[end][1] == row[place][1]:
                end += 1
            text, codes = "".join(character for character, _ in row[place:end]), row[place][1].split(";")
            colour = next((_COLOURS[code] for code in codes if code in _COLOURS), _DIM if "2" in codes else _INK)
            weight = ' font-weight="bold"' if "1" in codes else ""
            if text.strip():
                x, length = _MARGIN + place * _CHARACTER_WIDTH, len(text) * _CHARACTER_WIDTH
                parts.append(
                    f'<text x="{x:.1f}" y="{y}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs" '
                    f'xml:space="preserve" fill="{colour}"{weight}>{escape(text)}</text>'
                )
            place = end
        return "".join(parts)


class Session:
    """A program that runs on a terminal of its own; what it prints is fed to *screen*."""

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        *,
        columns: int = 80,
        lines: int = 24,
        folder: str | None = None,
    ) -> None:
        self.screen, self.output = Terminal(columns, lines), ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._master, slave = pty.openpty()
        self._set_size(columns, lines)
        self.process = subprocess.Popen(
            command,
            env=dict(environ),
            cwd=folder,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(slave)

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the terminal, as who drags its corner does, once all that was written is shown."""
        while select.select([self._master], [], [], 0)[0] and self.read(0):
            pass
        self.screen.resize(columns, lines)
        self._set_size(columns, lines)
        self.process.send_signal(signal.SIGWINCH)

    def type(self, text: str) -> None:
        """Type *text*; ``\\x03`` is Ctrl-C."""
        os.write(self._master, text.encode())

    def read(self, seconds: float) -> bool:
        """Feed the screen with what comes within *seconds*; False once the program has ended."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            return False
        text = self._decoder.decode(data)
        self.output += text
        self.screen.feed(text)
        return bool(data)

    def wait(self, holds: Callable[[Terminal], bool] | None = None, seconds: float = 60.0) -> None:
        """Read until *holds* is true of the screen, else until the program has ended.

        Raises TimeoutError, or RuntimeError if the program ends before.
        """
        end = time.monotonic() + seconds
        while holds is None or not holds(self.screen):
            if not self.read(min(0.2, max(end - time.monotonic(), 0.0))):
                code = self.process.wait(10)
                if holds is not None:
                    text = self.screen.text(history=True)[-3000:]
                    raise RuntimeError(f"it has ended with {code}; the screen:\n{text}")
                return
            if time.monotonic() >= end:
                raise TimeoutError(f"not within {seconds:g} s; the screen:\n{self.screen.text(history=True)[-3000:]}")

    def close(self) -> None:
        """Kill the program if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        os.close(self._master)


def _take_terminal() -> None:
    """In the child: make its input the terminal that sends it signals."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
