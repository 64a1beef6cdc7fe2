"""The engines that every contract is run against, other processes to meet there, and a disk that is soon full."""

import os
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest

from contract.engines import Engine
from contract.stage import Stage
from ringrift.sim.disk import Disk
from s3_server import s3, s3_url  # noqa: F401 - fixtures

_numbers = count()


@pytest.fixture
def on_file(tmp_path: Path) -> Engine:
    """SQLite in a real file, with threads."""
    return Engine(tmp_path / "home" / "store.db")


@pytest.fixture
def on_lossy() -> Iterator[Engine]:
    """SQLite on the simulator's lossy disk, on one thread."""
    disk = Disk(f"lossy-{next(_numbers)}", Random(7))
    yield Engine(Path("store.db"), disk)
    disk.unregister()


@pytest.fixture(params=["on_file", "on_lossy"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Every engine of the store in turn."""
    engine: Engine = request.getfixturevalue(request.param)
    return engine


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Other processes, started on demand and ended with the test."""
    stage = Stage()
    yield stage
    stage.clear()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of one megabyte with few files to give."""
    folder = tmp_path / "small"
    folder.mkdir()
    require("mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=64", "none", str(folder))
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def other_mounts(tmp_path: Path) -> Callable[[str], list[str]]:
    """Make the beginning of a command line under which a process sees the given mounts."""
    require("unshare", "--mount", "mount", "--bind", str(tmp_path), "/proc")

    def published(mounts: str) -> list[str]:
        folder = tmp_path / "proc"
        folder.mkdir()
        (folder / "mounts").write_text(mounts)
        script = 'mount --bind "$0" /proc && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", script, str(folder)]

    return published


def require(*line: str) -> None:
    """Run a command that needs special privileges; without them the test is skipped, but not in CI."""
    try:
        subprocess.run(line, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as refused:
        why = f"not permitted here: {refused}"
        pytest.fail(why) if os.environ.get("CI") == "true" else pytest.skip(why)
