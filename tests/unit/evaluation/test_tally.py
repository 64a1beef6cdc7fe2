"""Tallies are whole numbers that do not remember in which order blocks came."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from ringrift.evaluation.tally import BlockScore, Meeting, Player, Tally, add, score_block
from ringrift.kernel.errors import Unranked
from unit.evaluation.league import player

BLOCKS = some.builds(
    BlockScore,
    variant=some.sampled_from(["hex8_2p", "square8_2p"]),
    one=some.builds(player, some.integers(0, 3)),
    other=some.builds(player, some.integers(0, 3)),
    points=some.integers(0, 4),
    comparisons=some.just(2),
)


@given(blocks=some.lists(BLOCKS, max_size=30), data=some.data())
def test_the_order_of_blocks_leaves_no_trace(blocks: list[BlockScore], data: some.DataObject) -> None:
    """Blocks in any order, at once or in parts, make one tally."""
    shuffled = data.draw(some.permutations(blocks))
    cut = data.draw(some.integers(0, len(blocks)))

    assert add(add(Tally(), shuffled[:cut]), shuffled[cut:]) == add(Tally(), blocks)


def test_a_block_counts_the_same_from_either_side() -> None:
    """A win of one is a loss of the other."""
    one, other = player(1), player(2)
    mine = BlockScore(variant="hex8_2p", one=one, other=other, points=3, comparisons=2)
    theirs = BlockScore(variant="hex8_2p", one=other, other=one, points=1, comparisons=2)

    actual = add(Tally(), [mine, theirs])

    assert actual.meetings == (Meeting(variant="hex8_2p", one=one, other=other, outcomes=((2, 3, 2),)),)


def test_a_player_against_itself_does_not_count() -> None:
    """Such a block is left out."""
    assert add(Tally(), [score_block("hex8_2p", player(1), player(1), [1.0, 0.0])]) == Tally()


@pytest.mark.parametrize(
    ("scores", "points", "comparisons"),
    [([1.0, 0.0], 2, 2), ([0.5, 1.0], 3, 2), ([1.0, 0.5, 0.25], 7, 6), ([1 / 3, 2 / 3, 0.5, 5 / 6], 14, 12)],
)
def test_rank_scores_are_whole_half_wins(scores: list[float], points: int, comparisons: int) -> None:
    """A share of opponents beaten is a number of half wins."""
    actual = score_block("hex8_2p", player(1), player(2), scores)

    assert (actual.points, actual.comparisons) == (points, comparisons)


@pytest.mark.parametrize("scores", [[0.3, 0.5], [1.5, 0.5], [-0.5, 0.5], [1.0], []])
def test_other_scores_are_refused(scores: list[float]) -> None:
    """A score that no ranking gives is an error, not a rounded number."""
    with pytest.raises(Unranked):
        score_block("hex8_2p", player(1), player(2), scores)


def test_a_tally_can_be_stored() -> None:
    """It comes back equal from its written form."""
    tally = add(Tally(), [score_block("hex8_3p", player(1), Player(weights="random", settings=""), [1.0, 0.5, 0.0])])

    assert msgspec.json.decode(msgspec.json.encode(tally), type=Tally) == tally
