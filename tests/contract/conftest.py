"""The engines that every contract is run against."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest

from contract.engines import Engine
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
