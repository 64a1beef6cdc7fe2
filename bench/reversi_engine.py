"""The rules: random plies on one core, against OpenSpiel's othello as it is used from Python; and UCT's random games.

``python -m bench.reversi_engine`` prints every variant.  All rates are per second of CPU time of this process, so that
whatever else the machine does hardly changes them.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random

import numpy as np
import pyspiel

from bench.measure import Contest, Line, Metrics, Side, Stopwatch
from ringrift_reversi import baselines, engine
from ringrift_reversi.topology import VARIANTS, start, variant

PLIES = 100_000
SIMULATIONS = 20_000
HEADLINE = "square8_2p"


def playouts(name: str, games: int) -> int:
    """Play *games* random games to the end, as a search does; the plies played."""
    board, players = variant(name)
    boards, to_move = np.tile(start(board.name, players), (games, 1)), np.zeros(games, np.int8)
    return engine.playouts(boards, to_move, players, board.rays, np.arange(games, dtype=np.uint64), board.cells)


def listed(name: str, games: int) -> int:
    """The same with every legal move listed before one is drawn, as a player with a policy must; the plies played."""
    board, players = variant(name)
    boards, to_move = np.tile(start(board.name, players), (games, 1)), np.zeros(games, np.int8)
    marks, random = np.empty_like(boards, np.uint8), np.random.default_rng(0)
    plies = 0
    while (to_move >= 0).any():
        engine._legal_all(boards, to_move, board.rays, marks)
        chosen = (marks * random.random(marks.shape, np.float32)).argmax(axis=1).astype(np.int16)
        plies += int((to_move >= 0).sum())
        engine.apply_all(boards, to_move, chosen, players, board.rays)
    return plies


def uct(name: str, games: int) -> int:
    """One decision of uct:200 in each of *games* positions; the random games played."""
    board, players = variant(name)
    boards, to_move = np.tile(start(board.name, players), (games, 1)), np.zeros(games, np.int8)
    seeds = np.arange(games, dtype=np.uint64)
    engine.playouts(boards, to_move, players, board.rays, seeds, board.cells // 3)
    baselines.choose("uct:200", boards, to_move, seeds, variant=name)
    return 200 * games


def openspiel(games: int) -> int:
    """The same game in OpenSpiel, one state at a time, from Python; how many plies."""
    othello, random = pyspiel.load_game("othello"), Random(0)
    plies = 0
    for _ in range(games):
        state = othello.new_initial_state()
        while not state.is_terminal():
            state.apply_action(random.choice(state.legal_actions()))
            plies += 1
    return plies


def _side(work: Callable[[int], int], games: int) -> Side:
    def measure(_: Path) -> Metrics:
        watch = Stopwatch()
        return watch.per(work(games))

    return measure


@contextmanager
def _sides(_: Path) -> Iterator[Mapping[str, Side]]:
    playouts(HEADLINE, 1)  # compiled, or loaded from the cache, before anything is measured
    yield {
        "ours": _side(lambda games: playouts(HEADLINE, games), PLIES // 60),
        "openspiel": _side(openspiel, PLIES // 600),
    }


RULES = Contest(
    "rules",
    _sides,
    (Line("rules", f"a random ply of {HEADLINE}", "µs CPU", "cpu", raw="openspiel", ours_max=1 / 0.9, recorded=True),),
)


def rate(work: Callable[[int], int], games: int) -> float:
    """The best of three, in thousands for each second of CPU time."""
    work(1)
    best = 0.0
    for _ in range(3):
        begun = time.process_time()
        best = max(best, work(games) / (time.process_time() - begun))
    return best / 1000


def main() -> None:
    """Print the table."""
    print(f"openspiel, othello: {rate(openspiel, 100):.0f} k plies/s")
    print(f"{'k/s':14}{'playouts':>10}{'listed':>10}{'uct:200':>10}")
    for name in VARIANTS:
        cells = variant(name)[0].cells
        games = PLIES // cells
        rates = (
            rate(lambda count, name=name: playouts(name, count), games),
            rate(lambda count, name=name: listed(name, count), games // 4),
            rate(lambda count, name=name: uct(name, count), max(2, SIMULATIONS // 200 * 64 // cells)),
        )
        print(f"{name:14}" + "".join(f"{speed:10.0f}" for speed in rates))


if __name__ == "__main__":
    main()
