"""Tune: the fitness of six weights of the heuristic, and the evolution strategy that searches for better ones.

`fitness` is a pure function, so that candidates can be evaluated anywhere.  `ask` and `tell` are CMA-ES (Hansen: The
CMA evolution strategy, a tutorial, 2016): full covariance, cumulative step size, no restarts.

``python -m ringrift_reversi.tune`` finds the frozen weights of `heuristic` again, in 80 CPU seconds; the numbers are
the same wherever numpy's linear algebra rounds as it does here.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from ringrift.workload.api import JobSpec, Refused
from ringrift.workload.kit import int_param
from ringrift_reversi import baselines, engine, heuristic, topology

_Vectors = npt.NDArray[np.float64]

_OPENING_PLIES = 8
OPENINGS, OPENINGS_MAX = 100, 10_000
_POPULATION = 12
_GENERATIONS = 45
_SEED = 2
_FRESH = 1_000_000_007  # added to the seed for openings that the search has not used


def _fitness(
    vector: Sequence[float] | _Vectors, seed: int, *, variant: str = "square8_2p", openings: int = OPENINGS
) -> float:
    """The mean share of first place that these weights reach against greedy, which has all other seats.

    The random *openings* are chosen by *seed*, and each is played from every seat.  Raises ValueError.
    """
    board, players = topology.variant(variant)
    count = openings * players
    seeds = np.repeat(np.random.default_rng(seed).integers(0, 1 << 63, openings, np.uint64), players)
    boards = np.tile(topology.start(board.name, players), (count, 1))
    to_move = np.zeros(count, np.int8)
    engine.playouts(boards, to_move, players, board.rays, seeds, _OPENING_PLIES)
    seats = np.tile(np.arange(players, dtype=np.int8), openings)
    weigh = partial(heuristic.best, variant, weights=vector)
    greedy = partial(baselines.choose, "greedy", variant=variant)
    for _ in range(board.cells):
        ours, theirs = to_move == seats, (to_move != seats) & (to_move >= 0)
        if not (ours | theirs).any():
            break
        chosen = np.full(count, -1, np.int16)
        random = baselines.position_seeds(boards, to_move, seed)
        chosen[ours] = weigh(boards[ours], to_move[ours], random[ours])
        chosen[theirs] = greedy(boards[theirs], to_move[theirs], random[theirs])
        illegal = engine.apply_all(boards, to_move, chosen, players, board.rays)
        assert illegal == -1
    shares = np.empty((count, players), np.float32)
    engine.outcome_all(boards, players, shares)
    return float(shares[np.arange(count), seats].mean())


def run_trial(job: JobSpec) -> float:
    """The fitness that the tune job *job* requests.  Raises Refused.

    Its params are vector, numbers separated by commas, and openings.
    """
    openings = int_param(job, "openings", OPENINGS, 1, OPENINGS_MAX)
    try:
        vector = [float(number) for number in str(job.params.get("vector", "")).split(",")]
    except ValueError as error:
        raise Refused("tune needs a vector: numbers separated by commas") from error
    if len(vector) != len(heuristic.NAMES) or not all(math.isfinite(number) for number in vector):
        raise Refused(f"tune needs a vector of {len(heuristic.NAMES)} finite numbers, not {len(vector)}")
    return _fitness(vector, job.seed, variant=job.variant, openings=openings)


@dataclass(frozen=True, eq=False)
class _Strategy:
    """The state of the search: a normal distribution over vectors, and its evolution paths."""

    seed: int
    generation: int
    population: int
    mean: _Vectors
    step: float
    covariance: _Vectors
    step_path: _Vectors
    shape_path: _Vectors


def _begin(size: int, seed: int, *, population: int = _POPULATION, step: float = 1.0) -> _Strategy:
    """A new search over vectors of *size* numbers."""
    zeros = np.zeros(size)
    return _Strategy(seed, 0, population, zeros, step, np.eye(size), zeros, zeros)


def _ask(strategy: _Strategy) -> _Vectors:
    """The candidates of this generation, one in each row; a second call returns the same ones."""
    random = np.random.default_rng([strategy.seed, strategy.generation])
    normal = random.standard_normal((strategy.population, len(strategy.mean)))
    return strategy.mean + strategy.step * normal @ _root(strategy.covariance).T


def _tell(strategy: _Strategy, vectors: _Vectors, scores: Sequence[float]) -> _Strategy:
    """The next generation from the *scores* of the candidates; higher is better."""
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
    decay = 1 - rank_one - rank_many + (0.0 if settled else rank_one * path_rate * (2 - path_rate))
    rank_one_update = rank_one * np.outer(shape_path, shape_path)
    covariance = decay * strategy.covariance + rank_one_update + rank_many * (steps.T * shares) @ steps
    return _Strategy(
        seed=strategy.seed,
        generation=strategy.generation + 1,
        population=strategy.population,
        mean=strategy.mean + strategy.step * moved,
        step=strategy.step * math.exp(step_rate / damping * (length - 1)),
        covariance=covariance,
        step_path=step_path,
        shape_path=shape_path,
    )


def _root(covariance: _Vectors) -> _Vectors:
    """The symmetric square root."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 1e-20)) @ vectors.T)


def _search(score: Callable[[_Vectors, int], float], size: int, seed: int, generations: int) -> _Vectors:
    """The mean of the last generation; *score* is called with a vector and its generation's seed."""
    strategy = _begin(size, seed)
    for generation in range(generations):
        vectors = _ask(strategy)
        strategy = _tell(strategy, vectors, [score(vector, seed + generation) for vector in vectors])
    return strategy.mean


def _normalize(vector: _Vectors) -> tuple[float, ...]:
    """The same preferences with a length of ten and three decimals: only the weights' proportions matter."""
    return tuple(round(float(weight), 3) for weight in 10 * vector / np.linalg.norm(vector))


def _main(words: Sequence[str] | None = None) -> None:
    """Search for weights, and print them with their score on fresh openings."""
    parser = argparse.ArgumentParser(prog="python -m ringrift_reversi.tune", description=__doc__)
    parser.add_argument("variants", nargs="*", default=["square8_2p", "hex8_2p"], help="(%(default)s)")
    parser.add_argument("--generations", type=int, default=_GENERATIONS, help="(%(default)s)")
    parser.add_argument("--openings", type=int, default=OPENINGS, help="for each candidate (%(default)s)")
    parser.add_argument("--seed", type=int, default=_SEED, help="(%(default)s)")
    options = parser.parse_args(words)
    for variant in options.variants:
        score_of = partial(_fitness, variant=variant, openings=options.openings)
        weights = _normalize(_search(score_of, len(heuristic.NAMES), options.seed, options.generations))
        fresh = 5 * options.openings
        score = _fitness(weights, options.seed + _FRESH, variant=variant, openings=fresh)
        print(f"{variant}: {weights}, {score:.3f} against greedy on {fresh} fresh openings")


if __name__ == "__main__":
    _main()
