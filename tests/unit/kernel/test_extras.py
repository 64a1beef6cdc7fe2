"""A missing extra says which line installs it, and nothing else is mistaken for one."""

import sys
import tomllib
from pathlib import Path

import pytest

from ringrift.kernel.errors import MissingExtra
from ringrift.kernel.extras import EXTRAS, need

ROOT = Path(__file__).resolve().parents[3]


def test_an_installed_module_is_returned() -> None:
    """What is there is imported."""
    assert need("json", "train").__name__ == "json"


def test_a_missing_module_says_how_to_install_it() -> None:
    """The error is the line that a person types next."""
    with pytest.raises(MissingExtra) as missing:
        need("no_such_module_of_anybody", "postgres")

    assert (missing.value.module, missing.value.extra) == ("no_such_module_of_anybody", "postgres")
    text = "no_such_module_of_anybody is not installed: run  pip install 'ringrift[postgres]'"
    assert str(missing.value) == text


def test_a_missing_package_of_a_dotted_module_is_a_missing_extra() -> None:
    """For ``a.b`` the package ``a`` may be what is absent."""
    with pytest.raises(MissingExtra, match=r"ringrift\[otel\]"):
        need("no_such_package_of_anybody.sdk", "otel")


def test_a_module_that_lacks_something_itself_is_not_a_missing_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken module shows its own error: installing it again would not help."""
    (tmp_path / "broken_inside.py").write_text("import no_such_module_of_anybody\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ModuleNotFoundError) as absent:
        need("broken_inside", "train")

    assert absent.value.name == "no_such_module_of_anybody"
    assert "broken_inside" not in sys.modules


def test_every_extra_is_one_that_the_package_declares() -> None:
    """The line that is told to people works: pyproject has that extra."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    assert set(EXTRAS) <= set(declared)
