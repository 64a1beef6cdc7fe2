"""A package for a game of one's own: written whole, or refused with nothing written."""

import ast
import json
from pathlib import Path

import pytest

from ringrift.cli.main import call, main

FILES = {"README.md", "nim.py", "pyproject.toml", "test_nim.py"}


def test_the_files_are_written_with_the_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No place for the name is left open, and the next commands are printed."""
    code = call(["new-workload", "nim", "--folder", str(tmp_path / "deep" / "nim")])

    texts = {path.name: path.read_text() for path in (tmp_path / "deep" / "nim").iterdir()}
    output = capsys.readouterr().out
    assert code == 0
    assert set(texts) == FILES
    assert not any("NAME" in text or "CLASS" in text for text in texts.values())
    assert 'nim = "nim:NimGame"' in texts["pyproject.toml"]
    assert "class NimGame(" in texts["nim.py"]
    assert "python -m ringrift.workload.conformance nim nim_2p" in output
    assert "ringrift play nim_2p" in output


@pytest.mark.parametrize("name", ["scratch", "mapping", "board", "path"])
def test_its_class_has_no_name_that_its_modules_import(name: str, tmp_path: Path) -> None:
    """Such as Scratch or Board: every name at the top of a module is bound once."""
    call(["new-workload", name, "--folder", str(tmp_path / "new")])

    for file in (tmp_path / "new").glob("*.py"):
        top = ast.parse(file.read_text()).body
        imported = [alias.name for node in top if isinstance(node, ast.ImportFrom) for alias in node.names]
        names = imported + [node.name for node in top if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        assert f"{name.capitalize()}Game" in names
        assert len(names) == len(set(names))


def test_the_default_folder_has_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside where the person is."""
    monkeypatch.chdir(tmp_path)

    call(["new-workload", "nim"])

    assert {path.name for path in (tmp_path / "nim").iterdir()} == FILES


def test_json_names_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For programs."""
    call(["new-workload", "nim", "--folder", str(tmp_path / "x"), "--json"])

    assert set(json.loads(capsys.readouterr().out)["files"]) == FILES


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *(
            (name, "write lower-case letters and digits")
            for name in ("Nim", "nim-2", "x_y", "2nim", "", "n" * 32, "../x")
        ),
        *((name, "there is a Python module of that name") for name in ("class", "json", "ringrift", "pytest")),
        *((name, "there is a workload of that name") for name in ("reversi", "fake")),
    ],
)
def test_a_bad_name_is_refused(name: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It must name a new module, a new workload and a variant; nothing is written."""
    with pytest.raises(SystemExit) as ended:
        main(["new-workload", name, "--folder", str(tmp_path / "new")])

    assert ended.value.code == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("folder", ["there", "file", "file/below"])
def test_a_folder_that_is_not_new_is_refused(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is in it stays as it is."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "nim.py").write_text("mine")
    (tmp_path / "file").write_text("mine")

    with pytest.raises(SystemExit) as ended:
        main(["new-workload", "nim", "--folder", str(tmp_path / folder)])

    assert ended.value.code == 2
    assert "--folder" in capsys.readouterr().err
    assert (tmp_path / "there" / "nim.py").read_text() == (tmp_path / "file").read_text() == "mine"
    assert len(list(tmp_path.rglob("*"))) == 3
