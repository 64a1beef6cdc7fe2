"""How far a model has come among the nodes that should have it."""

import pytest

from ringrift.cluster.peers import PeerRecord, Spread, measure_spread

MODEL = "ab" * 32


@pytest.mark.parametrize(
    ("delays", "p95"),
    [
        ([3.0], 3.0),
        ([-5.0], 0.0),
        ([float(number) for number in range(1, 21)], 19.0),
        ([1.0] * 19 + [None], 1.0),
        ([1.0] * 18 + [None] * 2, None),
        ([], None),
    ],
)
def test_the_95th_percentile_is_there_once_so_many_have_it(delays: list[float | None], p95: float | None) -> None:
    """Of all nodes, not of those that have it; one that had it before took no time."""
    rows = {
        f"w{n}": PeerRecord(node=f"w{n}", ready={} if d is None else {MODEL: 100.0 + d}) for n, d in enumerate(delays)
    }

    spread = measure_spread(MODEL, 100.0, rows, list(rows))

    assert spread == Spread(nodes=len(delays), ready=sum(d is not None for d in delays), p95_seconds=p95)


def test_a_node_that_has_never_reported_counts_as_one_without() -> None:
    """Nothing is known of it."""
    assert measure_spread(MODEL, 0.0, {}, ["w1"]) == Spread(nodes=1, ready=0)
