"""The compiled engine plays by the reference: every position of random games on all twelve variants."""

from random import Random

import numpy as np
import pytest

from reversi import reference
from ringrift_reversi import engine
from ringrift_reversi.topology import VARIANTS, start, variant

GAMES = {"square8": 12, "hex8": 12, "square19": 1, "hexagonal": 1}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_engine_equals_the_reference(name: str) -> None:
    """Legal moves, flips, the board after them, the next seat to move and the outcome agree all the way to the end."""
    board, _ = VARIANTS[name]
    for seed in range(GAMES[board]):
        play_both(name, Random(f"{name} {seed}"))


def play_both(name: str, random: Random) -> None:
    """Play one random game in both, and compare all along."""
    topology, players = variant(name)
    fast = start(topology.name, players)
    slow, rays = fast.tolist(), topology.rays.tolist()
    marks, shares = np.empty(topology.cells, np.uint8), np.empty(players, np.float32)
    seat = plies = 0
    while seat >= 0:
        moves = reference.legal(slow, seat, rays)
        assert engine.legal(fast, seat, topology.rays, marks) == len(moves)
        assert np.flatnonzero(marks).tolist() == moves
        cell = random.choice(moves)
        assert engine.apply(fast, seat, cell, topology.rays) == reference.apply(slow, seat, cell, rays)
        assert fast.tolist() == slow
        following = reference.next_mover(slow, seat, players, rays)
        assert engine.next_mover(fast, seat, players, topology.rays) == following
        engine.outcome(fast, players, shares)
        assert shares.tolist() == np.float32(reference.outcome(slow, players)).tolist()
        seat, plies = following, plies + 1
    assert plies <= topology.cells


def line(text: str) -> tuple[list[int], list[list[list[int]]]]:
    """A board that is one row: its discs, and each cell's rays to the right and to the left."""
    cells = [0 if disc == "." else int(disc) for disc in text]
    return cells, [[[*range(at + 1, len(cells)), -1], [*range(at - 1, -1, -1), -1]] for at in range(len(cells))]


@pytest.mark.parametrize(
    ("before", "player", "cell", "after"),
    [
        (".21..", 0, 0, "111.."),
        (".2231", 0, 0, "11111"),
        ("12.21", 0, 2, "11111"),
        ("12.3.", 0, 2, "1113."),
        (".22..", 0, 0, ".22.."),
        (".2.1.", 0, 0, ".2.1."),
        (".11..", 0, 0, ".11.."),
        ("21...", 0, 0, "21..."),
    ],
)
def test_enclosed_discs_are_flipped(before: str, player: int, cell: int, after: str) -> None:
    """Unbroken lines of others' discs, of any colour, in both directions; else nothing changes."""
    board, rays = line(before)

    flipped = reference.apply(board, player, cell, rays)

    assert "".join(".1234"[disc] for disc in board) == after
    assert flipped == max(0, after.count("1") - before.count("1") - 1)


def test_a_player_that_cannot_move_is_skipped() -> None:
    """The turn goes to the next player that can move, back to the same one, or the game ends."""
    board, rays = line("12.3.")

    assert reference.next_mover(board, 0, 3, rays) == 0
    assert reference.next_mover(line("1.23.")[0], 0, 3, rays) == 1
    assert reference.next_mover(line("1.2.3")[0], 0, 3, rays) == -1


@pytest.mark.parametrize(
    ("board", "shares"),
    [("11223.", [0.5, 0.5, 0.0]), ("1112.3", [1.0, 0.0, 0.0]), ("123...", [1 / 3, 1 / 3, 1 / 3])],
)
def test_tied_players_share_first_place(board: str, shares: list[float]) -> None:
    """The most discs win; players with equally many share first place evenly."""
    assert reference.outcome(line(board)[0], 3) == shares
