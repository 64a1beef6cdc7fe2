"""Reporting: the table, the page, the results and the recorded ratios."""

import json
import os
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import apsw

from bench.measure import Line, Row, Spread

HEADS = ("what", "ours", "reference", "ratio", "bound")
TOLERANCE = 0.2

PAGE = """# Performance

*Written by `make bench ARGS=--page`; do not edit.*

Every line is measured against something that does the same work in the same run.
Unless another one is named after a semicolon, that is raw SQLite: the same statements in the same transactions through
`apsw` and nothing else, with WAL and `synchronous=FULL`, on a fresh file of the same filesystem.
The sides take turns for {rounds} rounds; shown are medians with quartiles.
The ratio is ours / reference, the median over the rounds.
Rates of one machine say little about another machine; ratios of one run do.
In wall time, ratios of durable work come nearer to 1 the longer an fsync takes.
In CPU time they hardly depend on disk or load.

{table}

Measured {date} on {machine}.

To reproduce: `make bench`.
`make bench ARGS=--check` fails if a bound is missed.
A bound is fixed, or {tolerance:.0%} above a ratio of CPU time or memory in `bench/recorded.json`.
`make bench ARGS=--record` writes that file; do so on a quiet machine, and say why the ratios have changed.
`make bench ARGS="--only publish --rounds 25"` measures one thing longer.
`make bench ARGS="--only history"` compares an old store with a young one; [why](why/cost.md) tells how to make one.
"""


def number(value: float) -> str:
    """*value* with three significant digits."""
    if value >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def _spread(spread: Spread | None, unit: str = "") -> str:
    if spread is None:
        return "–"
    if spread.low == spread.high:
        return f"{number(spread.median)}{unit}"
    return f"{number(spread.median)} ({number(spread.low)}–{number(spread.high)}){unit}"


def _bound(row: Row, recorded: Mapping[str, float]) -> str:
    line = row.line
    bounds = []
    if line.ratio_min is not None:
        bounds.append(f"ratio ≥ {line.ratio_min:g}")
    if line.ratio_max is not None:
        bounds.append(f"ratio ≤ {line.ratio_max:g}")
    if line.ours_min is not None:
        bounds.append(f"≥ {number(line.ours_min)} {line.unit}")
    if line.ours_max is not None:
        bounds.append(f"≤ {line.ours_max:g} {line.unit}")
    if line.recorded and line.name in recorded:
        bounds.append(f"ratio {'≥' if line.more_is_better else '≤'} {limit(line, recorded[line.name]):.2f}")
    return ", ".join(bounds) or "–"


def limit(line: Line, recorded: float) -> float:
    """The worst ratio of *line* that is still as good as the *recorded* one."""
    return recorded * (1 - TOLERANCE if line.more_is_better else 1 + TOLERANCE)


def _cells(row: Row, recorded: Mapping[str, float]) -> tuple[str, ...]:
    unit = f" {row.line.unit}"
    return (row.line.what, _spread(row.ours, unit), _spread(row.raw, unit), _spread(row.ratio), _bound(row, recorded))


def table(rows: Sequence[Row], recorded: Mapping[str, float]) -> str:
    """*rows* as a Markdown table that also reads well in a terminal."""
    words = [HEADS, *(_cells(row, recorded) for row in rows)]
    widths = [max(len(line[column]) for line in words) for column in range(len(HEADS))]
    lines = [
        "| " + " | ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)) + " |" for line in words
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def machine(folder: Path) -> str:
    """This machine in one phrase, with the time of the smallest durable write in *folder*."""
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    return (
        f"{os.cpu_count()} × {model}, {platform.system()} {platform.release()}, Python {platform.python_version()}, "
        f"SQLite {apsw.sqlite_lib_version()}, fdatasync p50 {_fdatasync(folder) * 1000:.2f} ms, "
        f"load {os.getloadavg()[0]:.1f} when the run ended"
    )


def _fdatasync(folder: Path) -> float:
    took = []
    path = folder / "fdatasync"
    with path.open("wb", buffering=0) as file:
        for _ in range(100):
            file.write(b"x" * 4096)
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - start)
    path.unlink()
    return statistics.median(took)


def page(rows: Sequence[Row], recorded: Mapping[str, float], rounds: int, on: str) -> str:
    """The page about performance."""
    date = time.strftime("%Y-%m-%d", time.gmtime())
    return PAGE.format(table=table(rows, recorded), rounds=rounds, machine=on, date=date, tolerance=TOLERANCE)


def results(rows: Sequence[Row], rounds: int, on: str) -> str:
    """All measurements, as JSON."""
    return json.dumps({"machine": on, "rounds": rounds, "rows": [asdict(row) for row in rows]}, indent=1) + "\n"


def updated_ratios(rows: Sequence[Row], before: Mapping[str, float]) -> dict[str, float]:
    """The ratios to compare later runs with: those of *before*, with those of *rows* on top."""
    now = {row.line.name: round(row.ratio.median, 3) for row in rows if row.ratio and row.line.recorded}
    return dict(sorted({**before, **now}.items()))


def misses(rows: Sequence[Row], recorded: Mapping[str, float]) -> list[str]:
    """The lines that miss their bound or are much worse than recorded."""
    messages = []
    for row in rows:
        line = row.line
        if line.ours_min is not None and row.ours.median < line.ours_min:
            messages.append(
                f"{line.name}: {number(row.ours.median)} {line.unit}, at least {number(line.ours_min)} required"
            )
        if line.ours_max is not None and row.ours.median > line.ours_max:
            messages.append(f"{line.name}: {number(row.ours.median)} {line.unit}, at most {line.ours_max:g} allowed")
        if row.ratio is None:
            continue
        ratio = row.ratio.median
        if line.ratio_min is not None and ratio < line.ratio_min:
            messages.append(f"{line.name}: ratio {ratio:.3f}, at least {line.ratio_min:g} required")
        if line.ratio_max is not None and ratio > line.ratio_max:
            messages.append(f"{line.name}: ratio {ratio:.3f}, at most {line.ratio_max:g} allowed")
        if not line.recorded:
            continue
        if line.name not in recorded:
            messages.append(f"{line.name}: no ratio is recorded; --record stores this one")
            continue
        worst = limit(line, recorded[line.name])
        if ratio < worst if line.more_is_better else ratio > worst:
            messages.append(f"{line.name}: ratio {ratio:.3f} was {recorded[line.name]:.3f} when it was recorded")
    return messages
