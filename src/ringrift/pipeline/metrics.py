"""Metrics: what every training of a line reported, and the figures of the line as it stands.

A training leaves one point, under its number: a curve is read by number, from the newest back, and never as a whole.
Everything else is a sum or a window that the desk keeps anyway.  Nothing here decides anything.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ringrift.cluster.peers import Spread
from ringrift.cluster.roster import NODES
from ringrift.evaluation.interval import Interval
from ringrift.events.data import Exported
from ringrift.events.training import Finished
from ringrift.jobs import STAGES
from ringrift.kernel.value import Value, changed
from ringrift.pipeline import challenge
from ringrift.pipeline.line import LINES, Line, Stage, require_line
from ringrift.pipeline.prefetch import champion_spread
from ringrift.pipeline.ratings import elo_of
from ringrift.store.ports import Reads, Tx
from ringrift.store.records import Records
from ringrift.work.durations import JobLoad, load_of
from ringrift.work.limits import VERDICTS

_POINTS_MAX = 512  #: Points of a curve, the newest.
_ROUNDS = 8  #: The last rounds of a line, from which the time of the next promotion is estimated.
_HELD_OUT = "held_out_"


class MetricPoint(Value):
    """What one training reported, and how far its line was then."""

    variant: str
    number: int  #: Of the training in its line, from 0.
    model: str
    generation: int
    time: float
    games: int = 0  #: Games of self-play that the line had played.
    window: int = 0  #: Games that the samples were exported from.
    positions: int = 0  #: Positions in the samples.
    steps: int = 0
    reuse: float | None = None  #: How often each position was trained on.
    seconds: float | None = None
    loss: float | None = None
    held_out_loss: float | None = None
    metrics: Mapping[str, float] = {}  #: All that the workload reported, by name.

    @property
    def id(self) -> str:
        return f"{self.variant}:{self.number:08d}"

    @property
    def steps_per_second(self) -> float | None:
        """Its speed, as reported or else from steps and seconds."""
        speed = self.metrics.get("steps_per_second")
        return speed if speed is not None else self.steps / self.seconds if self.steps and self.seconds else None


_POINTS = Records("metric_point", MetricPoint, id="id", index=("model",), limit=_POINTS_MAX)


class _Progress(Value):
    """How many trainings of one line were recorded, and its last export."""

    variant: str
    trainings: int = 0
    samples: str = ""
    positions: int = 0


_PROGRESS = Records("metric_progress", _Progress, id="variant")


async def record_export(tx: Tx, event: Exported) -> None:
    """Remember how many positions the samples of *event* have."""
    progress = await _PROGRESS.get(tx, event.variant) or _Progress(variant=event.variant)
    await _PROGRESS.put(tx, [changed(progress, samples=event.samples, positions=event.count)])


async def record_training(tx: Tx, event: Finished, at: float) -> None:
    """Add the point of a training; generation 0, which learns from nothing, has none."""
    if event.samples is None:
        return
    progress = await _PROGRESS.get(tx, event.variant) or _Progress(variant=event.variant)
    line, origins = await LINES.get(tx, event.variant), await tx.origins([event.samples])
    about = {name: getattr(event, name) for name in ("variant", "model", "generation", "metrics")}
    about |= {"games": line.counts.games if line else 0, "window": origins[0].games if origins else 0}
    positions = progress.positions if progress.samples == event.samples else 0
    await _POINTS.put(tx, [_point(MetricPoint(number=progress.trainings, time=at, **about), positions)])
    await _PROGRESS.put(tx, [changed(progress, trainings=progress.trainings + 1)])


def _point(point: MetricPoint, exported: int) -> MetricPoint:
    """*point* with the figures that its metrics hold, under the names of docs/howto/metrics.md."""
    metrics = point.metrics
    steps, positions = int(metrics.get("steps", 0)), int(metrics.get("positions", exported))
    reuse, batch = metrics.get("reuse"), metrics.get("batch")
    if reuse is None and batch and positions:
        reuse = steps * batch / positions
    figures: dict[str, Any] = {"steps": steps, "positions": positions, "reuse": reuse}
    figures |= {"loss": _loss(metrics, ""), "held_out_loss": _loss(metrics, _HELD_OUT)}
    return changed(point, seconds=metrics.get("seconds"), **figures)


def _loss(metrics: Mapping[str, float], prefix: str) -> float | None:
    """The loss that was reported, or the sum of its parts."""
    names = [name for name in metrics if name.startswith(prefix) and name.endswith("_loss")]
    parts = [metrics[name] for name in names if prefix or not name.startswith(_HELD_OUT)]
    return metrics.get(f"{prefix}loss", sum(parts) if parts else None)


class LineMetrics(Value):
    """The figures of one line now; what is not known is None."""

    variant: str
    generation: int = -1
    elo: Interval | None = None  #: Of the champion, over generation 0.
    training: MetricPoint | None = None  #: The last training.
    games: int = 0
    window: int = 0  #: Games in the window.
    games_per_second: float | None = None  #: Of self-play, over the last minutes.
    busy: Mapping[str, float] = {}  #: Share of all cores, by stage, over the last minutes: of jobs that ended.
    llr: float | None = None  #: Of the test of a candidate that is under way, as the next four.
    llr_lower: float | None = None
    llr_upper: float | None = None
    blocks: int = 0
    blocks_max: int = 0
    export_seconds: float | None = None  #: Until the next export, as an estimate.
    promotion_seconds: float | None = None  #: Until the next promotion, as an estimate.
    spread: Spread | None = None  #: How many nodes that play have the champion, and how soon 95 % of them had it.


async def line_metrics(view: Reads, variant: str, now: float) -> LineMetrics:
    """The figures of *variant*, from a bounded number of rows.  Raises UnknownName."""
    line = await require_line(view, variant)
    elo = next((row.elo for row in await elo_of(view, variant) if row.model == line.champion), None)
    points, loads = await metric_history(view, variant, _ROUNDS), await load_of(view, STAGES, variant, now)
    speed = loads["play"].units / loads["play"].seconds if "play" in loads else None
    collecting = await VERDICTS.get(view, f"{variant}:{Stage.COLLECTING}")
    missing = None if collecting is None else max(collecting.limit - line.fresh, 0.0)
    figures = {"generation": line.generation, "games": line.counts.games, **_test_figures(line)}
    return LineMetrics(
        variant=variant,
        elo=elo,
        training=points[-1] if points else None,
        window=sum(batch.games for batch in line.window),
        games_per_second=speed,
        busy=await _busy(view, loads),
        export_seconds=missing / speed if missing is not None and speed and line.stage is Stage.COLLECTING else None,
        promotion_seconds=_promotion_seconds(points, now),
        spread=await champion_spread(view, line),
        **figures,
    )


def _test_figures(line: Line) -> dict[str, Any]:
    """The state of the test of the candidate of *line*, if it has begun."""
    test = line.candidate.challenge if line.candidate else None
    if test is None:
        return {}
    outcome = challenge.outcome(test, line.players)
    bounds = {"llr": outcome.llr, "llr_lower": outcome.lower, "llr_upper": outcome.upper}
    return {"blocks": outcome.blocks, "blocks_max": test.gate.blocks_max, **bounds}


async def _busy(view: Reads, loads: Mapping[str, JobLoad]) -> dict[str, float]:
    """By stage, the share of the cores of all machines that *loads* have used; empty if no node told its cores."""
    nodes = [node for node in await NODES.all(view) if not node.gone]
    cores = sum({node.machine: node.cores for node in nodes}.values())
    shares: dict[str, float] = {}
    for kind, load in loads.items() if cores else ():
        shares[STAGES[kind]] = shares.get(STAGES[kind], 0.0) + load.cpu_seconds / load.seconds / cores
    return shares


def _promotion_seconds(points: Sequence[MetricPoint], now: float) -> float | None:
    """Seconds until the next promotion: by the time of a round and the share of candidates that passed lately."""
    passed = points[-1].generation - points[0].generation if points else 0
    return None if passed < 1 else max((points[-1].time - points[0].time) / passed - (now - points[-1].time), 0.0)


async def metric_history(view: Reads, variant: str, limit: int = _POINTS_MAX) -> list[MetricPoint]:
    """The points of the newest *limit* trainings of *variant*, oldest first."""
    progress = await _PROGRESS.get(view, variant)
    trainings = progress.trainings if progress else 0
    ids = [f"{variant}:{number:08d}" for number in range(max(trainings - limit, 0), trainings)]
    return sorted((await _POINTS.get_many(view, ids)).values(), key=lambda point: point.number)


async def training_of(view: Reads, variant: str, model: str) -> MetricPoint | None:
    """The last training of *variant* that ended with *model*."""
    points = await _POINTS.find(view, "model", model)
    return next((point for point in reversed(points.values()) if point.variant == variant), None)
