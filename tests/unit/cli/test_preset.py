"""The workload of a run, its nodes and its settings, unless a person decides otherwise."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ringrift.cli import run_plan
from ringrift.cli.run_plan import choose_workload
from ringrift.environment import EffectiveSettings, read_settings
from ringrift.kernel.errors import UnknownName
from ringrift.pipeline.line import Line
from ringrift.workload.api import Preset
from ringrift.workload.fake import Fake
from ringrift.workload.registry import Registry

BEGUN = Line(variant="hex8_2p", workload="fake", players=2)


class Real(Fake):
    """A workload with a preset that needs a module."""

    name = "real"
    install_command = "pip install it"
    requirements: Sequence[str] = ("json",)

    def preset(self, *, cores: int, nodes: int | None) -> Preset:
        """Two nodes that share the cores."""
        settings = {"work.slots": max(cores // (nodes or 2), 1), "policy.games_per_batch": 256}
        return Preset(settings=settings, nodes=nodes or 2, minutes=10.0)


class Unusable(Real):
    """The same, with a module that is not installed."""

    requirements = ("no_such_module",)


def registry(real: type[Fake] = Real) -> Registry:
    """A registry with the fake and one real workload."""
    return Registry(makers={"real": real, "fake": Fake})


@pytest.fixture
def effective(tmp_path: Path) -> EffectiveSettings:
    """The default settings."""
    return read_settings({"RINGRIFT_HOME": str(tmp_path)})


def test_the_real_workload_runs_if_it_can(effective: EffectiveSettings) -> None:
    """With everything installed and a new store, without a note."""
    chosen = choose_workload(effective, (), registry())

    assert (chosen.workload.name, chosen.note) == ("real", "")
    assert chosen.requirements() == ("json",)


def test_without_its_requirements_the_fake_runs(effective: EffectiveSettings) -> None:
    """And the note says what is missing and what installs it."""
    chosen = choose_workload(effective, (), registry(Unusable))

    assert chosen.workload.name == "fake"
    assert "no_such_module not installed" in chosen.note
    assert "pip install it" in chosen.note


def test_a_store_goes_on_with_the_workload_it_was_begun_with(effective: EffectiveSettings) -> None:
    """Its models are of no use to another workload; the note says so."""
    chosen = choose_workload(effective, (BEGUN,), registry())

    assert chosen.workload.name == "fake"
    assert "begun with fake" in chosen.note


@pytest.mark.parametrize("lines", [(), (BEGUN,)])
def test_a_workload_in_the_settings_wins(tmp_path: Path, lines: tuple[Line, ...]) -> None:
    """Whatever is installed and whatever the store was begun with; an unknown one is refused."""
    home = {"RINGRIFT_HOME": str(tmp_path)}

    assert (
        choose_workload(read_settings(home, overrides={"work.workload": "real"}), lines, registry()).workload.name
        == "real"
    )
    with pytest.raises(UnknownName, match="unknown workload 'mine'; known: fake, real"):
        choose_workload(read_settings(home, overrides={"work.workload": "mine"}), lines, registry())


def test_a_preset_is_weaker_than_every_setting(tmp_path: Path, effective: EffectiveSettings) -> None:
    """It fills in what nothing else sets."""
    (tmp_path / "ringrift.toml").write_text("[policy]\ngames_per_batch = 20\n")
    presets = choose_workload(effective, (), registry()).settings(nodes=2)

    settings = read_settings({"RINGRIFT_HOME": str(tmp_path)}, preset=presets).settings

    assert settings.policy.games_per_batch == 20
    assert settings.work.workload == "real"
    assert settings.work.slots == max(run_plan.cores() // 2, 1)


def test_a_workload_without_a_preset_has_defaults(effective: EffectiveSettings) -> None:
    """Three nodes, no time limit, no settings but its name."""
    chosen = choose_workload(effective, (BEGUN,), registry())

    assert chosen.settings(nodes=3) == {"work.workload": "fake"}
    assert (chosen.preset().nodes, chosen.preset().minutes) == (3, 0.0)
    assert run_plan._measure_params(chosen.workload) == {}
