"""The suite is trusted only while removing a safeguard makes it fail."""

import pytest

from ringrift.sim.recorder import RecordingStore
from ringrift.sim.scenario import run_seed
from simulation.broken import Detached, Unfenced, Unsynced

SEEDS = range(1, 41)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("engine", "promises"),
    [(Unfenced, ("I6",)), (Unsynced, ("I1", "I2", "I18")), (Detached, ("I3", "I5"))],
    ids=["without fencing", "without fsync before ack", "with the position outside the effect's transaction"],
)
def test_a_broken_adapter_is_detected(engine: type[RecordingStore], promises: tuple[str, ...]) -> None:
    """Within forty seeds, a store without this safeguard breaks one of the promises it stands for."""
    violations = next((broken for seed in SEEDS if (broken := run_seed(seed, engine).violations)), [])

    assert any(text.startswith(promises) for text in violations), violations
