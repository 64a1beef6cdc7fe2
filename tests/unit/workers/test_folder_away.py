"""A worker whose blob folder goes away says so: no job and no file is to blame."""

from pathlib import Path

import pytest

from ringrift.blobs.folder import Folder
from ringrift.kernel.errors import NoRoute
from ringrift.work.launch.process import FromChild, ToChild
from ringrift.workers.context import WorkerContext
from ringrift.workers.main import _answer
from ringrift.workload.api import JobResult, JobSpec
from ringrift.workload.fake import Fake

MODEL = "a" * 64
SPEC = JobSpec(job="j", stage="play", variant="hex8_2p", seed=1, attempt=1, inputs={}, params={})


class Unlucky(Fake):
    """A workload that fails as it would when a file is not there."""

    def __init__(self, verb: str, folder: Path) -> None:
        self._verb, self._folder = verb, folder

    def run(self, job: JobSpec, ctx: WorkerContext) -> JobResult:
        match self._verb:
            case "open":
                ctx.open_input(MODEL)
            case "publish":
                ctx.publish("games", b"games", {})
            case "read":
                (self._folder / "aa" / MODEL).read_bytes()
        raise AssertionError("it goes on")


def answer(folder: Path, verb: str) -> FromChild:
    """The worker's answer to a job that uses its folder so."""
    context = WorkerContext(Folder(folder, "n1"), lambda _: None, lambda: False, ToChild())
    return _answer(Unlucky(verb, folder), SPEC, context)


@pytest.mark.parametrize("verb", ["open", "publish", "read"])
def test_a_job_whose_disk_is_away_is_not_at_fault(tmp_path: Path, verb: str) -> None:
    """Whatever the job was doing, the answer names the node whose disk is not there, and no blob."""
    message = answer(tmp_path, verb)

    assert message.away is not None
    assert (message.away[0], message.blob) == ("n1", None)


def test_a_file_that_is_absent_here_is_not_called_bad(tmp_path: Path) -> None:
    """With the disk in place the job fails and is tried again, but other nodes may well have the file."""
    Folder(tmp_path, "n1").mark()

    message = answer(tmp_path, "open")

    assert (message.away, message.blob, message.retry) == (None, None, True)
    assert NoRoute.__name__ in str(message.error)
