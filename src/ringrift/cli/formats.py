"""Formats: how values are written for people."""

from collections.abc import Sequence
from datetime import datetime

from ringrift.kernel.verdict import Verdict


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


def short(blob: str | None) -> str:
    """The beginning of a blob's name."""
    return blob[:10] if blob else "—"


def signed(gain: float | None) -> str:
    """An Elo difference, or a dash."""
    return "—" if gain is None else f"{gain:+.0f}"


def verdict_line(verdict: Verdict, now: float, closed: str = "waits") -> str:
    """The verdict of a gate with value, limit and since when; *closed* is the word for a gate that is not open."""
    state = "open" if verdict.allowed else closed
    return (
        f"{verdict.gate}: {state} — {verdict.rule}: {verdict.value:.4g} of {verdict.limit:.4g}, "
        f"since {timestamp(verdict.since)} ({duration(now - verdict.since)} ago)"
    )


def table(
    head: Sequence[str], rows: Sequence[Sequence[object]], empty: str = "", limit: int | None = None, more: str = ""
) -> str:
    """Rows under a head, columns aligned; without rows *empty*, if there is such a text.

    Only the first *limit* rows are printed; a last line has the number of the others in place of ``{}`` in *more*.
    """
    if not rows and empty:
        return empty
    cells = [[str(cell) for cell in row] for row in (head, *rows[:limit])]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    count = 0 if limit is None else len(rows) - limit
    return "\n".join([*lines, more.format(count)] if count > 0 else lines)
