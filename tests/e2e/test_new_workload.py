"""``ringrift new-workload``: what it writes conforms, learns, is in good form, and can be trained and played."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from documents.test_my_game import tool
from e2e.processes import Home

SECONDS_MAX = 110.0
_ALONE = ("--isolated", "--line-length", "120")


@pytest.fixture
def package(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package as the command writes it, on the path of every process as if it were installed."""
    folder = tmp_path / "package"
    code, output = home.run("new-workload", "nim", "--folder", str(folder))
    assert code == 0, output
    environ = tool("as_installed").environment(folder, tmp_path / "site", os.environ)
    monkeypatch.setenv("PYTHONPATH", environ["PYTHONPATH"])
    return folder


def run(folder: Path, *words: str) -> tuple[int, str]:
    """Run Python with *words* in *folder*; exit code and output."""
    ended = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, env=os.environ
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_its_own_test_passes(package: Path) -> None:
    """It conforms and it learns, by the test that was written with it."""
    code, output = run(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_nim.py")

    assert code == 0, output
    assert "2 passed" in output


def test_it_is_in_good_form(package: Path) -> None:
    """Formatted, without a finding of the linter, and typed."""
    formatted = run(package, "-m", "ruff", "format", "--check", *_ALONE, "nim.py", "test_nim.py")
    checked = run(package, "-m", "ruff", "check", "--select", "E,F,I,B,UP,RUF", *_ALONE, "nim.py", "test_nim.py")
    typed = run(package, "-m", "mypy", "--strict", "--cache-dir", str(package / "cache"), "nim.py")

    assert formatted[0] == 0, formatted[1]
    assert checked[0] == 0, checked[1]
    assert typed[0] == 0, typed[1]


def test_it_is_trained_and_played(package: Path, home: Home) -> None:
    """The printed commands work: the loop promotes a model of it, and a person plays against the champion."""
    code, output = home.run("run", "--iterations", "1", "--minutes", "0", "--variants", "nim_2p", seconds=SECONDS_MAX)
    assert code == 0, output[-3000:]

    playing = home.start("play", "nim_2p", typed=True)
    output, _ = playing.communicate("a0\nc9\nquit\n", timeout=SECONDS_MAX)

    assert playing.returncode == 0, output
    assert home.lines()["nim_2p"].workload == "nim"
    assert "nim_2p against champion " in output
    assert "'a0' is not a move: type a heap and how many stones to take, such as b2" in output
    assert "seat 2 plays " in output
    assert home.orphans() == []
