"""A node whose results lie too far from those of the others is told apart, and only that one."""

import pytest

from ringrift.evaluation.homogeneity import (
    EXPECTED_MIN,
    NODES_MAX,
    RESIDUAL_MAX,
    Counts,
    Tally,
    counted,
    false_alarms_per_year,
    outliers,
    reported,
    residuals,
    without,
)  # fmt: skip
from ringrift.events.evaluation import Played


def tally(name: str = "m", **nodes: tuple[int, int, int]) -> Tally:
    """A match in which nodes have reported blocks ahead, even and behind."""
    return Tally(match=name, nodes={node: Counts(ahead=a, even=e, behind=b) for node, (a, e, b) in nodes.items()})


def z(*tallies: Tally) -> dict[str, float]:
    """The residual of every node that something can be said about."""
    return {one.node: one.z for one in residuals(tallies)}


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
    assert counted([Played(number=0, scores=scores)], len(scores)).outcomes == outcome


def test_reports_add_up() -> None:
    """What a node reports later is added to what it has reported before."""
    first = reported(Tally(match="m", since=5.0), "a", Counts(ahead=1, behind=2))

    both = reported(first, "a", Counts(ahead=1, even=1))

    assert (both.since, both.nodes) == (5.0, {"a": Counts(ahead=2, even=1, behind=2)})


def test_a_match_knows_a_limited_number_of_nodes() -> None:
    """Further ones are not told apart; those that are known go on."""
    full = Tally(match="m", nodes={f"n{number}": Counts(ahead=1) for number in range(NODES_MAX)})

    assert reported(full, "more", Counts(ahead=1)) is full
    assert reported(full, "n0", Counts(ahead=1)).nodes["n0"].ahead == 2


def test_equal_reports_have_no_residual() -> None:
    """Who says what the others say lies on them."""
    assert z(tally(a=(30, 40, 30), b=(30, 40, 30), c=(30, 40, 30))) == {"a": 0.0, "b": 0.0, "c": 0.0}


@pytest.mark.parametrize("lie", [(100, 0, 0), (0, 0, 100), (0, 100, 0)], ids=["wins", "losses", "draws"])
def test_a_node_that_always_says_the_same_is_an_outlier(lie: tuple[int, int, int]) -> None:
    """Whether it claims that all blocks are won, lost or even."""
    [found] = outliers([tally(a=(30, 40, 30), b=(31, 38, 31), c=(28, 41, 31), bad=lie)])

    assert found.node == "bad"
    assert found.z > RESIDUAL_MAX
    assert found.blocks == 100


def test_small_lies_add_up_over_matches() -> None:
    """What is within the limits in each match is not in all of them together, and only there."""
    one = tally(a=(30, 40, 30), b=(30, 40, 30), c=(30, 40, 30), bad=(48, 36, 16))

    assert not outliers([one])
    assert [found.node for found in outliers([one] * 12)] == ["bad"]


def test_who_turns_results_round_is_seen_where_one_side_is_better() -> None:
    """Towards the candidate its deviations cancel; against whoever the others see ahead they add up."""
    strong = tally("strong", a=(60, 30, 10), b=(60, 30, 10), c=(60, 30, 10), bad=(42, 30, 28))
    weak = tally("weak", a=(10, 30, 60), b=(10, 30, 60), c=(10, 30, 60), bad=(28, 30, 42))

    assert [found.node for found in outliers([strong, weak] * 6)] == ["bad"]


def test_one_liar_does_not_convict_those_beside_it() -> None:
    """It spoils what is expected of the others; so it is taken out first, and then nobody else is far away."""
    spoilt = tally(a=(90, 120, 90), b=(95, 110, 95), c=(88, 120, 92), bad=(2000, 0, 0))

    assert all(residual > RESIDUAL_MAX for residual in z(spoilt).values())
    assert [found.node for found in outliers([spoilt])] == ["bad"]


def test_several_liars_are_found_worst_first() -> None:
    """Each is looked for among those that are left."""
    honest = {name: (90, 120, 90) for name in "abcdef"}

    found = outliers([tally(**honest, bad=(300, 0, 0), worse=(600, 0, 0))])

    assert [one.node for one in found] == ["worse", "bad"]


def test_between_two_nodes_nobody_can_say_who_is_wrong() -> None:
    """A match that fewer than two others have played says nothing; a node without blocks is no other."""
    assert z(tally(a=(300, 0, 0), b=(100, 100, 100))) == {}
    assert z(tally(a=(300, 0, 0), b=(100, 100, 100), c=(0, 0, 0))) == {}


def test_rare_outcomes_say_nothing() -> None:
    """Where the others let expect fewer blocks of one side than the limit, one odd block would mean too much."""
    least = int(EXPECTED_MIN)

    assert "a" not in z(tally(a=(0, 0, 50), b=(95, 3, 2), c=(95, 3, 2)))
    assert "a" not in z(tally(a=(50 - least, 1, least - 1), b=(90, 0, 10), c=(91, 0, 9)))
    assert "a" in z(tally(a=(45, 0, 5), b=(90, 0, 10), c=(90, 0, 10)))


def test_few_blocks_of_others_weigh_little() -> None:
    """Their mean is uncertain too: the same deviation means less against fewer of them."""
    few = z(tally(a=(200, 100, 100), b=(10, 10, 10), c=(10, 10, 10)))["a"]
    many = z(tally(a=(200, 100, 100), b=(1000, 1000, 1000), c=(1000, 1000, 1000)))["a"]

    assert few < many / 2


def test_a_node_can_be_taken_out() -> None:
    """What it has reported is gone; a match that it did not play stays the very same."""
    one = tally(a=(1, 2, 3), b=(4, 5, 6))

    assert without(one, {"a"}) == tally(b=(4, 5, 6))
    assert without(one, {"c"}) is one


def test_false_alarms_are_rare_by_construction() -> None:
    """With a look at a node every ten seconds, fewer than one honest node in 2,000 is shut out in a year."""
    assert 1e-5 < false_alarms_per_year(0.1) < 1 / 2000
    assert false_alarms_per_year(0.1, limit=4.0) > 1
