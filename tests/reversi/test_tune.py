"""The fitness of weights is a pure function, and the evolution strategy climbs."""

import numpy as np
import pytest

from ringrift.kernel.errors import UnknownName
from ringrift_reversi import heuristic, tune
from ringrift_reversi.tune import Vectors


def test_fitness_hangs_on_vector_and_seed_alone() -> None:
    """Asked again it says the same; other openings give another number; only the weights' proportions matter."""
    vector = heuristic.SQUARE

    first = tune.fitness(vector, 1, openings=40)

    assert tune.fitness(list(vector), 1, openings=40) == first
    assert tune.fitness(8 * np.array(vector), 1, openings=40) == first
    assert tune.fitness(vector, 2, openings=40) != first


def test_frozen_weights_are_better_than_their_opposite() -> None:
    """What was learned is worth much, and turned around it is worth nothing."""
    assert tune.fitness(heuristic.SQUARE, 3, openings=100) > 0.87
    assert tune.fitness(-np.array(heuristic.SQUARE), 3, openings=100) < 0.2
    assert tune.fitness(heuristic.HEXAGON, 3, variant="hex8_2p", openings=100) > 0.87


def test_fitness_is_a_share_for_any_number_of_players() -> None:
    """With four players a quarter is par."""
    assert 0.4 < tune.fitness(heuristic.HEXAGON, 4, variant="hex8_4p", openings=50) < 1


def test_an_unknown_variant_is_named() -> None:
    """The job's parameters come from outside."""
    with pytest.raises(UnknownName, match="'chess_2p'"):
        tune.fitness(heuristic.SQUARE, 1, variant="chess_2p")


def ellipsoid(vector: Vectors) -> float:
    """Highest (0) at 1, 2, …, and a thousand times steeper along the last axis than along the first."""
    size = len(vector)
    return -float((1000 ** (np.arange(size) / (size - 1)) * (vector - np.arange(1, size + 1)) ** 2).sum())


def test_the_strategy_climbs_an_uneven_hill() -> None:
    """It finds the top of an ill-conditioned ellipsoid to many digits, which needs the shape and not only the step."""
    top = tune.search(lambda vector, _: ellipsoid(vector), 6, 1, 250)

    np.testing.assert_allclose(top, [1, 2, 3, 4, 5, 6], atol=1e-4)


def test_the_strategy_learns_to_play() -> None:
    """From nothing, a few generations of few games beat greedy clearly on openings they have not seen."""
    found = tune.search(lambda vector, seed: tune.fitness(vector, seed, openings=16), 6, 1, 5)

    assert tune.fitness(found, 99, openings=100) > 0.7


def test_asking_again_gives_the_same_candidates() -> None:
    """What is asked hangs on the strategy's state alone, and changes once it has been told something."""
    strategy = tune.begin(6, 5)
    vectors = tune.ask(strategy)

    told = tune.tell(strategy, vectors, [ellipsoid(vector) for vector in vectors])

    assert (tune.ask(strategy) == vectors).all()
    assert vectors.shape == (tune.POPULATION, 6)
    assert told.generation == 1
    assert not (tune.ask(told) == vectors).any()


def test_running_it_prints_weights_and_score(capsys: pytest.CaptureFixture[str]) -> None:
    """What is frozen in the heuristic can be made again by one command."""
    tune.main(["hex8_2p", "--generations", "1", "--openings", "4"])

    said = capsys.readouterr().out
    assert said.startswith("hex8_2p: (")
    assert "against greedy on 20 fresh openings" in said
