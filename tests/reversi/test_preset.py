"""The preset of reversi for a local cluster."""

import subprocess
import sys
from pathlib import Path

import pytest

from ringrift.environment import read_settings
from ringrift.workload.api import (
    HasBoard,
    HasMeasuredParams,
    HasPreset,
    HasRequirements,
    missing_requirements,
)
from ringrift.workload.presets import checked_preset
from ringrift_reversi.workload import Reversi


def test_reversi_offers_every_hook() -> None:
    """A preset, requirements, measured params and a board; here everything it needs is installed."""
    reversi = Reversi()

    for hook in (HasPreset, HasRequirements, HasMeasuredParams, HasBoard):
        assert isinstance(reversi, hook), hook
    assert missing_requirements(reversi) == ()


@pytest.mark.parametrize(
    ("cores", "nodes", "slots"), [(2, 2, 1), (16, 2, 8), (1, 2, 1), (4, 3, 1), (8, 64, 1), (2, 1, 2)]
)
def test_nodes_share_the_cores(cores: int, nodes: int, slots: int) -> None:
    """There are as many workers as cores, and at least one on each node."""
    preset = checked_preset(Reversi(), cores=cores, nodes=nodes)

    assert preset.settings["work.slots"] == slots
    assert preset.nodes == nodes


def test_two_nodes_run_for_ten_minutes_by_default() -> None:
    """The defaults apply where nothing else is requested."""
    preset = checked_preset(Reversi(), cores=8)

    assert (preset.nodes, preset.minutes, preset.settings["work.slots"]) == (2, 10.0, 4)
    assert preset.baselines == {"square8_2p": ("uct:200",)}


def test_the_preset_is_weaker_than_every_setting(tmp_path: Path) -> None:
    """It fills in what is not set, and all its numbers are allowed."""
    (tmp_path / "ringrift.toml").write_text("[policy]\ngames_per_batch = 20\n")
    preset = checked_preset(Reversi(), cores=2).settings

    policy = read_settings(
        {"RINGRIFT_HOME": str(tmp_path)}, preset=preset, overrides={"policy.gate.elo_1": "50"}
    ).settings.policy

    assert (policy.games_per_batch, policy.gate.elo_1) == (20, 50.0)
    assert policy.games_per_export == preset["policy.games_per_export"]


def test_reading_the_preset_imports_nothing_heavy() -> None:
    """The control process reads it, and never loads numpy, numba, torch or safetensors."""
    program = (
        "import sys; from ringrift.workload.api import missing_requirements;"
        "from ringrift_reversi.workload import Reversi;"
        "Reversi().preset(cores=2, nodes=None); missing_requirements(Reversi());"
        "print(sorted({'numpy', 'numba', 'torch', 'safetensors', 'msgspec', 'apsw'} & set(sys.modules)))"
    )

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ended.stdout.strip() == "[]"
