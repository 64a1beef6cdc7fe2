"""Two traps of measuring strength, in figures: seats are not equal, and short openings repeat."""

import sys

import numpy as np

from ringrift_reversi import engine, rng
from ringrift_reversi.topology import VARIANTS, start, topology

GAMES, OPENINGS = 20_000, 128


def shares(variant: str) -> list[float]:
    """How often each seat wins if all players move at random."""
    board, players = VARIANTS[variant]
    rays, cells = topology(board).rays, topology(board).cells
    result, random, share = np.zeros(players), np.array([1], np.uint64), np.zeros(players, np.float32)
    for _ in range(GAMES):
        discs = start(board, players).copy()
        engine.playout(discs, 0, players, rays, random, cells)
        engine.outcome(discs, players, share)
        result += share
    return (result / GAMES).tolist()


def distinct(variant: str, plies: int) -> int:
    """How many of OPENINGS random openings of *plies* are not the same as another one."""
    board, players = VARIANTS[variant]
    rays, moves, visited = topology(board).rays, np.zeros(plies, np.uint16), set()
    for number in range(OPENINGS):
        discs = start(board, players).copy()
        rng.opening(discs, plies, players, rays, int(rng.mix(1, number, 0)), moves)
        visited.add(discs.tobytes())
    return len(visited)


def main() -> None:
    """Play at random and count."""
    for variant in ("square8_2p", "hex8_2p", "hex8_3p", "square8_4p"):
        seats = ", ".join(f"{share:.2f}" for share in shares(variant))
        few, many = distinct(variant, 4), distinct(variant, 8)
        reported = f"wins by seat {seats}; of {OPENINGS} openings {few} differ after 4 plies, {many} after 8"
        sys.stdout.write(f"{variant}: {reported}\n")


if __name__ == "__main__":
    main()
