"""Seeds that once broke a promise; the faults they revealed are repaired and stay so."""

import pytest

from ringrift.sim.scenario import run_seed

CORPUS = {
    1: "a claim that was cancelled while it committed left its jobs leased to a node that had stopped",
    8: "a node that was stopped while the disk was full raised NoRoom instead of leaving",
    15: "the coordinator that was stopped while the disk was full raised NoRoom instead of leaving",
    1081: "a dead letter replayed twice was searched in the log after compaction had dropped its event",
}


@pytest.mark.parametrize("seed", CORPUS)
def test_a_seed_that_once_failed_keeps_every_promise(seed: int) -> None:
    """The world of the seed is simulated again."""
    assert run_seed(seed).violations == []
