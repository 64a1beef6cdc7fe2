"""What a run does unless it is told otherwise."""

from pathlib import Path

import pytest

from ringrift.cli import preset
from ringrift.cli.environment import effective
from ringrift.cli.preset import REVERSI, choose
from ringrift.pipeline.line import Line

BEGUN = Line(variant="hex8_2p", workload="fake", players=2)


def test_the_real_workload_runs_if_it_can(tmp_path: Path) -> None:
    """With everything installed and a new store, without a word about it."""
    found = effective({"RINGRIFT_HOME": str(tmp_path)})

    assert choose(found, (), ()) == preset.Choice(workload="reversi")


def test_without_what_it_needs_another_stands_in(tmp_path: Path) -> None:
    """And the line says what is missing and what installs it."""
    choice = choose(effective({"RINGRIFT_HOME": str(tmp_path)}), (), ("torch",))

    assert choice.workload == "fake"
    assert "torch not installed" in choice.note
    assert "pip install 'ringrift[train]'" in choice.note


def test_a_store_goes_on_with_what_it_was_begun_with(tmp_path: Path) -> None:
    """Its models are of no use to another workload; the line says so."""
    found = effective({"RINGRIFT_HOME": str(tmp_path)})

    begun = choose(found, (BEGUN,), ())

    assert begun.workload == "fake"
    assert "begun with fake" in begun.note


@pytest.mark.parametrize("known", [(), (BEGUN,)])
def test_who_names_a_workload_gets_it(tmp_path: Path, known: tuple[Line, ...]) -> None:
    """Whatever is installed and whatever the store was begun with."""
    found = effective({"RINGRIFT_HOME": str(tmp_path)}, given={"work.workload": "mine"})

    assert choose(found, known, ()) == preset.Choice(workload="mine")


@pytest.mark.parametrize(
    ("cores", "nodes", "slots"), [(2, 2, 1), (16, 2, 8), (1, 2, 1), (4, 3, 1), (8, 64, 1), (2, 1, 2)]
)
def test_nodes_share_the_cores(cores: int, nodes: int, slots: int) -> None:
    """As many workers as cores, and at least one on each node."""
    assert preset.of("reversi", nodes, cores)["work.slots"] == slots


def test_a_preset_is_weaker_than_every_setting(tmp_path: Path) -> None:
    """It fills in what nobody has set, and all its numbers are allowed."""
    (tmp_path / "ringrift.toml").write_text("[policy]\ngames_per_batch = 20\n")

    found = effective({"RINGRIFT_HOME": str(tmp_path)}, preset=REVERSI, given={"policy.gate.elo_1": "50"}).settings

    assert (found.policy.games_per_batch, found.policy.gate.elo_1) == (20, 50.0)
    assert found.policy.games_per_export == REVERSI["policy.games_per_export"]


def test_others_get_no_numbers() -> None:
    """The preset is the real workload's own."""
    assert preset.of("fake", 3, 2) == {"work.workload": "fake"}
