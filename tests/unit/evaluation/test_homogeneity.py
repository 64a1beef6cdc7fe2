"""A node whose results lie too far from those of the others is an outlier, and only that one."""

import math

import pytest

from ringrift.evaluation.homogeneity import (
    _EXPECTED_MIN,
    _NODES_MAX,
    RESIDUAL_MAX,
    MatchTally,
    _OutcomeCounts,
    _residuals,
    add_counts,
    count_outcomes,
    outliers,
    without,
)
from ringrift.events.evaluation import Block


def false_alarms_per_year(looks_per_second: float, limit: float = RESIDUAL_MAX) -> float:
    """Return how often, at most, an honest node is taken for an outlier in a year of so many checks."""
    return 2 * 3 * math.exp(-limit * limit / 2) * looks_per_second * 365 * 86_400


def tally(name: str = "m", **nodes: tuple[int, int, int]) -> MatchTally:
    """Return a match with these reports of blocks ahead, even and behind."""
    return MatchTally(
        match=name, nodes={node: _OutcomeCounts(ahead=a, even=e, behind=b) for node, (a, e, b) in nodes.items()}
    )


def z(*tallies: MatchTally) -> dict[str, float]:
    """Return the residual of every node that has one."""
    return {residual.node: residual.z for residual in _residuals(tallies)}


@pytest.mark.parametrize(
    ("scores", "outcome"),
    [
        ((1.0, 1.0), (1, 0, 0)),
        ((1.0, 0.5), (1, 0, 0)),
        ((1.0, 0.0), (0, 1, 0)),
        ((0.5, 0.0), (0, 0, 1)),
        ((1.0, 0.0, 0.0), (0, 1, 0)),
        ((1 / 3, 1 / 3, 1 / 3), (0, 1, 0)),
        ((1.0, 1.0, 0.0, 0.0), (1, 0, 0)),
        ((0.0, 0.0, 0.0, 0.5), (0, 0, 1)),
    ],
)
def test_a_block_is_ahead_even_or_behind(scores: tuple[float, ...], outcome: tuple[int, int, int]) -> None:
    """Even is the share that equal players have, with two, three and four of them."""
    assert count_outcomes([Block(number=0, scores=scores)], len(scores)).outcomes == outcome


def test_reports_add_up() -> None:
    """Later reports of a node are added to its earlier ones."""
    first = add_counts(MatchTally(match="m", since=5.0), "a", _OutcomeCounts(ahead=1, behind=2))

    both = add_counts(first, "a", _OutcomeCounts(ahead=1, even=1))

    assert (both.since, both.nodes) == (5.0, {"a": _OutcomeCounts(ahead=2, even=1, behind=2)})


def test_a_match_stores_a_limited_number_of_nodes() -> None:
    """Further ones are not distinguished; the stored ones go on."""
    full = MatchTally(match="m", nodes={f"n{number}": _OutcomeCounts(ahead=1) for number in range(_NODES_MAX)})

    assert add_counts(full, "more", _OutcomeCounts(ahead=1)) is full
    assert add_counts(full, "n0", _OutcomeCounts(ahead=1)).nodes["n0"].ahead == 2


def test_equal_reports_have_no_residual() -> None:
    """A node that reports the results of the others has a residual of zero."""
    assert z(tally(a=(30, 40, 30), b=(30, 40, 30), c=(30, 40, 30))) == {"a": 0.0, "b": 0.0, "c": 0.0}


@pytest.mark.parametrize("lie", [(100, 0, 0), (0, 0, 100), (0, 100, 0)], ids=["wins", "losses", "draws"])
def test_a_node_with_constant_reports_is_an_outlier(lie: tuple[int, int, int]) -> None:
    """This holds for all blocks won, lost or even."""
    [actual] = outliers([tally(a=(30, 40, 30), b=(31, 38, 31), c=(28, 41, 31), bad=lie)])

    assert actual.node == "bad"
    assert actual.z > RESIDUAL_MAX
    assert actual.blocks == 100


def test_small_biases_add_up_over_matches() -> None:
    """A bias within the limits of each match exceeds them over all matches, and only there."""
    one = tally(a=(30, 40, 30), b=(30, 40, 30), c=(30, 40, 30), bad=(48, 36, 16))

    assert not outliers([one])
    assert [actual.node for actual in outliers([one] * 12)] == ["bad"]


def test_a_node_that_inverts_results_is_detected() -> None:
    """Towards the candidate its deviations cancel; against the side that the others rate ahead they add up."""
    strong = tally("strong", a=(60, 30, 10), b=(60, 30, 10), c=(60, 30, 10), bad=(42, 30, 28))
    weak = tally("weak", a=(10, 30, 60), b=(10, 30, 60), c=(10, 30, 60), bad=(28, 30, 42))

    assert [actual.node for actual in outliers([strong, weak] * 6)] == ["bad"]


def test_an_outlier_does_not_convict_its_neighbours() -> None:
    """It biases the expectation of the others; so it is taken out first, and then no other is far away."""
    spoilt = tally(a=(90, 120, 90), b=(95, 110, 95), c=(88, 120, 92), bad=(2000, 0, 0))

    assert all(residual > RESIDUAL_MAX for residual in z(spoilt).values())
    assert [actual.node for actual in outliers([spoilt])] == ["bad"]


def test_several_outliers_are_detected_worst_first() -> None:
    """Each is searched for among the remaining nodes."""
    honest = {name: (90, 120, 90) for name in "abcdef"}

    actual = outliers([tally(**honest, bad=(300, 0, 0), worse=(600, 0, 0))])

    assert [residual.node for residual in actual] == ["worse", "bad"]


def test_two_nodes_alone_convict_none() -> None:
    """A match that fewer than two others have played does not count; a node without blocks is no other."""
    assert z(tally(a=(300, 0, 0), b=(100, 100, 100))) == {}
    assert z(tally(a=(300, 0, 0), b=(100, 100, 100), c=(0, 0, 0))) == {}


def test_rare_outcomes_do_not_count() -> None:
    """If the others' results predict fewer blocks of one side than the limit, one odd block would weigh too much."""
    least = int(_EXPECTED_MIN)

    assert "a" not in z(tally(a=(0, 0, 50), b=(95, 3, 2), c=(95, 3, 2)))
    assert "a" not in z(tally(a=(50 - least, 1, least - 1), b=(90, 0, 10), c=(91, 0, 9)))
    assert "a" in z(tally(a=(45, 0, 5), b=(90, 0, 10), c=(90, 0, 10)))


def test_few_blocks_of_others_weigh_little() -> None:
    """Their mean is uncertain too: the same deviation means less against fewer of them."""
    few = z(tally(a=(200, 100, 100), b=(10, 10, 10), c=(10, 10, 10)))["a"]
    many = z(tally(a=(200, 100, 100), b=(1000, 1000, 1000), c=(1000, 1000, 1000)))["a"]

    assert few < many / 2


def test_a_node_can_be_taken_out() -> None:
    """Its reports are gone; a match that it did not play stays the very same."""
    one = tally(a=(1, 2, 3), b=(4, 5, 6))

    assert without(one, {"a"}) == tally(b=(4, 5, 6))
    assert without(one, {"c"}) is one


def test_false_alarms_are_rare_by_construction() -> None:
    """With a check of a node every ten seconds, fewer than one honest node in 2,000 is quarantined in a year."""
    assert 1e-5 < false_alarms_per_year(0.1) < 1 / 2000
    assert false_alarms_per_year(0.1, limit=4.0) > 1
