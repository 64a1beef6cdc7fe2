"""Status names each fault of the machine while it lasts, with real processes and real disks, and never hangs."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.processes import Home

WRITER = """
import sys, apsw
db = apsw.Connection(sys.argv[1])
db.set_busy_timeout(5000)
db.execute("BEGIN IMMEDIATE")
print(flush=True)
input()
"""


@contextmanager
def writing(home: Home) -> "Iterator[subprocess.Popen[bytes]]":
    """A process of somebody else that holds the write lock of the store."""
    command = [sys.executable, "-c", WRITER, str(home.database)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_writer_that_does_not_end_is_named(played: Home) -> None:
    """With its process id, whether it is stopped or only slow; when it is gone there is no fault any more."""
    with writing(played) as process:
        code, running = played.run("status")
        process.send_signal(signal.SIGSTOP)
        _, stopped = played.run("status")
        _, reason = played.run("why", "hex8_2p")
        _, machine = played.run("doctor")
    after = played.run("status")[1]

    assert code == 0
    assert f"FAULT: store: process {process.pid} " in running
    assert "has held the write lock" in running
    assert f"holds the write lock and is stopped: run  kill -CONT {process.pid}  or end it" in stopped
    assert reason.startswith(f"FAULT: store: process {process.pid} ")
    assert f"kill -CONT {process.pid}" in machine
    assert "FAULT" not in after


@pytest.fixture
def mounted(played: Home, tmp_path: Path) -> Iterator[Home]:
    """A copy of the home on a small disk of its own."""
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], capture_output=True)
    if made.returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("needs the right to mount a small disk")
    shutil.copytree(played.path, folder / "home", symlinks=True)
    yield Home(folder / "home", (played.path / "ringrift.toml").read_text())
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_and_a_read_only_disk_are_named(mounted: Home) -> None:
    """Also as JSON, and also if the store cannot be read then; with room again there is no fault."""
    filler = mounted.path / "filler"
    with filler.open("wb") as file:
        try:
            while True:
                os.write(file.fileno(), bytes(1 << 16))
        except OSError:
            pass
    _, full = mounted.run("status", "--json")
    filler.unlink()
    subprocess.run(["mount", "-o", "remount,ro", str(mounted.path.parent)], check=True)
    _, read_only = mounted.run("status")
    subprocess.run(["mount", "-o", "remount,rw", str(mounted.path.parent)], check=True)

    assert any(fault.startswith("store: no room left at") for fault in json.loads(full)["faults"])
    assert "FAULT: store: the disk of" in read_only
    assert "read-only" in read_only
    assert "FAULT" not in mounted.run("status")[1]


def test_a_fault_is_named_also_if_the_store_cannot_be_read(mounted: Home) -> None:
    """The store is damaged and its disk is read-only: both are said, the exit code is 1."""
    mounted.database.write_bytes(b"not a database" * 1000)
    subprocess.run(["mount", "-o", "remount,ro", str(mounted.path.parent)], check=True)

    code, output = mounted.run("status")

    assert code == 1
    assert "FAULT: store: the disk of" in output
    assert "Traceback" not in output
    assert "ringrift: " in output
