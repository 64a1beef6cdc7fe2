"""A worker of the first commit that speaks the wire works beside one of today, and one that is too old is told so."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.processes import PATIENCE_SECONDS, QUICK, Home
from wait import until

ROOT = Path(__file__).parents[2]
FIRST_FILE = "src/ringrift/worker.py"
MAIN = "import sys; from ringrift.cli.main import main; main(sys.argv[1:])"
TOO_OLD = f"import ringrift.wire.ports as ports; ports.WIRE_VERSION = 0; {MAIN}"
WHERE = "import ringrift.worker; print(ringrift.worker.__file__)"
SETTINGS = QUICK.replace("play_jobs_open = 2", "play_jobs_open = 8") + "[work.params]\nfake_slow_seconds = 0.3\n"
RESULTS = 5


def git(*words: str) -> str:
    """What git says about this checkout."""
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def first(tmp_path: Path) -> Iterator[Path]:
    """A worktree of the first commit that speaks the wire."""
    try:
        if git("rev-parse", "--is-shallow-repository") == "true":
            pytest.skip("NO HISTORY: this checkout is shallow")
        commits = git("log", "--diff-filter=A", "--format=%H", "--", FIRST_FILE).split()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"NO HISTORY: {error}")
    if not commits:
        pytest.skip(f"no commit has {FIRST_FILE} yet")
    folder = tmp_path / "first"
    git("worktree", "add", "--detach", str(folder), commits[-1])
    try:
        yield folder
    finally:
        git("worktree", "remove", "--force", str(folder))


class Fleet:
    """A coordinator of today and workers of any version, each in a home of its own on this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._started = folder, list[subprocess.Popen[str]]()
        self.coordinator = Home(folder / "c", SETTINGS)
        self.url = ""

    def launch(self, name: str, program: str, *arguments: str, source: Path | None = None) -> "subprocess.Popen[str]":
        """Start *program* in the home of *name* with the code of *source*, or of today."""
        home = Home(self._folder / name, SETTINGS)
        env = {**os.environ, "RINGRIFT_HOME": str(home.path), "RINGRIFT_NODE_ID": name}
        env |= {"PYTHONPATH": str(source / "src")} if source else {}
        with (self._folder / f"{name}.log").open("a") as log:
            line = [sys.executable, "-c", program, *arguments]
            process = subprocess.Popen(line, env=env, stdout=log, stderr=log, text=True, start_new_session=True)
        self._started.append(process)
        return process

    def output(self, name: str) -> str:
        """What the processes of *name* have printed."""
        return (self._folder / f"{name}.log").read_text()

    def start_coordinator(self) -> None:
        """Start the coordinator at a free port."""
        process = self.launch("c", MAIN, "coordinator", "--port", "0", "--variants", "hex8_2p")

        def is_served() -> bool:
            assert process.poll() is None, self.output("c")
            self.url = next((word for word in self.output("c").split() if word.startswith("http://127.0.0.1:")), "")
            return bool(self.url)

        until(is_served, PATIENCE_SECONDS)
        self.url = self.url.rstrip(".,;")

    def token(self) -> str:
        """A file with a token to join with."""
        file = self._folder / f"token{len(self._started)}"
        process = self.launch("c", MAIN, "nodes", "token", "--out", str(file))
        assert process.wait(PATIENCE_SECONDS) == 0, self.output("c")
        return str(file)

    def results(self, name: str) -> int:
        """How many batches of games of *name* the coordinator has announced."""
        query = "SELECT count(*) FROM log WHERE name = 'selfplay.batch_finished' AND json_extract(body, '$.node') = ?"
        return int(self.coordinator.ask(query, name)[0][0])

    def clear(self) -> None:
        """End every process."""
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._started:
            process.wait(PATIENCE_SECONDS)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A coordinator that runs."""
    made = Fleet(tmp_path)
    try:
        made.start_coordinator()
        yield made
    finally:
        made.clear()


def test_a_worker_of_the_first_version_works_beside_one_of_today(fleet: Fleet, first: Path) -> None:
    """Both do jobs of one coordinator, and the loop promotes what they made."""
    fleet.launch("where", WHERE, source=first).wait(PATIENCE_SECONDS)
    assert fleet.output("where").strip().startswith(str(first))

    fleet.launch("old", MAIN, "join", fleet.url, "--token-file", fleet.token(), source=first)
    fleet.launch("new", MAIN, "join", fleet.url, "--token-file", fleet.token())

    def is_done() -> bool:
        line = fleet.coordinator.lines().get("hex8_2p")
        return min(map(fleet.results, ("old", "new"))) >= RESULTS and line is not None and line.generation >= 1

    try:
        until(is_done, 2 * PATIENCE_SECONDS)
    except TimeoutError:
        raise AssertionError(f"{fleet.output('c')[-1500:]}{fleet.output('old')}{fleet.output('new')}") from None
    assert fleet.coordinator.ask("SELECT reader, error FROM deliveries") == []


def test_a_worker_that_is_too_old_is_told_to_upgrade(fleet: Fleet) -> None:
    """It ends with the line that upgrades it, and no key is stored."""
    process = fleet.launch("old", TOO_OLD, "join", fleet.url, "--token-file", fleet.token())

    assert process.wait(PATIENCE_SECONDS) != 0
    output = fleet.output("old")
    assert "this machine speaks wire version 0, the coordinator needs 1 or later" in output
    assert "pip install --upgrade 'ringrift[cluster]'" in output
    assert "Traceback" not in output
    assert fleet.coordinator.records("node_key") == []
