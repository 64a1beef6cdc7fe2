"""Copies go where they are missing, here first, and never where one is already."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.sync.plan import targets

NODES = st.sampled_from(["a", "b", "c", "d", "e", "f"])
DURABLE = st.dictionaries(NODES, st.booleans(), max_size=6)


@settings(max_examples=40)
@given(st.sets(NODES), DURABLE, NODES, st.integers(1, 8))
def test_copies_go_where_they_are_missing(
    holders: set[str], durable: dict[str, bool], here: str, copies_min: int
) -> None:
    """For every set of nodes: no holder gets a copy, no node gets two, and every missing copy is made if there is
    room."""
    chosen = targets(holders, durable, here, copies_min)

    present = set(durable)
    missing = max(copies_min - len(present & holders), 0)
    assert set(chosen) <= present - holders
    assert len(set(chosen)) == len(chosen) == min(missing, len(present - holders))
    assert not chosen or here not in present - holders or chosen[0] == here
    others = [durable[node] for node in chosen if node != here]
    assert others == sorted(others, reverse=True)


@pytest.mark.parametrize(
    ("holders", "here", "copies_min", "expected"),
    [
        ((), "b", 2, ["b", "a"]),
        ((), "x", 2, ["a", "b"]),
        (("a",), "b", 2, ["b"]),
        (("a", "b"), "b", 2, []),
        ((), "b", 9, ["b", "a", "c"]),
        (("gone", "away"), "b", 2, ["b", "a"]),
        (("a",), "c", 2, ["c"]),
    ],
)
def test_this_node_comes_first_then_durable_nodes(
    holders: tuple[str, ...], here: str, copies_min: int, expected: list[str]
) -> None:
    """Holders that are not present do not count, and a machine that may vanish comes last unless it is this one."""
    durable = {"c": False, "b": True, "a": True}

    assert targets(holders, durable, here, copies_min) == expected
