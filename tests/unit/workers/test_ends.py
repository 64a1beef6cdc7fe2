"""How a job ended is explained by file and line: it raised, crashed, or hung until it was killed."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from ringrift.blobs.folder import Folder
from ringrift.kernel.errors import ChildDied
from ringrift.kernel.settings import LogSettings
from ringrift.work.failures import TRACEBACK_CHARACTERS_MAX
from ringrift.work.launch.output import attempts, read_output, worker_name
from ringrift.work.launch.ports import Progress
from ringrift.work.launch.process import ProcessLaunch
from ringrift.workers.main import _answer
from ringrift.workload import fake
from ringrift.workload.api import JobSpec, Refused
from ringrift.workload.fake import Fake
from unit.workers.test_context import SPEC, context
from wait import wait_until


def spec(job: str, **params: str) -> JobSpec:
    """A match between two players that never train, with faults."""
    match = {"candidate": "random", "champion": "greedy", "first": 0, "count": 8}
    return JobSpec(job, "match", "hex8_2p", 1, {}, {**match, **params}, 1)


def text_of(folder: Path, name: str, attempt: int = 1) -> str:
    """The output of an attempt."""
    return b"".join(piece.data for piece in read_output(folder, name, attempt)).decode()


class Raising(Fake):
    """A workload with a bug."""

    def run(self, job: JobSpec, ctx: object) -> object:
        return deep(100) if job.seed else refuse()


def deep(levels: int) -> object:
    """Fail far down, by frames that differ from their neighbours: equal ones would be counted instead of listed."""
    return {}["root"] if levels == 0 else deeper(levels - 1)


def deeper(levels: int) -> object:
    """The same."""
    return {}["root"] if levels == 0 else deep(levels - 1)


def refuse() -> object:
    """Refuse the job."""
    raise Refused("no such variant")


def test_a_raise_is_sent_with_the_end_of_its_traceback(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It begins in the workload's own code, ends with the error, is bounded, and is printed whole."""
    answer = _answer(Raising(), JobSpec("j", "play", "hex8_2p", 1), context(tmp_path, []))

    assert answer.error == answer.traceback.splitlines()[-1] == "KeyError: 'root'"
    assert f'File "{__file__}", line' in answer.traceback
    assert len(answer.traceback) == TRACEBACK_CHARACTERS_MAX
    printed = capfd.readouterr().err
    assert printed.startswith("Traceback (most recent call last):\n" + f'  File "{__file__}"')
    assert printed.endswith(answer.traceback)


def test_a_refusal_says_where_it_was_made(tmp_path: Path) -> None:
    """It is permanent, so that the line of code matters most."""
    answer = _answer(Raising(), JobSpec("j", "play", "hex8_2p", 0), context(tmp_path, []))

    assert (answer.error, answer.retry) == ("no such variant", False)
    assert "in refuse" in answer.traceback


def test_a_workload_that_exits_has_failed_like_any_other(tmp_path: Path) -> None:
    """sys.exit in a workload ends its job and not the worker, and its place is known."""

    class Exiting(Fake):
        """Leaves."""

        def run(self, job: JobSpec, ctx: object) -> object:
            raise SystemExit(3)

    answer = _answer(Exiting(), SPEC, context(tmp_path, []))

    assert answer.error == "SystemExit: 3"
    assert "in run" in answer.traceback


def test_a_job_that_hangs_is_killed_with_its_stack(tmp_path: Path) -> None:
    """Its last report says where it was, and so does its output; its neighbour's output is its own."""
    reports = list[Progress]()

    async def story() -> None:
        Folder(tmp_path / "blobs", "n1").mark()
        launch = ProcessLaunch(tmp_path / "blobs", {}, "n1", LogSettings(folder=str(tmp_path)))
        worker = await launch.start("fake")
        try:
            await worker.run(spec("01JOBA"), None, reports.append)
            reports.clear()
            task = asyncio.create_task(worker.run(spec("01JOBB", fake_hang="always"), None, reports.append))
            await wait_until(lambda: len(reports) >= 2, seconds=20.0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        finally:
            await worker.end(0.0)

    asyncio.run(story())

    assert f'File "{fake.__file__}", line' in reports[-1].traceback
    assert f'File "{fake.__file__}", line' in text_of(tmp_path, "01JOBB")
    assert attempts(tmp_path, "01JOBA") == []
    assert attempts(tmp_path, worker_name("n1")) == []


def test_a_worker_that_dies_reports_no_stack_it_has_not_printed(tmp_path: Path) -> None:
    """The death of a worker is no progress of its job."""
    reports = list[Progress]()

    async def story() -> None:
        Folder(tmp_path / "blobs", "n1").mark()
        worker = await ProcessLaunch(tmp_path / "blobs", {}, "n1", LogSettings(folder=str(tmp_path))).start("fake")
        try:
            with pytest.raises(ChildDied) as death:
                await worker.run(spec("01JOBC", fake_crash="always"), None, reports.append)
            assert str(death.value) == "the worker ended with exit 13"  # without the marks of its output
        finally:
            await worker.end(0.0)

    asyncio.run(story())

    assert [report.traceback for report in reports if report.traceback] == []


GAME = """
import faulthandler
from ringrift.workload.fake import Fake
print("loading the game")

class Crashing(Fake):
    name = "crashing"

    def run(self, spec, context):
        print("plays")
        if spec.seed:
            touch_bad_memory()
        return super().run(spec, context)

def touch_bad_memory():
    faulthandler._sigsegv()
"""


def test_a_crash_in_c_code_is_explained_by_file_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was printed before it is not lost; what was printed while the game was loaded belongs to no job."""
    site = tmp_path / "site"
    (site / "crashing-1.0.dist-info").mkdir(parents=True)
    (site / "crashing.py").write_text(GAME)
    (site / "crashing-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: crashing\nVersion: 1.0\n")
    entry = "[ringrift.workloads]\ncrashing = crashing:Crashing\n"
    (site / "crashing-1.0.dist-info" / "entry_points.txt").write_text(entry)
    monkeypatch.setenv("PYTHONPATH", str(site))
    reports = list[Progress]()

    async def story() -> None:
        Folder(tmp_path / "blobs", "n1").mark()
        worker = await ProcessLaunch(tmp_path / "blobs", {}, "n1", LogSettings(folder=str(tmp_path))).start("crashing")
        try:
            with pytest.raises(ChildDied):
                await worker.run(spec("01JOBD"), None, reports.append)
        finally:
            await worker.end(0.0)

    asyncio.run(story())

    assert f'File "{site}/crashing.py", line 16 in touch_bad_memory' in reports[-1].traceback
    assert text_of(tmp_path, "01JOBD").startswith("plays\nFatal Python error: Segmentation fault")
    assert text_of(tmp_path, worker_name("n1"), 0) == "loading the game\n"
