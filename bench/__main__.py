"""``make bench``: run the benchmarks, print the table, and with ``--check`` report what has become too slow."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import (
    dead_letters,
    fanout,
    files,
    hang,
    history,
    lineage,
    publish,
    rating,
    react,
    report,
    reversi,
    reversi_engine,
    start,
    unchanged,
    wake,
    wire,
    work,
)
from bench.measure import Row, hold

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS, RECORDED, PAGE = HERE / "results.json", HERE / "recorded.json", ROOT / "docs" / "performance.md"
CONTESTS = (
    fanout.MEMORY,
    fanout.LIVE,
    hang.ISOLATION,
    wake.WAKES,
    publish.THROUGHPUT,
    work.BATCHES,
    react.REACTIONS,
    react.HANDLERS,
    dead_letters.DEAD_LETTERS,
    work.GROWTH,
    history.HISTORY,
    lineage.LINEAGE,
    rating.RATINGS,
    *reversi.PLAYS,
    reversi.TRAINING,
    reversi.PLAYER,
    reversi_engine.RULES,
    start.STARTING,
    start.IMPORTS,
    start.PROGRAMS,
    publish.LATENCIES,
    wire.WIRE,
    files.FILES,
    unchanged.UNCHANGED,
)
ROUNDS_MIN, ROUNDS = 5, 9


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The options of this run."""
    names = [contest.name for contest in CONTESTS]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=names, action="append", help="measure only this (may be repeated)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds, {ROUNDS_MIN} or more (%(default)s)")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bound is missed or a ratio got worse")
    parser.add_argument("--record", action="store_true", help="store these ratios in bench/recorded.json")
    parser.add_argument("--page", action="store_true", help="write docs/performance.md; needs all benchmarks")
    options = parser.parse_args(words)
    if options.rounds < ROUNDS_MIN:
        parser.error(f"--rounds must be at least {ROUNDS_MIN}")
    if options.page and options.only:
        parser.error("--page shows all benchmarks: leave --only out")
    return options


def measure(options: argparse.Namespace) -> tuple[list[Row], str]:
    """The rows of every selected benchmark, and the machine."""
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    rows: list[Row] = []
    # Below the checkout and not in /tmp, which may be memory: an fsync costs nothing there.
    with TemporaryDirectory(prefix="bench-", dir=build) as scratch:
        for contest in CONTESTS:
            if not options.only or contest.name in options.only:
                began = time.perf_counter()
                rows.extend(hold(contest, options.rounds, Path(scratch)))
                print(f"{contest.name}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
        on = report.machine(Path(scratch))
    with suppress(OSError):  # other builds may be there too
        build.rmdir()
    return rows, on


def main(words: Sequence[str]) -> int:
    """Run; the exit code."""
    options = parse(words)
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    rows, on = measure(options)
    if options.record:
        recorded = report.updated_ratios(rows, recorded)
        RECORDED.write_text(json.dumps(recorded, indent=1) + "\n")
    print(report.table(rows, recorded))
    print(f"\n{options.rounds} rounds on {on}")
    RESULTS.write_text(report.results(rows, options.rounds, on))
    if options.page:
        PAGE.write_text(report.page(rows, recorded, options.rounds, on))
    missed = report.misses(rows, recorded)
    for miss in missed:
        print(f"MISS {miss}")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
