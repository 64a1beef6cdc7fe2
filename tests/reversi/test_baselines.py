"""Players that never train: legal, repeatable, and as strong as they should be."""

from collections.abc import Iterator

import numpy as np
import pytest

from ringrift_reversi import baselines, engine, heuristic
from ringrift_reversi.engine import Boards, Cells, Seats
from ringrift_reversi.topology import VARIANTS, start, topology, variant

PLAYERS = ("random", "greedy", "heuristic", "uct:8")


def openings(name: str, count: int, plies: int = 8) -> tuple[Boards, Seats]:
    """Return boards after so many random plies, and the seat to move."""
    board, players = variant(name)
    boards, to_move = np.tile(start(board.name, players), (count, 1)), np.zeros(count, np.int8)
    engine.playouts(boards, to_move, players, board.rays, np.arange(count, dtype=np.uint64), plies)
    return boards, to_move


def decide(player: str, boards: Boards, to_move: Seats, name: str, salt: int = 0) -> Cells:
    """The player's moves, drawn by the positions alone."""
    return baselines.choose(player, boards, to_move, baselines.position_seeds(boards, to_move, salt), variant=name)


def score(first: str, other: str, name: str, count: int) -> float:
    """Return the mean share of first place of *one* against *other* in all other seats, from every seat of every
    opening."""
    board, players = variant(name)
    boards, to_move = (np.repeat(each, players, axis=0) for each in openings(name, count))
    seats = np.tile(np.arange(players, dtype=np.int8), count)
    while (to_move >= 0).any():
        chosen = np.full(len(boards), -1, np.int16)
        for player, rows in ((first, to_move == seats), (other, (to_move >= 0) & (to_move != seats))):
            chosen[rows] = decide(player, boards[rows], to_move[rows], name)
        assert engine.apply_all(boards, to_move, chosen, players, board.rays) == -1
    shares = np.empty((len(boards), players), np.float32)
    engine.outcome_all(boards, players, shares)
    return float(shares[np.arange(len(boards)), seats].mean())


@pytest.mark.parametrize("player", PLAYERS)
@pytest.mark.parametrize("name", VARIANTS)
def test_moves_are_legal(player: str, name: str) -> None:
    """On every board and for any number of players; where a game is over, the move is -1."""
    board, _ = variant(name)
    boards, to_move = openings(name, 4, board.cells // 2)
    to_move[0] = -1
    marks = np.empty_like(boards, np.uint8)
    engine._legal_all(boards, to_move, board.rays, marks)

    chosen = decide(player, boards, to_move, name)

    assert chosen.dtype == np.int16
    assert chosen[0] == -1
    assert all(marks[row, cell] for row, cell in enumerate(chosen[1:], 1))


@pytest.mark.parametrize("player", PLAYERS)
def test_a_decision_hangs_on_its_own_row_alone(player: str) -> None:
    """The same board, seat and seed give the same move, again, alone, and in another order."""
    boards, to_move = openings("hex8_3p", 24, 15)
    seeds = np.arange(24, dtype=np.uint64)

    chosen = baselines.choose(player, boards, to_move, seeds, variant="hex8_3p")

    back = baselines.choose(player, boards[::-1], to_move[::-1], seeds[::-1], variant="hex8_3p")
    assert back[::-1].tolist() == chosen.tolist()
    for row in range(24):
        first = slice(row, row + 1)
        alone = baselines.choose(player, boards[first], to_move[first], seeds[first], variant="hex8_3p")
        assert alone.tolist() == [chosen[row]]


def test_the_moves_of_baselines_never_change() -> None:
    """Strength is measured on this scale: if these moves change, earlier numbers mean something else."""
    boards, to_move = openings("square8_2p", 6, 20)

    assert {player: decide(player, boards, to_move, "square8_2p").tolist() for player in (*PLAYERS, "uct:200")} == {
        "random": [52, 18, 46, 33, 13, 60],
        "greedy": [63, 48, 1, 34, 49, 10],
        "heuristic": [63, 61, 0, 34, 32, 17],
        "uct:8": [29, 57, 32, 29, 12, 19],
        "uct:200": [63, 60, 44, 0, 13, 40],
    }


def test_another_seed_gives_other_moves() -> None:
    """Random and search draw from the seed; positions and salts give different moves."""
    boards, to_move = openings("square8_2p", 200, 10)
    seeds = baselines.position_seeds(boards, to_move)

    assert len(set(seeds.tolist())) == len({(row.tobytes(), seat) for row, seat in zip(boards, to_move, strict=True)})
    assert not (seeds == baselines.position_seeds(boards, 1 - to_move)).any()
    assert not (seeds == baselines.position_seeds(boards, to_move, 1)).any()
    for player in ("random", "uct:8"):
        other = decide(player, boards, to_move, "square8_2p", salt=1)
        assert (decide(player, boards, to_move, "square8_2p") != other).mean() > 0.3


def test_greedy_flips_the_most() -> None:
    """No legal move flips more discs than the chosen one."""
    board = topology("square8")
    boards, to_move = openings("square8_2p", 20, 25)

    chosen = decide("greedy", boards, to_move, "square8_2p")

    for row, cell in enumerate(chosen):
        flips = [engine.apply(boards[row].copy(), int(to_move[row]), each, board.rays) for each in range(64)]
        assert flips[cell] == max(flips)


@pytest.mark.parametrize(
    ("board", "corners", "c", "x", "edges"),
    [("square8", 4, 8, 4, 16), ("square19", 4, 8, 4, 60), ("hex8", 6, 12, 6, 6), ("hexagonal", 6, 12, 6, 54)],
)
def test_cells_are_of_their_kinds(board: str, corners: int, c: int, x: int, edges: int) -> None:
    """Corners, C beside them on the border, X inside, and the rest of the border."""
    kinds = heuristic._kinds(topology(board))

    assert np.bincount(kinds.kind, minlength=5)[:4].tolist() == [corners, c, x, edges]
    assert (kinds.corner >= 0).sum() == c + x
    assert set(kinds.kind[kinds.corner[kinds.corner >= 0]].tolist()) == {0}


def test_the_heuristic_takes_a_corner() -> None:
    """It plays a corner whenever one is legal."""
    boards = np.zeros((1, 64), np.int8)
    boards[0, [1, 2, 27, 28]] = [2, 1, 1, 2]

    assert decide("heuristic", boards, np.zeros(1, np.int8), "square8_2p").tolist() == [0]


@pytest.mark.parametrize(
    ("first", "other", "name", "count", "least"),
    [
        ("greedy", "random", "square8_2p", 300, 0.55),
        ("heuristic", "greedy", "square8_2p", 200, 0.87),
        ("heuristic", "greedy", "hex8_2p", 200, 0.87),
        ("heuristic", "greedy", "hex8_3p", 100, 0.6),
        ("heuristic", "greedy", "square8_4p", 100, 0.45),
        ("uct:50", "random", "square8_2p", 30, 0.85),
        ("uct:50", "random", "hex8_3p", 40, 0.7),
        ("uct:50", "random", "hex8_4p", 40, 0.6),
        ("uct:200", "uct:50", "square8_2p", 25, 0.6),
    ],
)
def test_the_rungs_are_apart(first: str, other: str, name: str, count: int, least: float) -> None:
    """The stronger player takes clearly more than its share, on fixed openings from every seat."""
    assert score(first, other, name, count) > least


def value(board: Boards, seat: int, mover: int) -> float:
    """Return the outcome of *seat* if both play their best from here; for endgames of a few plies."""
    if mover < 0:
        shares = np.empty(2, np.float32)
        engine.outcome(board, 2, shares)
        return float(shares[seat])
    values = [value(after, seat, following) for _, after, following in moves(board, mover)]
    return max(values) if mover == seat else min(values)


def moves(board: Boards, mover: int) -> Iterator[tuple[int, Boards, int]]:
    """Yield every legal move on square8, the board after it, and the next seat to move."""
    rays = topology("square8").rays
    for cell in np.flatnonzero(board == 0).tolist():
        after = board.copy()
        if engine.apply(after, mover, cell, rays):
            yield cell, after, engine.next_mover(after, mover, 2, rays)


def test_search_plays_endgames_as_well_as_can_be() -> None:
    """Five empty cells from the end, where it matters what is played, it plays what a full search would."""
    boards, to_move = openings("square8_2p", 120, 55)
    results = decide("uct:800", boards, to_move, "square8_2p")
    chances, best_moves = 0, 0
    for board, seat, cell in zip(boards, to_move.tolist(), results.tolist(), strict=True):
        values = {move: value(after, seat, following) for move, after, following in moves(board, seat)}
        if len(set(values.values())) > 1:
            chances += 1
            best_moves += values[cell] == max(values.values())

    assert chances > 15
    assert best_moves >= 0.95 * chances


@pytest.mark.parametrize(
    "name", ["", "best", "uct", "uct:", "uct:0", "uct:-1", "uct:05", "uct:10001", "uct:1e3", "Random"]
)
def test_unknown_players_are_named(name: str) -> None:
    """The error for a misspelt player lists the existing ones."""
    boards, to_move = openings("square8_2p", 1)

    assert not baselines.is_baseline(name)
    with pytest.raises(ValueError, match=r"unknown player .*; known: greedy, heuristic, random, uct:200"):
        decide(name, boards, to_move, "square8_2p")


def test_every_rung_is_a_player() -> None:
    """The ladder names only existing players, and a variant must be one of the twelve."""
    boards, to_move = openings("square8_2p", 1)

    assert all(map(baselines.is_baseline, baselines._LADDER))
    with pytest.raises(ValueError, match="unknown variant 'square8'"):
        decide("random", boards, to_move, "square8")
