"""Metric files: the figures of every line as Prometheus text, its curves as CSV and as TensorBoard event files."""

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from ringrift.kernel.errors import InputError, SettingsError
from ringrift.kernel.value import Value
from ringrift.pipeline.metrics import LineMetrics, MetricPoint
from ringrift.pipeline.ratings import RatedModel

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_COLUMNS = tuple(name for name in MetricPoint.__struct_fields__ if name not in ("variant", "metrics"))
_PLAYER, _BOUNDS = ("generation", "model", "since", "blocks"), ("value", "lower", "upper")
_FORMATS = {"loss": "{:.4f}", "held_out_loss": "{:.4f}", "steps": "{:,}", "steps_per_second": "{:.1f}"}
_FORMATS |= {"positions": "{:,}", "window": "{:,} games", "reuse": "{:.2f}", "seconds": "{:.0f} s"}
_TITLES = {"held_out_loss": "held-out loss", "steps_per_second": "steps/s"}
SHOWN = frozenset(_FORMATS)  #: Metrics that :func:`training_figures` shows.
_HELP = {  # families of Prometheus text; a counter ends with _total
    "games_total": "Games of self-play.",
    "generation": "Generation of the champion.",
    "games_per_second": "Games of self-play a second, over the last minutes.",
    "window": "Games in the window.",
    "llr": "Log likelihood ratio of the test of a candidate that is under way.",
    "llr_lower": "The bound at which that candidate is rejected.",
    "llr_upper": "The bound at which that candidate is promoted.",
    "blocks": "Blocks of that test so far; 0 while no test runs.",
    "export_seconds": "Estimated seconds until the next export.",
    "promotion_seconds": "Estimated seconds until the next promotion.",
    "champion_nodes": "Nodes that play, by whether they have the champion ready.",
    "champion_p95_seconds": "After how long 95 % of the nodes that play had the champion; absent until they do.",
    "elo": "Elo of the champion over generation 0, with 95 % bounds.",
    "busy_share": "Share of all cores that the jobs of a stage used, over the last minutes.",
    "trainings_total": "Trainings that ended with a model.",
    **{f"training_{name}": f"The {name} of the last training." for name in _FORMATS},
    "training_metric": "All that the last training reported, by name.",
    "jobs": "Jobs by kind and state.",
}


class Curves(Value):
    """The figures of one line, its trainings, and its players with their Elo."""

    line: LineMetrics
    trainings: tuple[MetricPoint, ...] = ()
    players: tuple[RatedModel, ...] = ()


def training_figures(point: MetricPoint | None) -> dict[str, str]:
    """What is known of a training, for people, by its title."""
    values = {name: getattr(point, name, None) for name in _FORMATS}
    return {_TITLES.get(name, name): _FORMATS[name].format(value) for name, value in values.items() if value}


def as_prometheus(curves: Sequence[Curves], jobs: Mapping[tuple[str, str], int]) -> str:
    """The figures of now in the text format of Prometheus; what is not known is left out."""
    rows: dict[str, list[str]] = {name: [] for name in _HELP}

    def add(family: str, value: float | None, **labels: str) -> None:
        if value is not None:
            pairs = ",".join(f'{label}="{text.translate(_ESCAPES)}"' for label, text in labels.items())
            rows[family].append(f"ringrift_{family}{{{pairs}}} {value:.10g}")

    for line in (each.line for each in curves):
        point, variant = line.training, line.variant
        for name in _HELP.keys() & set(LineMetrics.__struct_fields__) - {"elo"}:
            add(name, getattr(line, name), variant=variant)
        add("games_total", line.games, variant=variant)
        if (spread := line.spread) is not None:
            add("champion_nodes", spread.ready, variant=variant, ready="yes")
            add("champion_nodes", spread.nodes - spread.ready, variant=variant, ready="no")
            add("champion_p95_seconds", spread.p95_seconds, variant=variant)
        for bound in _BOUNDS:
            add("elo", getattr(line.elo, bound, None), variant=variant, bound=bound)
        for stage, share in line.busy.items():
            add("busy_share", share, variant=variant, stage=stage)
        if point is not None:
            add("trainings_total", point.number + 1, variant=variant)
            for name in _FORMATS:
                add(f"training_{name}", getattr(point, name), variant=variant)
            for name, value in point.metrics.items():
                add("training_metric", value, variant=variant, name=name)
    for (kind, state), count in sorted(jobs.items()):
        add("jobs", count, kind=kind, state=state)
    kinds = {name: "counter" if name.endswith("_total") else "gauge" for name in _HELP}
    heads = {name: [f"# HELP ringrift_{name} {_HELP[name]}", f"# TYPE ringrift_{name} {kinds[name]}"] for name in _HELP}
    return "\n".join(text for name in _HELP if rows[name] for text in (*heads[name], *rows[name]))


def write_csv(curves: Sequence[Curves], folder: Path) -> list[Path]:
    """Write two files for each line, each whole or not at all, and return them.  Raises SettingsError."""
    contents = {}
    for each in curves:
        rows = [{**point.metrics, **{name: getattr(point, name) for name in _COLUMNS}} for point in each.trainings]
        contents[folder / f"{each.line.variant}-trainings.csv"] = _as_csv(_COLUMNS, rows)
        bounds = [{"elo": row.elo.value, "lower": row.elo.lower, "upper": row.elo.upper} for row in each.players]
        pairs = zip(each.players, bounds, strict=True)
        players = [{**{name: getattr(row, name) for name in _PLAYER}, **elo} for row, elo in pairs]
        contents[folder / f"{each.line.variant}-elo.csv"] = _as_csv((*_PLAYER, "elo", "lower", "upper"), players)
    with _typed("--csv", folder):
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in contents.items():
            beside = path.with_name(f".{path.name}.{os.getpid()}")
            beside.write_text(text, encoding="utf-8", newline="")
            os.replace(beside, path)
    return list(contents)


def _as_csv(names: Sequence[str], rows: Sequence[Mapping[str, object]]) -> str:
    text, more = io.StringIO(), sorted({name for row in rows for name in row} - set(names))
    writer = csv.DictWriter(text, (*names, *more))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


@contextmanager
def _typed(option: str, folder: Path) -> Iterator[None]:
    """Raise SettingsError where *folder* cannot be written."""
    try:
        yield
    except OSError as error:
        raise SettingsError(option, str(folder), f"it cannot be written: {error.strerror or error}") from error


def write_tensorboard(curves: Sequence[Curves], folder: Path) -> list[Path]:
    """Write a folder of event files for each line, in place of the last ones.  Raises InputError, SettingsError."""
    try:
        summary: Any = import_module("tensorboard.summary")
    except ImportError as error:
        raise InputError(f"--tensorboard needs the package tensorboard ({error}): pip install tensorboard") from error
    folders = [folder / each.line.variant for each in curves]
    for each, own in zip(curves, folders, strict=True):
        with _typed("--tensorboard", folder):
            own.mkdir(parents=True, exist_ok=True)
            earlier = list(own.glob("events.out.tfevents.*"))
            writer = summary.Writer(summary.DirectoryOutput(str(own)))
            for tag, step, value, time in _scalars(each):
                writer.add_scalar(tag, value, step, wall_time=time)
            writer.close()
            for file in earlier:  # every curve is written anew: two files of one curve would be drawn as two
                file.unlink()
    return folders


def _scalars(curves: Curves) -> Iterator[tuple[str, int, float, float]]:
    """Tag, step, value and time: trainings by their number, Elo by generation."""
    for point in curves.trainings:
        figures = {"games": point.games, **{name: getattr(point, name) for name in _FORMATS}, **point.metrics}
        for name, value in figures.items():
            if value is not None:
                yield f"training/{name}", point.number, float(value), point.time
    for row in curves.players:
        if row.generation is not None and row.since is not None:
            for bound in _BOUNDS:
                yield f"elo/{bound}", row.generation, getattr(row.elo, bound), row.since
