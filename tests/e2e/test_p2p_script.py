"""The documented orchestrator script: the documented variables alone make a coordinator, and a worker that joins it."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.processes import Home, kill, reached

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 40.0
SERVES = "SELECT 1 FROM records WHERE kind = 'served_address' AND CAST(body AS TEXT) LIKE '%http%'"
SETTINGS = '[work]\nworkload = "fake"\n[cluster]\nbeat_seconds = 0.5\n'
VARIANTS = '\n[policy]\nvariants = ["hex8_2p"]\ngames_per_batch = 4\ngames_per_export = 400\n'


@contextmanager
def orchestrator(home: Path, node: str, **variables: str) -> Iterator["subprocess.Popen[str]"]:
    """The script as documented, from the root of the repository, with these variables."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environ |= {"RINGRIFT_HOME": str(home), "RINGRIFT_NODE_ID": node, **variables}
    command, output = [sys.executable, "scripts/p2p_orchestrator.py"], subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, text=True, env=environ)
    try:
        yield process
    finally:
        kill(process)


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def players(home: Home) -> set[str]:
    """The nodes that have played batches."""
    rows = home.ask("SELECT body FROM log WHERE name = 'selfplay.batch_finished'")
    return {json.loads(body)["node"] for (body,) in rows}


def test_the_help_names_the_variables() -> None:
    """Nothing else is needed to run it."""
    command = [sys.executable, "scripts/p2p_orchestrator.py", "--help"]
    text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    variables = ("COORDINATOR_URL", "CLUSTER_AUTH_TOKEN", "P2P_PORT", "IS_COORDINATOR")
    assert all(f"RINGRIFT_{name}" in text for name in variables)


def test_the_documented_variables_make_a_coordinator_and_a_worker(home: Home, tmp_path: Path) -> None:
    """The worker has no store, joins by its token, and does the jobs that the coordinator leaves to others."""
    (home.path / "ringrift.toml").write_text(SETTINGS + VARIANTS)
    port = free_port()
    with orchestrator(home.path, "c1", RINGRIFT_IS_COORDINATOR="true", RINGRIFT_P2P_PORT=str(port)) as coordinator:
        reached(coordinator, lambda: home.has(SERVES))
        token = tmp_path / "token"
        code, output = home.run("nodes", "token", "--out", str(token))
        assert code == 0, output
        worker_home = tmp_path / "worker"
        worker_home.mkdir()
        variables = {
            "RINGRIFT_COORDINATOR_URL": f"http://127.0.0.1:{port}",
            "RINGRIFT_CLUSTER_AUTH_TOKEN": token.read_text().strip(),
        }
        with orchestrator(worker_home, "w1", **variables) as worker:
            reached(worker, lambda: bool(players(home)))
            assert players(home) == {"w1"}
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(SECONDS_MAX) == 0
        coordinator.send_signal(signal.SIGTERM)
        assert coordinator.wait(SECONDS_MAX) == 0
    assert not list(worker_home.rglob("*.db"))
