"""``ringrift play``: opponents by name, seeds, refusals, and every way to leave."""

import os
import re
import signal
from pathlib import Path

import pytest

from documents.test_my_game import tool
from e2e.processes import Home
from e2e.scratch import ROOT

SECONDS_MAX = 60.0
VARIANT = "dots3_2p"


@pytest.fixture
def dots(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home without a store, where the example game is as if installed."""
    environ = tool("as_installed").environment(ROOT / "examples" / "dots", tmp_path / "site", os.environ)
    monkeypatch.setenv("PYTHONPATH", environ["PYTHONPATH"])
    return home


def play(home: Home, *words: str, typed: str = "") -> tuple[int, str]:
    """Exit code and output of a game in which *typed* is typed."""
    process = home.start("play", *words, typed=True)
    output, _ = process.communicate(typed, timeout=SECONDS_MAX)
    return process.returncode, output


def test_a_seed_repeats_the_opponent(dots: Home) -> None:
    """The same seed and the same moves give the same game; without one, or with another, the opponent differs."""
    moves = "".join(f"{a}{row} {b}{row}\n" for row in "1234" for a, b in ("ab", "bc", "cd"))

    games = [play(dots, VARIANT, "--model", "random", "--seed", seed, typed=moves)[1] for seed in ("3", "3", "4")]

    first, again, other = (re.findall(r"seat 2 plays .*", game) for game in games)
    assert len(first) > 3
    assert first == again
    assert first != other


def test_interrupting_leaves_cleanly(dots: Home) -> None:
    """Ctrl-C at the prompt ends the game with exit code 0, a line and no traceback; so does the end of the input."""
    process = dots.start("play", VARIANT, "--model", "random", typed=True)
    assert process.stdout is not None
    text = ""
    while "(you) >" not in text:
        character = process.stdout.read(1)
        assert character, text
        text += character
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=SECONDS_MAX)
    code, ended = play(dots, VARIANT, "--model", "greedy")

    assert (process.returncode, code) == (0, 0), output
    assert output.strip() == "interrupted"
    assert ended.endswith("end of input\n")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([VARIANT, "--model", "stockfish"], 2, "dots has no player 'stockfish'; its baselines are random, greedy"),
        ([VARIANT, "--seat", "3"], 2, "--seat 3 is not valid: must lie between 1 and 2"),
        ([VARIANT, "--sims", "0"], 2, "--sims 0 is not valid"),
        ([VARIANT], 1, "no store at "),
        ([VARIANT, "--model", "deadbeef"], 1, "no store at "),
        (["dots9_2p"], 2, "unknown variant 'dots9_2p'; known: dots3_2p, dots4_2p"),
        (["dots"], 2, "variant 'dots' is not valid: write it as board_Np"),
    ],
)
def test_what_cannot_be_played_is_refused(words: list[str], code: int, message: str, dots: Home) -> None:
    """With a sentence and an exit code, before anything is asked of the person."""
    exit_code, output = play(dots, *words)

    assert exit_code == code, output
    assert message in output
    assert "Traceback" not in output
    assert "(you)" not in output


def test_a_game_that_cannot_be_drawn_is_refused(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the workload and what it would have to declare."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "pyproject.toml").write_text(
        '[project]\nname = "blind"\nversion = "1"\n[project.entry-points."ringrift.workloads"]\nblind = "blind:Blind"\n'
    )
    (package / "blind.py").write_text(
        "from ringrift.workload.api import VariantSpec\nfrom ringrift.workload.game import GameWorkload\n"
        'class Blind(GameWorkload):\n    name, version = "blind", "1"\n'
        '    specs = (VariantSpec("blind_2p", 2, 2, 1.0),)\n'
    )
    environ = tool("as_installed").environment(package, tmp_path / "site", os.environ)
    monkeypatch.setenv("PYTHONPATH", environ["PYTHONPATH"])

    code, output = play(home, "blind_2p")

    assert code == 2, output
    assert "blind_2p cannot be played here: blind declares neither can_render nor can_parse" in output


def test_a_champion_of_another_workload_is_no_opponent(played: Home) -> None:
    """A line of the fake game is not played with the rules of another game that offers the same variant."""
    code, output = play(played, "hex8_2p")

    assert code == 1, output
    assert "the champion of hex8_2p is a model of fake, not of reversi" in output
