"""``checkpoint_games`` bounds the finished games that are lost with a machine, whatever its clock says."""

from pathlib import Path

import pytest

from ringrift.workload.api import JobSpec, Scalar
from ringrift.workload.scratch import Scratch
from ringrift_reversi import records, stages, tensors

VARIANT, GAMES, SLOTS = "square8_2p", 12, 3


class Frozen:
    """A clock on which nothing takes any time: no checkpoint is due by time."""

    def now(self) -> float:
        return 0.0

    def tick(self) -> float:
        return 0.0


class Machine(Scratch):
    """Counts the games that have left the machine with each checkpoint."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.saved = list[int]()

    def checkpoint(self, data: bytes) -> None:
        """Store *data* and the number of games in it."""
        super().checkpoint(data)
        arrays, _ = tensors.unpack(data, records.BATCH_BYTES_MAX)
        self.saved.append(len(arrays["numbers"]))


def played(folder: Path, checkpoint_games: int) -> list[int]:
    """The games in each checkpoint of a batch."""
    train = JobSpec("train", "train", VARIANT, 1, {}, {"steps": 1, "batch": 8, "generation": 0})
    model = stages.run(train, Scratch(folder)).outputs[0].blob
    params: dict[str, Scalar] = {"games": GAMES, "sims": 2, "slots": SLOTS, "dtype": "float32"}
    params["checkpoint_games"] = checkpoint_games
    machine = Machine(folder)
    stages.run(JobSpec("play", "play", VARIANT, 7, {"model": (model,)}, params), machine, Frozen())
    return machine.saved


@pytest.mark.parametrize("checkpoint_games", [1, 4])
def test_a_batch_is_checkpointed_after_so_many_games(checkpoint_games: int, tmp_path: Path) -> None:
    """Between two checkpoints lie at most so many games, and those that end in the same step."""
    saved = played(tmp_path, checkpoint_games)

    gaps = [after - before for before, after in zip([0, *saved], [*saved, GAMES], strict=True)]
    assert len(saved) >= GAMES // (checkpoint_games + SLOTS)
    assert max(gaps) < checkpoint_games + SLOTS
    assert min(gaps[:-1]) >= checkpoint_games


def test_without_it_time_alone_decides(tmp_path: Path) -> None:
    """On a clock that stands still there is no checkpoint."""
    assert played(tmp_path, 0) == []
