"""Power cuts: a disk whose unwritten pages are lost, and the processes that write to it.

The disk is ext4 in a file.  What the kernel has not written to that file yet, since no process asked for it, is in no
copy of the file: a copy that is made while all writers are stopped is the disk as a power cut would leave it.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from e2e.processes import PATIENCE_SECONDS
from wait import until

MEBIBYTE = 1 << 20
_SIZE, _MEMORY = 64 * MEBIBYTE, Path("/dev/shm")
# Without an own rhythm of the file system only what was asked for is written, however slow this machine is.
_OPTIONS = "loop,commit=300"


def _run(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)


def _is_stopped(pid: int) -> bool:
    """Whether no thread of *pid* runs or is in a call to the disk."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return all((thread / "stat").read_text().rpartition(") ")[2][0] == "T" for thread in threads)


class Disk:
    """A file system in the file *image*, mounted at *folder*."""

    def __init__(self, image: Path, folder: Path) -> None:
        self.image, self.folder = image, folder
        self._writers: list[Writer] = []

    def mount(self) -> str:
        """Mount it; why it could not be done, or nothing."""
        self.folder.mkdir(exist_ok=True)
        return _run("mount", "-o", _OPTIONS, self.image, self.folder).stderr

    def start(self, *words: str) -> "Writer":
        """Start a process that writes to this disk."""
        self._writers.append(Writer(self.folder, *words))
        return self._writers[-1]

    def lose_power(self, pids: Collection[int]) -> None:
        """Let the power fail: *pids*, which write here, end, and what no process asked to write is lost."""
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
            until(partial(_is_stopped, pid), PATIENCE_SECONDS)
        beside = self.image.with_name(f"{self.image.name}+")
        shutil.copyfile(self.image, beside)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        until(lambda: not _run("umount", self.folder).stderr, PATIENCE_SECONDS)
        beside.replace(self.image)
        assert not (reason := self.mount()), reason

    def unmount(self) -> None:
        """End its writers and unmount it."""
        for writer in self._writers:
            writer.kill()
        _run("umount", "-l", self.folder)

    def commit(self) -> None:
        """Write down names and sizes, but not the content of other files, as any flush of any process may do."""
        descriptor = os.open(self.folder / "other", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, b"x")
        os.fsync(descriptor)
        os.close(descriptor)

    @contextmanager
    def after_power_cut(self, *writers: "Writer") -> Iterator[Path]:
        """The content of this disk if the power fails now: *writers* are stopped, and killed once it is copied."""
        for writer in writers:
            writer.stop()
        beside = self.image.with_name(f"cut-{len(list(self.image.parent.iterdir()))}")
        shutil.copyfile(self.image, beside)
        for writer in writers:
            writer.kill()
        cut = Disk(beside, beside.with_suffix(".mounted"))
        assert not (reason := cut.mount()), reason
        try:
            yield cut.folder
        finally:
            cut.unmount()
            beside.unlink()


@contextmanager
def make_disk(folder: Path) -> Iterator[Disk]:
    """A new disk, mounted in *folder*; the test is skipped where none can be made, but not in CI.

    Its image is in memory where that is possible: other programs that write much do not slow it down.
    """
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else folder) as images:
        disk = Disk(Path(images) / "image", folder / "mounted")
        with disk.image.open("wb") as file:
            file.truncate(_SIZE)
        try:
            reason = _run("mkfs.ext4", "-q", "-F", disk.image).stderr or disk.mount()
        except FileNotFoundError as error:
            reason = str(error)
        if reason:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(
                f"NO POWER CUTS: this machine cannot mount ext4 on a loop device (root is needed): {reason.strip()}"
            )
        try:
            yield disk
        finally:
            disk.unmount()


class Writer:
    """A process that writes to a disk and reports what was acknowledged, a line each."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "e2e.power_writer", str(folder), *words],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.acknowledged: list[str] = []

    def read(self) -> str:
        """The next acknowledgement; waits for it."""
        assert self._process.stdout is not None
        if line := self._process.stdout.readline().strip():
            self.acknowledged.append(line)
        return line

    def step(self) -> str:
        """Let the writer do one more thing; its acknowledgement, or nothing if it died at a failpoint."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self.read()

    def stop(self) -> None:
        """Stop it where it is; on return none of its threads is in a call to the disk any more."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGSTOP)
            until(partial(_is_stopped, self._process.pid), PATIENCE_SECONDS)

    def kill(self) -> None:
        """End it, and read what it had acknowledged before it was stopped."""
        self._process.kill()
        output, _ = self._process.communicate()
        self.acknowledged += output.splitlines()
