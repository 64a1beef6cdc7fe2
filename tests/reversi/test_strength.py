"""The loop learns: play, export, train, and the trained model beats the one it came from."""

import math
from pathlib import Path

import pytest

from ringrift.workload.api import JobResult, JobSpec, Scalar
from ringrift.workload.scratch import Scratch
from ringrift_reversi.workload import Reversi

VARIANT = "square8_2p"
BLOCKS = 64
Z_99 = 2.326


def lower_bound(score: float, count: int) -> float:
    """Wilson's lower 99 % bound of a share."""
    z = Z_99**2 / count
    return (score + z / 2 - Z_99 * math.sqrt(score * (1 - score) / count + z / 4 / count)) / (1 + z)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_rounds_beat_generation_0(tmp_path: Path) -> None:
    """After two short rounds the lower 99 % bound of the score, over distinct openings, is above one half."""
    ctx = Scratch(tmp_path)

    def run(stage: str, inputs: dict[str, tuple[str, ...]], **params: Scalar) -> JobResult:
        return Reversi().run(JobSpec("job", stage, VARIANT, 1, inputs=inputs, params=params), ctx)

    first = model = run("train", {}).outputs[0].blob
    batches: tuple[str, ...] = ()
    for _ in range(2):
        batches += (run("play", {"model": (model,)}, games=256).outputs[0].blob,)
        samples = run("export", {"batches": batches}).outputs[0].blob
        model = run("train", {"samples": (samples,), "parent": (model,)}, steps=250).outputs[0].blob
    result = run("match", {"candidate": (model,), "champion": (first,)}, first=0, count=BLOCKS)

    # An opening counts once, however many seats it is played from: games of one opening are not independent.
    score = sum(sum(block.scores) / 2 for block in result.blocks) / BLOCKS
    assert lower_bound(score, BLOCKS) > 0.5
