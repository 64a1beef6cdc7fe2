"""The rules in torch are those of the engine."""

import numpy as np
import pytest
import torch

from ringrift_reversi import engine, torch_rules
from ringrift_reversi.topology import VARIANTS, start, topology

SMALL = [name for name, (board, _) in VARIANTS.items() if board in ("square8", "hex8")]
LARGE = [name for name in VARIANTS if name not in SMALL]


def follow(variant: str, games: int, plies: int) -> int:
    """Play random moves in both and compare after each; how many games came to their end."""
    board, players = VARIANTS[variant]
    shape, random = topology(board), np.random.default_rng(games)
    rules = torch_rules.make_rules(shape, players)
    boards, movers = np.tile(start(board, players), (games, 1)), np.zeros(games, np.int64)
    discs, mover = torch_rules.pack(rules, torch.from_numpy(boards)), torch.zeros(games, dtype=torch.int64)
    for _ in range(plies):
        legal = torch_rules.spread(rules, torch_rules.legal(rules, discs)).numpy()
        cells, marks = np.zeros(games, np.int64), np.zeros(shape.cells, np.uint8)
        for game in range(games):
            for seat in range(players):
                engine.legal(boards[game], seat, shape.rays, marks)
                assert (legal[game, seat] == marks).all()
            if movers[game] >= 0:
                cells[game] = random.choice(np.flatnonzero(legal[game, movers[game]]))
                engine.apply(boards[game], int(movers[game]), int(cells[game]), shape.rays)
                movers[game] = engine.next_mover(boards[game], int(movers[game]), players, shape.rays)
        discs = torch_rules.apply(rules, discs, mover, torch.from_numpy(cells))
        mover, moves = torch_rules.next_mover(rules, discs, mover)
        assert (torch_rules.unpack(rules, discs).numpy() == boards).all()
        assert mover.tolist() == movers.tolist()
        assert (moves.ne(0).any(1) == (mover >= 0)).all()
    shares, share = torch_rules.outcome(rules, discs).numpy(), np.zeros(players, np.float32)
    for game in range(games):
        engine.outcome(boards[game], players, share)
        assert (shares[game] == share).all()
    return int((movers < 0).sum())


@pytest.mark.parametrize("variant", SMALL)
def test_whole_games_on_small_boards_are_those_of_the_engine(variant: str) -> None:
    """Legal cells of every seat, discs, the seat to move and the outcome agree in every position of whole random
    games."""
    ended = follow(variant, games=6, plies=topology(VARIANTS[variant][0]).cells)

    assert ended == 6


@pytest.mark.parametrize("variant", LARGE)
def test_large_boards_are_those_of_the_engine(variant: str) -> None:
    """Where a board needs many limbs, the same holds; the games are cut short."""
    follow(variant, games=2, plies=24)


@pytest.mark.parametrize("board", ["square8", "hex8", "square19", "hexagonal"])
def test_rays_cross_whole_boards(board: str) -> None:
    """On crowded boards, where rays are long, every legal cell and every flip agrees."""
    shape, random = topology(board), np.random.default_rng(1)
    rules = torch_rules.make_rules(shape, 2)
    crowd = np.where(random.random((8, shape.cells)) < 0.97, np.where(random.random((8, shape.cells)) < 0.06, 1, 2), 0)
    boards = crowd.astype(np.int8)

    discs = torch_rules.pack(rules, torch.from_numpy(boards))
    legal = torch_rules.spread(rules, torch_rules.legal(rules, discs))[:, 0].numpy()
    cells = legal.argmax(1)
    after = torch_rules.apply(rules, discs, torch.zeros(8, dtype=torch.int64), torch.from_numpy(cells))

    marks, able = np.zeros(shape.cells, np.uint8), []
    for game in range(8):
        engine.legal(boards[game], 0, shape.rays, marks)
        assert (legal[game] == marks).all()
        if marks.any():
            engine.apply(boards[game], 0, int(cells[game]), shape.rays)
            able.append(game)
    assert able
    assert (torch_rules.unpack(rules, after).numpy()[able] == boards[able]).all()
