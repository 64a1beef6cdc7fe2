"""Formats: how values are written for people."""

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from ringrift.evaluation.interval import Interval
from ringrift.kernel.errors import printable
from ringrift.kernel.verdict import Verdict

CONFIDENCE = 0.95  # of the bounds that people see
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_ERROR_CHARACTERS_MAX = 200
_Row = Sequence[object]
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd])")


def timestamp(time: float) -> str:
    """A wall time in the time zone of this machine."""
    return datetime.fromtimestamp(time).strftime("%Y-%m-%d %H:%M:%S")


def duration(seconds: float) -> str:
    """A duration in its largest two units."""
    seconds = max(int(seconds), 0)
    for size, unit, small, smaller in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // small} {smaller}"
    return f"{seconds} s"


def ago(time: float, now: float) -> str:
    """How long ago *time* was."""
    return f"{duration(now - time)} ago"


def since(time: float, now: float) -> str:
    """Since when, as a time and as a duration."""
    return f"since {timestamp(time)} ({ago(time, now)})"


def parse_duration(text: str) -> float | None:
    """``90s``, ``15m``, ``2h`` or ``1d`` in seconds; None if it is no duration."""
    match = _DURATION.fullmatch(text)
    return float(match[1]) * _UNITS[match[2]] if match else None


def describe_error(error: str, traceback: str) -> str:
    """An error in one line, with file and line of the innermost frame of its *traceback*, if it has one."""
    frames = _FRAME.findall(traceback)
    place = f" at {Path(frames[-1][0]).name}:{frames[-1][1]}" if frames else ""
    return printable(" ".join(error.split()), _ERROR_CHARACTERS_MAX) + place


def short(blob: str | None) -> str:
    """The beginning of a blob's name."""
    return blob[:10] if blob else "—"


def plural(count: int, noun: str) -> str:
    """``1 promotion``, ``2 promotions``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def signed(gain: float | None) -> str:
    """An Elo difference, or a dash."""
    return "—" if gain is None else f"{gain:+.0f}"


def elo_bounds(elo: Interval) -> str:
    """An Elo difference with its bounds."""
    return f"{elo.value:+.0f} ({elo.lower:+.0f} … {elo.upper:+.0f})"


def verdict_line(verdict: Verdict, now: float, closed: str = "waits") -> str:
    """The verdict of a gate: rule, value, limit and since when; *closed* is the word for a gate that is not open."""
    reason = f"{verdict.rule}: {verdict.value:.4g} of {verdict.limit:.4g}, {since(verdict.since, now)}"
    return f"{verdict.gate}: {'open' if verdict.allowed else closed} — {reason}"


def table(head: Sequence[str], rows: Sequence[_Row], empty: str = "", limit: int | None = None, more: str = "") -> str:
    """Rows under a head, columns aligned, or *empty*; beyond *limit* rows only *more*, with their number for ``{}``."""
    if not rows and empty:
        return empty
    cells = [[str(cell) for cell in row] for row in (head, *rows[:limit])]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    count = 0 if limit is None else len(rows) - limit
    return "\n".join([*lines, more.format(count)] if count > 0 else lines)
