"""Fixtures of the end-to-end tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from e2e.far_folder import far  # noqa: F401 - a fixture
from e2e.processes import Home
from e2e.ssh_server import ssh_server  # noqa: F401 - a fixture
from s3_server import s3, s3_url  # noqa: F401 - fixtures


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A home of its own; none of its processes is left running afterwards."""
    made = Home(tmp_path / "home")
    yield made
    made.clear()


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home whose loop has completed one round.  It is never used again: tests get copies."""
    home = Home(tmp_path_factory.mktemp("once") / "home")
    code, output = home.run("run", "--iterations", "1", "--variants", "hex8_2p")
    assert code == 0, output
    return home


@pytest.fixture
def played(once: Home, tmp_path: Path) -> Iterator[Home]:
    """A copy of a home whose loop has completed one round; none of its processes is left running afterwards."""
    made = once.copied(tmp_path / "played")
    yield made
    made.clear()


@pytest.fixture
def gone() -> Callable[[Home], bool]:
    """Whether every worker of a home has ended, or ends within seconds."""

    def wait(home: Home) -> bool:
        workers = []
        for pid in home.orphans():
            try:
                workers.append(psutil.Process(pid))
            except psutil.NoSuchProcess:
                continue
        _, alive = psutil.wait_procs(workers, timeout=5)
        return not [process for process in alive if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]

    return wait
