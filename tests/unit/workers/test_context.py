"""What a job reports reaches its node, also where a number is not finite."""

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from ringrift.blobs.folder import Folder
from ringrift.work.launch.process import FromChild, ToChild
from ringrift.workers.context import WorkerContext
from ringrift.workers.main import _answer
from ringrift.workload.api import Artifact, JobResult, JobSpec
from ringrift.workload.fake import Fake

SPEC = JobSpec(job="j", stage="train", variant="hex8_2p", seed=1, attempt=1, inputs={}, params={})


def context(folder: Path, lines: list[bytes]) -> WorkerContext:
    """A context that collects the lines it would send."""
    return WorkerContext(Folder(folder), lambda m: lines.append(msgspec.json.encode(m)), lambda: False, ToChild())


def read(line: bytes) -> FromChild:
    """What the node reads."""
    return msgspec.json.decode(line, type=FromChild)


def test_metrics_that_are_not_finite_are_left_out(tmp_path: Path) -> None:
    """A loss of NaN ends no job: the other metrics, the share and its outputs arrive."""
    lines: list[bytes] = []
    ctx = context(tmp_path, lines)

    ctx.heartbeat(0.5, loss=math.nan, rate=math.inf, games=3)
    ctx.heartbeat(math.nan)
    artifact = ctx.publish("model", b"weights", {"loss": math.nan, "games": 3, "name": "m"})

    first, second = map(read, lines)
    assert (first.done, first.metrics, second.done) == (0.5, {"games": 3.0}, 0.5)
    assert artifact.meta == {"games": 3, "name": "m"}


def test_a_result_with_a_metric_that_is_not_finite_arrives(tmp_path: Path) -> None:
    """The result of a workload that diverged is handed in without that metric."""

    class Diverged(Fake):
        """A workload whose loss is no number."""

        def run(self, job: JobSpec, ctx: object) -> JobResult:
            return JobResult(outputs=(Artifact("model", "b" * 64, 1, {}),), metrics={"loss": math.nan, "games": 3.0})

    answer = _answer(Diverged(), SPEC, context(tmp_path, []))

    result = read(msgspec.json.encode(answer)).result
    assert result is not None
    assert "loss" not in result.metrics
    assert (result.metrics["games"], len(result.outputs)) == (3.0, 1)


def test_what_is_finite_arrives_as_it_is(tmp_path: Path) -> None:
    """Numbers and texts are not touched."""
    lines: list[bytes] = []
    ctx = context(tmp_path, lines)

    ctx.heartbeat(0.25, loss=0.5, games=3)
    meta = ctx.publish("model", b"weights", {"loss": 0.5, "name": "m", "last": True}).meta

    assert (read(lines[0]).done, read(lines[0]).metrics) == (0.25, {"loss": 0.5, "games": 3.0})
    assert meta == {"loss": 0.5, "name": "m", "last": True}


def test_every_job_reports_how_long_it_took_and_what_it_used(tmp_path: Path) -> None:
    """With the programs that it ran; and what the workload itself reports under these names is stronger."""

    class Busy(Fake):
        """A workload that lets another program do the work."""

        def run(self, job: JobSpec, ctx: object) -> JobResult:
            subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
            return JobResult(metrics={"seconds": 99.0} if job.seed else {})

    measured, reported = (_answer(Busy(), replace(SPEC, seed=seed), context(tmp_path, [])).result for seed in (0, 1))

    assert measured is not None
    assert measured.metrics["cpu_seconds"] > 0
    assert measured.metrics["seconds"] > 0
    assert reported is not None
    assert reported.metrics["seconds"] == 99.0
