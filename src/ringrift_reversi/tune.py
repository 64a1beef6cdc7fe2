"""Tune: how good six weights are for the heuristic, and the evolution strategy that looks for better ones.

`fitness` is a pure function, so that candidates can be tried anywhere.  `ask` and `tell` are CMA-ES (Hansen: The CMA
evolution strategy, a tutorial, 2016): full covariance, cumulative step size, no restarts.

``python -m ringrift_reversi.tune`` finds the weights that are frozen in `heuristic` again.  It takes 80 CPU seconds;
the same numbers come out wherever numpy's linear algebra rounds as it does here.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from ringrift.workload.api import JobSpec, Refused
from ringrift_reversi import baselines, engine, heuristic, topology
from ringrift_reversi.asked import whole

Vectors = npt.NDArray[np.float64]

OPENING_PLIES = 8
OPENINGS, OPENINGS_MAX = 100, 10_000
POPULATION = 12
GENERATIONS = 45
SEED = 2
_FRESH = 1_000_000_007
"""What is added to the seed for openings that the search has never seen."""


def fitness(
    vector: Sequence[float] | Vectors, seed: int, *, variant: str = "square8_2p", openings: int = OPENINGS
) -> float:
    """The mean share of first place that these weights reach against greedy, who has all other seats.

    As many random openings as asked for, chosen by *seed*, each played from every seat.  Raises UnknownName.
    """
    board, players = topology.variant(variant)
    count = openings * players
    seeds = np.repeat(np.random.default_rng(seed).integers(0, 1 << 63, openings, np.uint64), players)
    boards = np.tile(topology.start(board.name, players), (count, 1))
    to_move = np.zeros(count, np.int8)
    engine.playouts(boards, to_move, players, board.rays, seeds, OPENING_PLIES)
    seats = np.tile(np.arange(players, dtype=np.int8), openings)
    weigh = partial(heuristic.best, variant, weights=vector)
    greedy = partial(baselines.choose, "greedy", variant=variant)
    for _ in range(board.cells):
        ours, theirs = to_move == seats, (to_move != seats) & (to_move >= 0)
        if not (ours | theirs).any():
            break
        chosen = np.full(count, -1, np.int16)
        drawn = baselines.position_seeds(boards, to_move, seed)
        chosen[ours] = weigh(boards[ours], to_move[ours], drawn[ours])
        chosen[theirs] = greedy(boards[theirs], to_move[theirs], drawn[theirs])
        illegal = engine.apply_all(boards, to_move, chosen, players, board.rays)
        assert illegal == -1
    shares = np.empty((count, players), np.float32)
    engine.outcome_all(boards, players, shares)
    return float(shares[np.arange(count), seats].mean())


def tried(job: JobSpec) -> float:
    """The fitness that the tune job *job* asks for.  Raises Refused.

    Its params are vector, the numbers as words with commas between them, and openings.
    """
    openings = whole(job, "openings", OPENINGS, 1, OPENINGS_MAX)
    try:
        vector = [float(number) for number in str(job.params.get("vector", "")).split(",")]
    except ValueError as bad:
        raise Refused("tune needs a vector: numbers with commas between them") from bad
    if len(vector) != len(heuristic.NAMES) or not all(math.isfinite(number) for number in vector):
        raise Refused(f"tune needs a vector of {len(heuristic.NAMES)} finite numbers, not {len(vector)}")
    return fitness(vector, job.seed, variant=job.variant, openings=openings)


@dataclass(frozen=True, eq=False)
class Strategy:
    """Where the search stands: a normal distribution over vectors, and the paths by which it came there."""

    seed: int
    generation: int
    population: int
    mean: Vectors
    step: float
    covariance: Vectors
    step_path: Vectors
    shape_path: Vectors


def begin(size: int, seed: int, *, population: int = POPULATION, step: float = 1.0) -> Strategy:
    """A search over vectors of *size* numbers that knows nothing yet."""
    nothing = np.zeros(size)
    return Strategy(seed, 0, population, nothing, step, np.eye(size), nothing, nothing)


def ask(strategy: Strategy) -> Vectors:
    """The candidates of this generation, one in each row; asking again gives the same ones."""
    random = np.random.default_rng([strategy.seed, strategy.generation])
    drawn = random.standard_normal((strategy.population, len(strategy.mean)))
    return strategy.mean + strategy.step * drawn @ _root(strategy.covariance).T


def tell(strategy: Strategy, vectors: Vectors, scores: Sequence[float]) -> Strategy:
    """The next generation, given how good each candidate was; more is better."""
    n, parents = len(strategy.mean), strategy.population // 2
    shares = math.log(parents + 0.5) - np.log(np.arange(1, parents + 1))
    shares /= shares.sum()
    mass = 1 / (shares**2).sum()
    best = vectors[np.argsort(-np.asarray(scores), kind="stable")[:parents]]
    steps = (best - strategy.mean) / strategy.step
    moved = shares @ steps

    step_rate = (mass + 2) / (n + mass + 5)
    damping = 1 + 2 * max(0.0, math.sqrt((mass - 1) / (n + 1)) - 1) + step_rate
    straight = np.linalg.solve(_root(strategy.covariance), moved)
    step_path = (1 - step_rate) * strategy.step_path + math.sqrt(step_rate * (2 - step_rate) * mass) * straight
    expected = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
    length = float(np.linalg.norm(step_path)) / expected

    path_rate = (4 + mass / n) / (n + 4 + 2 * mass / n)
    rank_one = 2 / ((n + 1.3) ** 2 + mass)
    rank_many = min(1 - rank_one, 2 * (mass - 2 + 1 / mass) / ((n + 2) ** 2 + mass))
    settled = length / math.sqrt(1 - (1 - step_rate) ** (2 * strategy.generation + 2)) < 1.4 + 2 / (n + 1)
    shape_path = (1 - path_rate) * strategy.shape_path
    if settled:
        shape_path = shape_path + math.sqrt(path_rate * (2 - path_rate) * mass) * moved
    kept = 1 - rank_one - rank_many + (0.0 if settled else rank_one * path_rate * (2 - path_rate))
    covariance = (
        kept * strategy.covariance
        + rank_one * np.outer(shape_path, shape_path)
        + rank_many * (steps.T * shares) @ steps
    )  # fmt: skip
    return Strategy(
        seed=strategy.seed,
        generation=strategy.generation + 1,
        population=strategy.population,
        mean=strategy.mean + strategy.step * moved,
        step=strategy.step * math.exp(step_rate / damping * (length - 1)),
        covariance=covariance,
        step_path=step_path,
        shape_path=shape_path,
    )


def _root(covariance: Vectors) -> Vectors:
    """The symmetric square root."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 1e-20)) @ vectors.T)


def search(score: Callable[[Vectors, int], float], size: int, seed: int, generations: int) -> Vectors:
    """The middle of what the last generation believes in; *score* is called with a vector and its generation's seed."""
    strategy = begin(size, seed)
    for generation in range(generations):
        vectors = ask(strategy)
        strategy = tell(strategy, vectors, [score(vector, seed + generation) for vector in vectors])
    return strategy.mean


def rounded(vector: Vectors) -> tuple[float, ...]:
    """The same preferences with a length of ten and three decimals: only the weights' proportions matter."""
    return tuple(round(float(weight), 3) for weight in 10 * vector / np.linalg.norm(vector))


def main(words: Sequence[str] | None = None) -> None:
    """Look for weights, and print what came out with its score on fresh openings."""
    parser = argparse.ArgumentParser(prog="python -m ringrift_reversi.tune", description=__doc__)
    parser.add_argument("variants", nargs="*", default=["square8_2p", "hex8_2p"], help="what to play (%(default)s)")
    parser.add_argument("--generations", type=int, default=GENERATIONS, help="(%(default)s)")
    parser.add_argument("--openings", type=int, default=OPENINGS, help="for each candidate (%(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="(%(default)s)")
    options = parser.parse_args(words)
    for variant in options.variants:
        score_of = partial(fitness, variant=variant, openings=options.openings)
        found = search(score_of, len(heuristic.NAMES), options.seed, options.generations)
        fresh = 5 * options.openings
        score = fitness(rounded(found), options.seed + _FRESH, variant=variant, openings=fresh)
        print(f"{variant}: {rounded(found)}, {score:.3f} against greedy on {fresh} fresh openings")


if __name__ == "__main__":
    main()
