"""Show: how values are written for people."""

from collections.abc import Sequence
from datetime import datetime

from ringrift.kernel.verdict import Verdict


def clock(time: float) -> str:
    """A wall time, as the clock on the wall has it."""
    return datetime.fromtimestamp(time).strftime("%Y-%m-%d %H:%M:%S")


def ago(seconds: float) -> str:
    """A duration in its largest two units."""
    seconds = max(int(seconds), 0)
    for size, unit, small, smaller in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // small} {smaller}"
    return f"{seconds} s"


def short(blob: str | None) -> str:
    """The beginning of a blob's name."""
    return blob[:10] if blob else "—"


def verdict(said: Verdict, now: float) -> str:
    """What a gate said, with value, limit and since when."""
    state = "open" if said.allowed else "waits"
    return (
        f"{said.gate}: {state} — {said.rule}: {said.value:.4g} of {said.limit:.4g}, "
        f"since {clock(said.since)} ({ago(now - said.since)} ago)"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows under a head, columns aligned."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join(lines)
