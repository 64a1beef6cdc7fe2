"""The examples of own games: little glue, they conform; dots learns, and the loop trains it beside another game."""

import importlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from documents.test_my_game import tool
from e2e.processes import Home
from e2e.scratch import ROOT
from ringrift.workload.api import JobResult, JobSpec, Scalar
from ringrift.workload.conformance import check
from ringrift.workload.scratch import Scratch

EXAMPLES = ROOT / "examples"
PLIES_MAX = 2 * 8 * (6 + 5) + 1  # of Breakthrough: every piece goes to the row before the last, then one wins
ROUNDS, GAMES, BLOCKS = 4, 128, 32
SECONDS_MAX = 110.0


def imported(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The workload of an example, imported from its folder."""
    monkeypatch.syspath_prepend(str(EXAMPLES / name))
    return getattr(importlib.import_module(f"ringrift_{name}.workload"), name.capitalize())()


@pytest.fixture
def dots(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The workload of the first example."""
    return imported("dots", monkeypatch)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every process that the test starts has the example as if it were installed."""
    environ = tool("as_installed").environment(EXAMPLES / "dots", tmp_path / "site", os.environ)
    monkeypatch.setenv("PYTHONPATH", environ["PYTHONPATH"])


@pytest.fixture
def beside(played: Home, installed: None) -> Home:
    """A home that has trained another game before."""
    return played


@pytest.mark.parametrize(("name", "other"), [("dots", "drawing.py"), ("breakthrough", "players.py")])
def test_the_glue_is_short(name: str, other: str) -> None:
    """At most 50 lines are neither rules nor network nor search nor *other*; the script counts them."""
    counted = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "count_glue.py"), str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        timeout=30,
    )
    glue, others = tool("count_glue").count(EXAMPLES / name)

    assert counted.returncode == 0, counted.stdout
    assert set(glue) == {f"ringrift_{name}/__init__.py", f"ringrift_{name}/workload.py"}
    assert {Path(name).name for name in others} == {"rules.py", other, "network.py", "search.py"}
    assert 0 < sum(glue.values()) <= 50


def test_the_counting_script_counts(tmp_path: Path) -> None:
    """Blank lines, comments and docstrings do not count, other strings do; more than the limit is an error."""
    lines = tool("count_glue").code_lines
    (tmp_path / "README.md").write_text("Not glue: `rules.py`\n")
    (tmp_path / "rules.py").write_text("x = 1\n" * 99)
    (tmp_path / "glue.py").write_text("x = 1\n" * 51)
    command = [sys.executable, str(ROOT / "tools" / "count_glue.py"), str(tmp_path)]

    assert lines('"""Doc.\n\nMore."""\n\n# why\nx = 1  # what\ny = (\n    2\n)\n') == 4
    assert lines('def f():\n    """Doc."""\n    return """a\n\nb"""\n') == 4
    assert subprocess.run(command, capture_output=True, timeout=30).returncode == 1


@pytest.mark.parametrize(("variant", "plies"), [("dots3_2p", 24), ("dots4_2p", 40)])
def test_a_game_has_as_many_plies_as_lines(dots: Any, variant: str, plies: int) -> None:
    """Whatever is played; every box has an owner at the end, and every line can be typed as it is written."""
    board, random, count = dots.board(variant), Random(1), 0
    while not board.is_over:
        assert all(board.parse(board.text(line)) == line for line in board.legal())
        board, count = board.play(random.choice(board.legal())), count + 1

    assert count == plies
    assert sum(board.scores()) == len(board.owners)


def test_whoever_closes_a_box_moves_again(dots: Any) -> None:
    """The fourth side of a box gives a point and another move; a line can be drawn once."""
    board = dots.board("dots4_2p")
    for text in ("a1 b1", "b1-b2", "B2a2"):
        board = board.play(board.parse(text))
    assert (board.seat, board.scores()) == (1, (0, 0))

    board = board.play(board.parse("a1a2"))

    assert (board.seat, board.scores()) == (1, (0, 1))
    assert "| O |" in board.render()
    for text in ("a1 b1", "a1 c1", "a1 b2", "z9 z8", "hello"):
        with pytest.raises(ValueError, match="is not a free line"):
            board.parse(text)


def test_breakthrough_has_a_winner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is played, and soon enough; every move can be typed as it is written."""
    workload = imported("breakthrough", monkeypatch)
    for seed in range(5):
        board, random, count = workload.board("breakthrough8_2p"), Random(seed), 0
        while not board.is_over:
            assert all(board.parse(board.text(action).upper()) == action for action in board.legal())
            board, count = board.play(random.choice(board.legal())), count + 1

        assert count <= PLIES_MAX
        assert board.scores()[1 - board.seat] == 1.0
        assert sum(board.scores()) == 1.0
        assert board.legal() == []


@pytest.mark.parametrize(
    ("name", "variant"), [("dots", "dots3_2p"), ("dots", "dots4_2p"), ("breakthrough", "breakthrough8_2p")]
)
def test_the_example_conforms(name: str, variant: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The suite for workloads reports no defect."""
    assert check(imported(name, monkeypatch), variant, tmp_path) == []


def test_the_example_learns(dots: Any, tmp_path: Path) -> None:
    """After some rounds of self-play and training it beats generation 0 and the random player by far."""

    def run(stage: str, seed: int, params: Mapping[str, Scalar], **inputs: str) -> JobResult:
        blobs = {role: (blob,) for role, blob in inputs.items()}
        result: JobResult = dots.run(JobSpec("test", stage, "dots4_2p", seed, blobs, params), Scratch(tmp_path))
        return result

    def score(candidate: str, opponent: Mapping[str, Scalar], **champion: str) -> float:
        blocks = run("match", 1, {"first": 0, "count": BLOCKS, **opponent}, candidate=candidate, **champion).blocks
        return sum(sum(block.scores) for block in blocks) / (2 * len(blocks))

    model = first = run("train", 0, {}).outputs[0].blob
    for number in range(ROUNDS):
        games = run("play", number, {"games": GAMES}, model=model).outputs[0].blob
        samples = run("export", number, {}, batches=games).outputs[0].blob
        model = run("train", number, {"epochs": 4}, samples=samples, parent=model).outputs[0].blob

    assert score(model, {}, champion=first) > 0.65
    assert score(model, {"champion": "random"}) > 0.9


def test_the_loop_trains_it_in_one_store_with_another_game(beside: Home) -> None:
    """It is promoted on evidence; elo, lineage, play and report work for it; the other line is as it was."""
    before = beside.lines()["hex8_2p"]

    code, output = beside.run(
        "run", "--iterations", "1", "--minutes", "0", "--variants", "dots3_2p", seconds=SECONDS_MAX
    )

    lines = beside.lines()
    champion = lines["dots3_2p"].champion
    assert code == 0, output[-3000:]
    assert (lines["dots3_2p"].workload, lines["dots3_2p"].iteration) == ("dots", 1)
    assert lines["hex8_2p"] == before
    assert champion is not None
    for words in (["elo"], ["status"], ["why", "dots3_2p"]):
        code, output = beside.run(*words)
        assert "dots3_2p" in output, f"{words}: {output}"
    code, output = beside.run("lineage", "dots3_2p")
    assert code == 0, output
    assert champion[:10] in output
    assert "dots3_2p" in (beside.path / "report.html").read_text()
    playing = beside.start("play", "dots3_2p", "--seat", "2", typed=True)
    output, _ = playing.communicate("hint\nquit\n", timeout=SECONDS_MAX)
    assert playing.returncode == 0, output
    assert f"dots3_2p against champion {champion[:10]}; you have seat 2 of 2." in output
    assert "seat 1 plays " in output
    assert "it would play " in output
    assert beside.orphans() == []
