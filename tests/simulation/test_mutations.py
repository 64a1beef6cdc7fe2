"""The suite is trusted only while removing a safeguard makes it fail."""

import re

import pytest

from ringrift.sim.recorder import RecordingStore
from ringrift.sim.scenario import run_seed
from simulation.broken import Detached, Hasty, Unfenced, Unsynced

SEEDS = range(1, 41)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("engine", "promises"),
    [
        (Unfenced, r"I6:"),
        (Unsynced, r"I1:|I2:|I18:"),
        (Detached, r"I3:|I5:|\d+ batches were announced"),
        (Hasty, r"job .* was given up"),
    ],
    ids=[
        "without fencing",
        "without fsync before ack",
        "with the position outside the effect's transaction",
        "with one failure that buries a job",
    ],
)
def test_a_broken_adapter_is_detected(engine: type[RecordingStore], promises: str) -> None:
    """Within forty seeds, a store without this safeguard breaks one of the promises it stands for."""
    outcomes = (run_seed(seed, engine).violations for seed in SEEDS)

    assert any(re.match(promises, text) for violations in outcomes for text in violations)
