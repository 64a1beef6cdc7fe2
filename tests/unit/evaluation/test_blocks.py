"""Blocks count by their number, and only up to the first that is missing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.evaluation.blocks import means, merge, prefix
from ringrift.events.evaluation import Block


def block(number: int, *scores: float) -> Block:
    """One block."""
    return Block(number=number, scores=scores or (1.0, 0.0))


@pytest.mark.parametrize(
    ("numbers", "length"),
    [((), 0), ((0,), 1), ((1,), 0), ((0, 1, 2), 3), ((0, 1, 3, 4), 2), ((2, 3), 0), ((0, 2, 4, 6), 1)],
)
def test_the_prefix_ends_at_the_first_hole(numbers: tuple[int, ...], length: int) -> None:
    """Blocks 0, 1, 2 … count as far as none is missing."""
    blocks = [block(number) for number in numbers]

    assert prefix(blocks) == tuple(blocks[:length])


def test_merging_sorts_by_number() -> None:
    """Results arrive in any order and are stored in the order of their dispatch."""
    assert merge([block(4), block(5)], [block(9), block(2)]) == (block(2), block(4), block(5), block(9))


def test_the_first_result_of_a_block_stands() -> None:
    """A block that was played twice counts as it was played first, not as it came out better."""
    first = merge((), [block(0, 0.0, 0.0)])

    assert merge(first, [block(0, 1.0, 1.0), block(1)]) == (block(0, 0.0, 0.0), block(1))


def test_the_first_of_two_results_in_one_message_stands() -> None:
    """The rule holds inside one message too: sending both gives no choice."""
    assert merge((), [block(0, 0.0, 0.0), block(0, 1.0, 1.0)]) == (block(0, 0.0, 0.0),)


@settings(max_examples=30)
@given(st.permutations(range(12)), st.data())
def test_the_order_of_arrival_does_not_matter(order: list[int], data: st.DataObject) -> None:
    """For every split of twelve blocks into messages, in any order, the same twelve are stored in the end."""
    blocks = [block(number, number / 12, 0.0) for number in order]
    state: tuple[Block, ...] = ()

    while blocks:
        size = data.draw(st.integers(min_value=1, max_value=len(blocks)))
        state, blocks = merge(state, blocks[:size]), blocks[size:]

    assert state == prefix(state)
    assert [block.number for block in state] == list(range(12))
    assert [block.scores[0] for block in state] == [number / 12 for number in range(12)]


def test_a_block_counts_as_its_mean() -> None:
    """One opening is one observation, for any number of seats."""
    assert means([block(0, 1.0, 0.0), block(1, 1.0, 0.5, 0.0), block(2, 0.0)]) == [0.5, 0.5, 0.0]
