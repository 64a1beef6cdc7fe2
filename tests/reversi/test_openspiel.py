"""square8_2p is Othello: OpenSpiel's own plays the same games, position by position."""

import os
from importlib.util import find_spec
from random import Random

import numpy as np
import pytest

from ringrift_reversi import engine
from ringrift_reversi.topology import start, topology

GAMES = 300
PASS = 64


def test_random_games_equal_those_of_openspiel() -> None:
    """In 300 random games every position has the same discs, mover and legal moves, and the end the same winner."""
    if find_spec("pyspiel") is None:
        why = "OpenSpiel is not installed: make setup"
        pytest.fail(why) if os.environ.get("CI") == "true" else pytest.skip(why)
    import pyspiel  # not at the top: it need not be installed everywhere

    othello, random = pyspiel.load_game("othello"), Random(0)
    rays, marks, shares = topology("square8").rays, np.empty(64, np.uint8), np.empty(2, np.float32)
    positions = 0
    for _ in range(GAMES):
        theirs, ours, seat = othello.new_initial_state(), start("square8", 2), 0
        while seat >= 0:
            if theirs.legal_actions() == [PASS]:
                theirs.apply_action(PASS)
            engine.legal(ours, seat, rays, marks)
            moves = np.flatnonzero(marks).tolist()
            assert theirs.current_player() == seat
            assert theirs.legal_actions() == moves
            assert discs(theirs) == ours.tolist()
            cell = random.choice(moves)
            theirs.apply_action(cell)
            engine.apply(ours, seat, cell, rays)
            seat, positions = engine.next_mover(ours, seat, 2, rays), positions + 1
        engine.outcome(ours, 2, shares)
        assert theirs.is_terminal()
        assert discs(theirs) == ours.tolist()
        assert [(won + 1) / 2 for won in theirs.returns()] == shares.tolist()
    assert positions > GAMES * 55


def discs(state: object) -> list[int]:
    """The discs as OpenSpiel prints them: x is black and moves first, o is white."""
    rows = [row.split()[1:9] for row in str(state).splitlines() if row[:1].isdigit()]
    return ["-xo".index(disc) for row in rows for disc in row]
