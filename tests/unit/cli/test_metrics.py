"""Metrics are Prometheus text that its parser accepts, and curves are files that appear whole."""

import csv
import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from ringrift.cli.commands.metrics import COMMAND
from ringrift.cli.metric_files import Curves, as_prometheus, training_figures, write_csv, write_tensorboard
from ringrift.evaluation.interval import Interval
from ringrift.kernel.errors import InputError, SettingsError
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.metrics import LineMetrics, MetricPoint, record_training
from ringrift.pipeline.ratings import RatedModel
from unit.cli.command_output import ask
from unit.pipeline.story import blob
from unit.pipeline.test_metrics import trained
from unit.work.world import World, play

VARIANT = "hex8_2p"
ELO = Interval(value=120.0, lower=100.0, upper=140.0)
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-z_]+="(?:[^"\\\n]|\\\\|\\"|\\n)*",?)*)\} (\S+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"')


def point(number: int = 0, **metrics: float) -> MetricPoint:
    """A training."""
    about = {"variant": VARIANT, "number": number, "model": blob(f"m{number}"), "generation": number + 1}
    figures = {"games": 512, "window": 256, "positions": 9_000, "steps": 100, "reuse": 1.5, "seconds": 20.0}
    return MetricPoint(time=100.0 * number, loss=2.0, held_out_loss=2.5, metrics=metrics, **about, **figures)


def curves(*points: MetricPoint) -> Curves:
    """A line with these trainings, and two rated players."""
    line = LineMetrics(variant=VARIANT, generation=1, elo=ELO, training=points[-1] if points else None, games=512)
    zero = Interval(value=0.0, lower=0.0, upper=0.0)
    players = (
        RatedModel(model=blob("zero"), elo=zero, generation=0, since=1.0),
        RatedModel(model=blob("m0"), elo=ELO, generation=1, since=2.0, blocks=16),
        RatedModel(model="uct:200", elo=ELO, blocks=8),
    )
    return Curves(line=line, trainings=points, players=players)


def parse(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """The samples of Prometheus text by family; asserts what the format demands."""
    families: dict[str, list[tuple[dict[str, str], float]]] = {}
    kinds: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, help = line.removeprefix("# HELP ").split(" ", 1)
            assert help
            assert name not in families, "the samples of a family stand together"
            families[name] = []
        elif line.startswith("# TYPE "):
            name, kinds[name] = line.removeprefix("# TYPE ").split(" ")
            assert kinds[name] in ("counter", "gauge")
            assert name.endswith("_total") == (kinds[name] == "counter")
        else:
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            name, labels, value = match.groups()
            assert name == list(families)[-1] == list(kinds)[-1]
            unescaped = {
                key: label.replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")
                for key, label in LABEL.findall(labels)
            }
            families[name].append((unescaped, float(value)))
    return families


def test_figures_are_text_that_prometheus_can_read() -> None:
    """Every family has help and a type before its samples; counters end with _total; what is not known is left out."""
    families = parse(as_prometheus([curves(point(3, my_figure=7.0))], {("play", "done"): 4, ("play", "ready"): 2}))

    assert families["ringrift_games_total"] == [({"variant": VARIANT}, 512.0)]
    assert families["ringrift_trainings_total"] == [({"variant": VARIANT}, 4.0)]
    assert families["ringrift_training_steps_per_second"] == [({"variant": VARIANT}, 5.0)]
    assert families["ringrift_training_loss"] == [({"variant": VARIANT}, 2.0)]
    assert families["ringrift_training_held_out_loss"] == [({"variant": VARIANT}, 2.5)]
    bounds = {labels["bound"]: value for labels, value in families["ringrift_elo"]}
    assert bounds == {"value": 120.0, "lower": 100.0, "upper": 140.0}
    assert families["ringrift_training_metric"] == [({"variant": VARIANT, "name": "my_figure"}, 7.0)]
    assert ({"kind": "play", "state": "ready"}, 2.0) in families["ringrift_jobs"]
    assert "ringrift_llr" not in families
    assert "ringrift_games_per_second" not in families


def test_labels_of_any_text_are_escaped() -> None:
    """A plug-in chooses the names of its metrics."""
    name = 'my "loss"\\path\nnext'
    families = parse(as_prometheus([curves(point(0, **{name: 1.0}))], {}))

    assert families["ringrift_training_metric"] == [({"variant": VARIANT, "name": name}, 1.0)]


def test_a_line_without_trainings_has_the_figures_that_it_has() -> None:
    """And a store without lines has none but those of jobs."""
    assert "ringrift_training_loss" not in parse(as_prometheus([curves()], {}))
    assert as_prometheus([], {}) == ""
    assert training_figures(None) == {}


def test_curves_are_csv_files_with_a_column_for_every_metric(tmp_path: Path) -> None:
    """Also for one that only some trainings reported; players have their Elo with bounds."""
    paths = write_csv([curves(point(0), point(1, my_figure=7.0))], tmp_path / "new" / "folder")

    assert [path.name for path in paths] == ["hex8_2p-trainings.csv", "hex8_2p-elo.csv"]
    with paths[0].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["my_figure"] for row in rows] == ["", "7.0"]
    assert [(row["number"], row["loss"], row["held_out_loss"]) for row in rows] == [
        ("0", "2.0", "2.5"),
        ("1", "2.0", "2.5"),
    ]
    with paths[1].open(newline="") as file:
        players = list(csv.DictReader(file))
    assert [(row["generation"], row["elo"], row["lower"], row["upper"]) for row in players] == [
        ("0", "0.0", "0.0", "0.0"),
        ("1", "120.0", "100.0", "140.0"),
        ("", "120.0", "100.0", "140.0"),
    ]


def test_files_are_replaced_as_a_whole(tmp_path: Path) -> None:
    """Nothing but the files is left, and a file that a reader has open keeps its content."""
    [path, _] = write_csv([curves(point(0))], tmp_path)
    with path.open() as reader:
        write_csv([curves(point(0), point(1))], tmp_path)
        assert len(reader.read().splitlines()) == 2
    assert len(path.read_text().splitlines()) == 3
    assert sorted(file.name for file in tmp_path.iterdir()) == ["hex8_2p-elo.csv", "hex8_2p-trainings.csv"]


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_folder_that_cannot_be_written_is_a_typed_error(tmp_path: Path, name: str) -> None:
    """The message has the option, the path and the reason."""
    (tmp_path / "file").write_text("")

    with pytest.raises(SettingsError, match=r"--csv .*file.* cannot be written: (File exists|Not a directory)"):
        write_csv([curves()], tmp_path / name)


@pytest.mark.skipif(find_spec("tensorboard") is not None, reason="tensorboard is installed")
def test_without_tensorboard_the_message_says_what_to_install(tmp_path: Path) -> None:
    """And nothing is written."""
    with pytest.raises(InputError, match="pip install tensorboard"):
        write_tensorboard([curves(point(0))], tmp_path / "events")
    assert not (tmp_path / "events").exists()


def test_tensorboard_reads_our_event_files(tmp_path: Path) -> None:
    """Where it is installed: every curve once, also after it was written a second time."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for _ in range(2):
        [folder] = write_tensorboard([curves(point(0, my_figure=7.0), point(1))], tmp_path)

    events = accumulator.EventAccumulator(str(folder))
    events.Reload()
    tags = events.Tags()["tensors"]
    assert {"training/loss", "training/held_out_loss", "training/my_figure", "elo/value"} <= set(tags)
    assert [event.step for event in events.Tensors("training/loss")] == [0, 1]
    assert len(os.listdir(folder)) == 1


def test_the_command_prints_or_writes(tmp_path: Path) -> None:
    """Text for Prometheus, JSON for programs, and with --csv the names of the files."""

    async def story(world: World) -> None:
        line = Line(variant=VARIANT, workload="w", players=2, stage=Stage.COLLECTING, champion=blob("z"), generation=0)
        assert (await ask(world.store, "metrics")).text == ""
        assert "nothing was written" in (await ask(world.store, "metrics", "--csv", str(tmp_path / "none"))).text
        await world.keep(line)
        async with world.store.begin() as tx:
            await record_training(tx, trained(loss=1.5), 7.0)
        output = await ask(world.store, "metrics")
        written = await ask(world.store, "metrics", "--variant", VARIANT, "--csv", str(tmp_path / "csv"))

        assert parse(output.text)["ringrift_training_loss"] == [({"variant": VARIANT}, 1.5)]
        assert output.value[0].trainings[0].loss == 1.5
        assert f"written: {tmp_path}/csv/hex8_2p-trainings.csv" in written.text
        assert COMMAND.json_help is not None

    play(tmp_path, story)
