"""A person plays a game in the terminal."""

import io

import pytest

from ringrift.workload.api import TerminalGame
from ringrift_reversi.net import new_net, save
from ringrift_reversi.workload import Reversi

VARIANT = "square8_2p"


def play(text: str, *, seat: int = 0, opponent: str = "greedy", model: bytes | None = None) -> tuple[bool, str]:
    """Return whether the game was finished, and everything that was printed."""
    out = io.StringIO()
    game = TerminalGame(VARIANT, seat, opponent, model, sims=4, seed=7)
    return Reversi().play_in_terminal(game, io.StringIO(text), out), out.getvalue()


def test_typed_moves_are_played_and_answered() -> None:
    """By name or number, with hints, undo and help in between."""
    finished, output = play("nonsense\nhint\nundo\nd3\nundo\n19\nquit\n")

    assert not finished
    assert "square8_2p against greedy; you are X in seat 1." in output
    assert "'nonsense' is not a legal move; a cell such as d3" in output
    assert "it would play " in output
    assert "no move to take back" in output
    assert output.count("O plays ") == 2
    assert "X 2 (you)   O 2" in output


def test_end_of_input_ends_the_game() -> None:
    """The output mentions it."""
    finished, output = play("d3\n")

    assert not finished
    assert output.endswith("end of input\n")


def test_a_game_is_played_to_its_end() -> None:
    """Any legal move will do; the result is printed last."""
    finished, output = play("".join(f"{cell}\n" for _ in range(60) for cell in range(64)))

    assert finished
    assert output.rstrip().splitlines()[-1] in ("you win", "you lose", "a tie")


def test_a_model_prints_its_expectation() -> None:
    """It moves first where the person has the second seat."""
    finished, output = play("quit\n", seat=1, opponent="champion 0123", model=save(new_net(VARIANT, 1), {}))

    assert not finished
    assert "against champion 0123; you are O in seat 2." in output
    assert "% for X" in output


def test_an_unusable_opponent_is_a_value_error() -> None:
    """An unknown player, and bytes that are no model."""
    with pytest.raises(ValueError, match="unknown player 'other'; known: greedy"):
        play("", opponent="other")
    with pytest.raises(ValueError, match="safetensors"):
        play("", model=b"x")
