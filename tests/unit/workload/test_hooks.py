"""Optional hooks: a workload may offer a preset, requirements, measured params and a board."""

import json
from collections.abc import Mapping

import pytest

from ringrift.kernel.errors import UnknownName
from ringrift.workload import measure
from ringrift.workload.api import (
    HasBoard,
    HasMeasuredParams,
    HasPreset,
    Preset,
    Scalar,
    missing_requirements,
)
from ringrift.workload.fake import Fake
from ringrift.workload.presets import checked_preset


class Chess(Fake):
    """A workload with every hook but a board."""

    requirements = ("json", "no_such_module", "math", "no_such_package")
    install_command = "pip install chess"

    def preset(self, *, cores: int, nodes: int | None) -> Preset:
        return Preset(settings={"work.slots": cores}, nodes=nodes or 5, minutes=2.0)

    def measured_params(self) -> Mapping[str, Scalar]:
        return {"threads": 2}


def test_a_workload_without_hooks_gets_the_defaults() -> None:
    """Three nodes or as many as requested, no settings, no time limit, nothing to install."""
    fake = Fake()

    assert checked_preset(fake, cores=8) == Preset(settings={}, nodes=3, minutes=0.0, baselines={})
    assert checked_preset(fake, cores=8, nodes=1) == Preset(nodes=1)
    assert missing_requirements(fake) == ()
    assert not isinstance(fake, HasPreset | HasMeasuredParams | HasBoard)


def test_a_workload_with_hooks_decides_itself() -> None:
    """Cores and nodes reach it; None leaves the number of nodes to the workload."""
    chess = Chess()

    assert checked_preset(chess, cores=8) == Preset(settings={"work.slots": 8}, nodes=5, minutes=2.0)
    assert checked_preset(chess, cores=8, nodes=1).nodes == 1
    assert isinstance(chess, HasMeasuredParams)


def test_requirements_that_are_not_installed_are_listed() -> None:
    """They are listed by their import names, in the workload's order; installed ones are not."""
    assert missing_requirements(Chess()) == ("no_such_module", "no_such_package")


def test_measured_params_are_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """An empty object for a workload that measures none."""
    assert measure.main(["fake"]) == 0

    assert json.loads(capsys.readouterr().out) == {}


def test_measuring_an_unknown_workload_is_an_error() -> None:
    """The error is UnknownName, with the installed workloads."""
    with pytest.raises(UnknownName, match=r"unknown workload 'chess'; known: .*fake"):
        measure.main(["chess"])
