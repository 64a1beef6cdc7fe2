"""Measuring: the sides take turns, round by round; the result is the median of the ratios within a round."""

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

Metrics = Mapping[str, float]
Side = Callable[[Path], Metrics]
"""Does the work once in an empty folder and returns its measurements."""


@dataclass(frozen=True)
class Line:
    """One line of the table: a metric of one side, against the same metric of another side if there is one."""

    name: str
    what: str
    unit: str
    metric: str
    ours: str = "ours"
    raw: str | None = "raw"
    ratio_min: float | None = None
    ratio_max: float | None = None
    ours_min: float | None = None
    ours_max: float | None = None
    recorded: bool = False
    """Whether its ratio is recorded and may not get worse.

    Only ratios of CPU time and memory are: in wall time, a slow disk moves every ratio towards 1.
    """

    @property
    def more_is_better(self) -> bool:
        """Rates should be high; everything else should be low."""
        return self.unit.endswith("/s")


@dataclass(frozen=True)
class Contest:
    """Sides that do the same work, and the lines of its results.

    *open* gets a folder that lasts for the whole contest, for expensive preparations.
    """

    name: str
    open: Callable[[Path], AbstractContextManager[Mapping[str, Side]]]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Spread:
    """The quartiles of some numbers."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """The quartiles of *values*, of which there is at least one."""
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        return cls(*statistics.quantiles(values, n=4, method="inclusive"))


class Stopwatch:
    """Measures from now on, in wall time and in CPU time of this process, which other processes hardly change."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def per(self, count: int) -> Metrics:
        """The results since then for *count* things: ``rate`` in things/s, ``cpu`` in µs for each."""
        cpu, wall = time.process_time() - self._cpu, time.perf_counter() - self._wall
        return {"rate": count / wall, "cpu": cpu / count * 1e6}


@dataclass(frozen=True)
class Row:
    """One measured line."""

    line: Line
    ours: Spread
    raw: Spread | None
    ratio: Spread | None


def hold(contest: Contest, rounds: int, scratch: Path) -> Iterator[Row]:
    """Run *contest* for *rounds* rounds below *scratch*; its rows."""
    with TemporaryDirectory(prefix=f"{contest.name}-", dir=scratch) as folder, contest.open(Path(folder)) as sides:
        results: dict[str, list[Metrics]] = {side: [] for side in sides}
        for number in range(rounds):
            # The order alternates, so that neither side always runs right after the other.
            for side in sorted(sides, reverse=bool(number % 2)):
                results[side].append(_once(sides[side], scratch))
    for line in contest.lines:
        yield _row(line, results)


def _once(side: Side, scratch: Path) -> Metrics:
    with TemporaryDirectory(prefix="round-", dir=scratch) as fresh:
        gc.collect()
        return side(Path(fresh))


def _row(line: Line, results: Mapping[str, Sequence[Metrics]]) -> Row:
    ours = [metrics[line.metric] for metrics in results[line.ours]]
    if line.raw is None:
        return Row(line, Spread.of(ours), None, None)
    raw = [metrics[line.metric] for metrics in results[line.raw]]
    # Paired by round: a slow moment that hits both sides cancels out.
    ratios = [mine / theirs for mine, theirs in zip(ours, raw, strict=True)]
    return Row(line, Spread.of(ours), Spread.of(raw), Spread.of(ratios))
