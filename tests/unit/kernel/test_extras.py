"""The error for a missing extra has the command that installs it, and no other error is mistaken for one."""

import sys
import tomllib
from pathlib import Path

import pytest

from ringrift.kernel.errors import MissingExtra
from ringrift.kernel.extras import EXTRAS, require_module

ROOT = Path(__file__).resolve().parents[3]


def test_an_installed_module_is_returned() -> None:
    """A module that is present is imported."""
    assert require_module("json", "train").__name__ == "json"


def test_a_missing_module_shows_how_to_install_it() -> None:
    """The error is the command that a person types next."""
    with pytest.raises(MissingExtra) as missing:
        require_module("no_such_module_of_anybody", "train")

    assert (missing.value.module, missing.value.extra) == ("no_such_module_of_anybody", "train")
    text = "no_such_module_of_anybody is not installed: run  pip install 'ringrift[train]'"
    assert str(missing.value) == text


def test_a_missing_package_of_a_dotted_module_is_a_missing_extra() -> None:
    """For ``a.b`` the package ``a`` may be what is absent."""
    with pytest.raises(MissingExtra, match=r"ringrift\[otel\]"):
        require_module("no_such_package_of_anybody.sdk", "otel")


def test_a_module_that_lacks_something_itself_is_not_a_missing_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken module shows its own error: installing it again would not help."""
    (tmp_path / "broken_inside.py").write_text("import no_such_module_of_anybody\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ModuleNotFoundError) as absent:
        require_module("broken_inside", "train")

    assert absent.value.name == "no_such_module_of_anybody"
    assert "broken_inside" not in sys.modules


def test_every_extra_is_declared_by_the_package() -> None:
    """The command shown to people works: pyproject has that extra."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    assert set(EXTRAS) <= set(declared)
