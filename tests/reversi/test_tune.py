"""The fitness of weights is a pure function, and the evolution strategy climbs."""

import numpy as np
import pytest

from ringrift_reversi import heuristic, tune
from ringrift_reversi.tune import _Vectors


def test_fitness_depends_on_vector_and_seed_alone() -> None:
    """A repeated evaluation gives the same number; other openings give another; only the weights' proportions
    matter."""
    vector = heuristic._SQUARE

    first = tune._fitness(vector, 1, openings=40)

    assert tune._fitness(list(vector), 1, openings=40) == first
    assert tune._fitness(8 * np.array(vector), 1, openings=40) == first
    assert tune._fitness(vector, 2, openings=40) != first


def test_frozen_weights_are_better_than_their_opposite() -> None:
    """The learned weights score high, and their negation scores low."""
    assert tune._fitness(heuristic._SQUARE, 3, openings=100) > 0.87
    assert tune._fitness(-np.array(heuristic._SQUARE), 3, openings=100) < 0.2
    assert tune._fitness(heuristic._HEXAGON, 3, variant="hex8_2p", openings=100) > 0.87


def test_fitness_is_a_share_for_any_number_of_players() -> None:
    """With four players a quarter is par."""
    assert 0.4 < tune._fitness(heuristic._HEXAGON, 4, variant="hex8_4p", openings=50) < 1


def test_an_unknown_variant_is_named() -> None:
    """The job's parameters come from outside."""
    with pytest.raises(ValueError, match="'chess_2p'"):
        tune._fitness(heuristic._SQUARE, 1, variant="chess_2p")


def ellipsoid(vector: _Vectors) -> float:
    """Highest (0) at 1, 2, …, and a thousand times steeper along the last axis than along the first."""
    size = len(vector)
    return -float((1000 ** (np.arange(size) / (size - 1)) * (vector - np.arange(1, size + 1)) ** 2).sum())


def test_the_strategy_climbs_an_uneven_hill() -> None:
    """It finds the top of an ill-conditioned ellipsoid to many digits, which needs the shape and not only the step."""
    top = tune._search(lambda vector, _: ellipsoid(vector), 6, 1, 250)

    np.testing.assert_allclose(top, [1, 2, 3, 4, 5, 6], atol=1e-4)


def test_the_strategy_learns_to_play() -> None:
    """From nothing, a few generations of few games beat greedy clearly on openings they have not seen."""
    best = tune._search(lambda vector, seed: tune._fitness(vector, seed, openings=16), 6, 1, 5)

    assert tune._fitness(best, 99, openings=100) > 0.7


def test_repeated_asks_give_the_same_candidates() -> None:
    """Candidates depend on the strategy's state alone, and change once it has received a result."""
    strategy = tune._begin(6, 5)
    vectors = tune._ask(strategy)

    updated = tune._tell(strategy, vectors, [ellipsoid(vector) for vector in vectors])

    assert (tune._ask(strategy) == vectors).all()
    assert vectors.shape == (tune._POPULATION, 6)
    assert updated.generation == 1
    assert not (tune._ask(updated) == vectors).any()


def test_the_tuner_prints_weights_and_score(capsys: pytest.CaptureFixture[str]) -> None:
    """The frozen weights of the heuristic can be made again by one command."""
    tune._main(["hex8_2p", "--generations", "1", "--openings", "4"])

    output = capsys.readouterr().out
    assert output.startswith("hex8_2p: (")
    assert "against greedy on 20 fresh openings" in output
