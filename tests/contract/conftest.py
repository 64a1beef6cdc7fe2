"""The engines that every contract is run against, other processes to meet there, and a disk that is soon full."""

import os
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest

from contract.engines import Engine
from contract.stage import Stage
from ringrift.sim.disk import Disk

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
    disk.close()


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
    line = ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=64", "none", str(folder)]
    try:
        subprocess.run(line, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as refused:
        why = f"a small disk cannot be mounted here: {refused}"
        pytest.fail(why) if os.environ.get("CI") == "true" else pytest.skip(why)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
