"""Every seed of a cluster over the wire keeps every promise; the same seed gives the same run."""

import os

import pytest

from ringrift.sim.remote_scenario import run_remote_seed

SEEDS = int(os.environ.get("RINGRIFT_SIM_SEEDS", "200"))
SEEDS_PER_TEST = 10


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(1, SEEDS + 1, SEEDS_PER_TEST))
def test_workers_over_a_bad_network_keep_every_promise(first: int) -> None:
    """Loss, delay, duplicates, partitions, kills, pauses and power cuts break no promise.  Replay: make sim SEED=…"""
    outcomes = [run_remote_seed(seed) for seed in range(first, min(first + SEEDS_PER_TEST, SEEDS + 1))]

    broken = {outcome.seed: outcome.violations for outcome in outcomes if outcome.violations}
    assert broken == {}


def test_a_seed_gives_the_same_run_twice() -> None:
    """Two runs of a seed take the same steps in the same order, so a failure can be replayed."""
    first, second = run_remote_seed(7), run_remote_seed(7)

    assert first.fingerprint == second.fingerprint
    assert first.story == second.story
