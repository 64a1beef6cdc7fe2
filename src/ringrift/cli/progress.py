"""Progress: how far something long has come, how fast it goes and how long it still takes.

On a terminal one line is redrawn; where the output is piped, a plain line comes now and then.  Both go to stderr, so
that what a command prints can be read by a program.
"""

import sys
from typing import TextIO

from ringrift.cli.disk_usage import size_text
from ringrift.cli.formats import duration
from ringrift.cli.screen import bar
from ringrift.environment import read_terminal
from ringrift.kernel.clock import Clock

_REDRAW_SECONDS, _LINE_SECONDS = 0.1, 10.0
_RATE_SECONDS_MIN = 0.5  # before which a rate would say nothing


def _describe(name: str, done: int, total: int, seconds: float, *, unit: str = "") -> str:
    """*done* of *total* after *seconds*, in bytes or in so many of *unit*, with rate and remaining time."""

    def text(amount: float) -> str:
        return f"{amount:,.0f} {unit}" if unit else size_text(amount)

    share = min(done / total, 1.0) if total else 1.0
    parts = [f"{name}: {bar(share)} {share:4.0%}", f"{text(done)} of {text(total)}"]
    if done and seconds >= _RATE_SECONDS_MIN:
        rate = done / seconds
        parts.append(f"{rate:,.1f} {unit}/s" if unit else f"{size_text(rate)}/s")
        parts += [f"{duration((total - done) / rate)} left"] if done < total else [f"in {duration(seconds)}"]
    return " · ".join(parts)


class Progress:
    """Shows how far *name* has come towards *total* bytes, or so many of *unit*."""

    def __init__(self, name: str, total: int, clock: Clock, *, unit: str = "", out: TextIO | None = None) -> None:
        self._name, self.total, self._clock, self._unit = name, total, clock, unit
        self._out = sys.stderr if out is None else out
        self._can_redraw, self._width = read_terminal(self._out)[1], 0
        self._started = self._shown = clock.tick()
        self._done = 0

    def add(self, amount: int) -> None:
        """Report that *amount* more is done."""
        self.update(self._done + amount)

    def update(self, done: int) -> None:
        """Report that *done* is done by now."""
        self._done, tick = done, self._clock.tick()
        if tick - self._shown >= (_REDRAW_SECONDS if self._can_redraw else _LINE_SECONDS):
            self._shown = tick
            self._show("" if self._can_redraw else "\n")

    def end(self) -> None:
        """Show where it ended."""
        self._show("\n")

    def _show(self, ending: str) -> None:
        text = _describe(self._name, self._done, self.total, self._clock.tick() - self._started, unit=self._unit)
        padding = " " * max(self._width - len(text), 0) if self._can_redraw else ""
        self._width = len(text)
        self._out.write(f"{chr(13) if self._can_redraw else ''}{text}{padding}{ending}")
        self._out.flush()
