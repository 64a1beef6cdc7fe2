"""Playing a batch by torch alone, as a machine with a GPU does; here on the CPU, with the same code."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from reversi.test_workload import Quick, born, play_job
from ringrift.workload.api import JobContext, JobResult, JobSpec, Refused, Scalar
from ringrift.workload.conformance import check
from ringrift.workload.scratch import Scratch
from ringrift_reversi import net, records, stages, torch_selfplay
from ringrift_reversi.params import Heartbeat
from ringrift_reversi.torch_play import Finished
from ringrift_reversi.workload import Reversi

SMALL: dict[str, Scalar] = {"sims": 2, "gpu_slots": 8, "gpu_dtype": "float32"}


class OnTorch(Reversi):
    """Reversi whose players use torch alone, with a clock that makes them keep checkpoints all the time."""

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        params: dict[str, Scalar] = {**SMALL, "dtype": "float32", "steps": 4, "batch": 32, **job.params}
        job = JobSpec(job.job, job.stage, job.variant, job.seed, job.inputs, params, job.attempt)
        if job.stage == "play":
            return torch_selfplay.run(job, ctx, Quick(), device="cpu")
        return stages.run(job, ctx, Quick())


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Let torch use one core: on small tensors its threads mostly wait for each other, ten times as long."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
def test_a_player_on_torch_conforms(tmp_path: Path) -> None:
    """Killed, stopped or run twice, it passes the suite for plug-ins, and its games, more than slots, replay."""
    assert check(OnTorch(), "hex8_3p", tmp_path, games=6) == []


def test_a_missing_gpu_is_reported(tmp_path: Path) -> None:
    """A job that was sent to the wrong machine fails by name; params out of bounds are refused."""
    job, damaged = play_job(born(tmp_path), device="cuda"), play_job(born(tmp_path), gpu_dtype="float64")

    with pytest.raises(RuntimeError, match="CUDA"):
        Reversi().run(job, Scratch(tmp_path))
    with pytest.raises(Refused, match="gpu_dtype as one of"):
        torch_selfplay.run(damaged, Scratch(tmp_path), device="cpu")


def test_torch_selfplay_needs_only_torch_numpy_and_safetensors(tmp_path: Path) -> None:
    """A rented GPU needs neither a compiler nor anything else of ours."""
    model = Scratch(tmp_path).publish("model", net.save(net.new_net("hex8_2p", 1), {}), {}).blob
    code = f"""
import sys
for name in ("numba", "msgspec", "apsw"):
    sys.modules[name] = None
from pathlib import Path
from ringrift_reversi import torch_selfplay
from ringrift.workload.api import JobSpec
from ringrift.workload.scratch import Scratch
job = JobSpec("job", "play", "hex8_2p", 1, {{"model": ("{model}",)}}, {{**{SMALL}, "games": 3}})
print(torch_selfplay.run(job, Scratch(Path({str(tmp_path)!r})), device="cpu").metrics["games"])
"""

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stdout.strip()) == (0, "3.0"), ran.stderr


def test_heartbeats_continue_while_a_ply_takes_long(tmp_path: Path) -> None:
    """While the device compiles the job keeps its lease; a ply that never ends falls silent."""
    ctx, slow = Scratch(tmp_path), threading.Event()

    def plies() -> Iterator[Finished]:
        slow.wait(0.5)
        yield Finished(np.zeros(0, np.int64), records.empty(2))

    assert len(list(torch_selfplay._with_heartbeats(plies(), Heartbeat(ctx, Quick()), every=0.01, most=0.05))) == 1
    assert len(ctx.beats) == 5
