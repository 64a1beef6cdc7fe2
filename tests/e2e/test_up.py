"""``ringrift up``: a coordinator and workers in processes of their own, told about and ended by one command."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from e2e.processes import PATIENCE_SECONDS, QUICK, Home, kill, reached
from wait import until

VARIANT = "hex8_2p"
PLAYED_AFTER = "SELECT 1 FROM log WHERE name = 'selfplay.batch_finished' AND position > ?"
CANARY = "rr-00000000-cafecafecafecafecafecafecafecafecafecafe"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A home whose coordinator listens at any free port."""
    made = Home(tmp_path / "home", QUICK + "[wire]\nport = 0\n")
    yield made
    made.clear()
    for process in members(made):
        process.kill()


def members(home: Home) -> list[psutil.Process]:
    """The processes of the cluster of *home*, without the command that started them."""
    rows = list[psutil.Process]()
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        is_member = any(word in ("coordinator", "join") for word in words) and "ringrift" in " ".join(words)
        if is_member and f"RINGRIFT_HOME={home.path}" in " ".join([*words, *_environment(process)]):
            rows += [process] if process.info["status"] != psutil.STATUS_ZOMBIE else []
    return rows


def _environment(process: psutil.Process) -> list[str]:
    try:
        return [f"{key}={value}" for key, value in process.environ().items()]
    except psutil.Error:
        return []


def worker(home: Home, name: str) -> psutil.Process:
    """The process of the worker *name* itself."""
    own = [
        p for p in members(home) if p.name() != "sh" and f"node.id={name}" in p.cmdline() and "env" not in p.cmdline()
    ]
    assert len(own) == 1, own
    return own[0]


def batches_of(home: Home) -> set[str]:
    """The nodes whose games have been counted."""
    rows = home.ask("SELECT DISTINCT json_extract(body, '$.node') FROM log WHERE name = 'selfplay.batch_finished'")
    return {row[0] for row in rows}


def has_joined(home: Home, name: str) -> bool:
    """Whether the node *name* has sent a heartbeat."""
    return home.has("SELECT 1 FROM records WHERE kind = 'node' AND id = ?", name)


def start(home: Home, *arguments: str) -> "subprocess.Popen[str]":
    return home.start("up", *arguments)


def end(process: "subprocess.Popen[str]", number: int = signal.SIGINT) -> str:
    """End it with a signal; what it printed."""
    process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    return output


def test_a_local_cluster_plays_and_ends_with_its_command(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both workers play and a model is promoted, over the wire; Ctrl-C ends every process in good order.

    No token is printed or stands in an argument or in the environment of a member.
    """
    monkeypatch.setenv("RINGRIFT_CLUSTER_AUTH_TOKEN", CANARY)
    process = start(home, "--nodes", "2", "--variants", VARIANT)
    reached(process, lambda: home.has("SELECT 1 FROM log WHERE name = 'model.promoted'"))
    reached(process, lambda: batches_of(home) == {"a-w1", "a-w2"})
    texts = [" ".join([*member.cmdline(), *_environment(member)]) for member in members(home)]
    output = end(process)

    assert process.returncode == 0, output
    assert "started a-w1, a-w2; Ctrl-C ends all of them" in output
    assert output.rstrip().endswith("every member has stopped")
    assert "has ended" not in output
    assert len(texts) >= 3
    assert not re.search("rr-[0-9a-f]{8}-", "\n".join([output, *texts]))
    assert home.ask("SELECT count(*) FROM jobs WHERE state = 'claimed'") == [(0,)]
    assert not (home.path / "workers" / "a-w1" / "none.db").exists()
    until(lambda: members(home) == [], PATIENCE_SECONDS)
    # Again: the homes of the workers have their keys.
    again = start(home, "--nodes", "2")
    reached(again, lambda: all(not row["gone"] for row in home.records("node") if row["id"] != "a"))
    assert "joined a as" not in end(again)


def test_a_worker_that_dies_is_named_and_not_started_again(home: Home) -> None:
    """The other one goes on; nothing takes the place of the first."""
    process = start(home, "--nodes", "2", "--variants", VARIANT)
    reached(process, lambda: home.has("SELECT 1 FROM log WHERE name = 'selfplay.batch_finished'"))
    worker(home, "a-w1").kill()
    before = home.ask("SELECT max(position) FROM log")
    reached(process, lambda: home.has(PLAYED_AFTER, *before[0]))
    names = {word for member in members(home) for word in member.cmdline() if word.startswith("node.id=")}
    output = end(process, signal.SIGTERM)

    assert names == {"node.id=a-w2"}
    assert "a-w1: has ended (exit code 137) and is not started again; the others go on" in output
    assert process.returncode == 0


def test_when_the_coordinator_dies_the_workers_end(home: Home) -> None:
    """The command says so and fails."""
    process = start(home, "--nodes", "1")
    reached(process, lambda: has_joined(home, "a-w1"))
    [leader] = [p for p in members(home) if "coordinator" in p.cmdline() and p.name() != "sh"]
    leader.kill()
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 1
    assert "has ended (exit code 137); its workers are stopped" in output
    until(lambda: members(home) == [], PATIENCE_SECONDS)


def test_members_end_when_the_command_is_killed(home: Home) -> None:
    """Even by kill -9: none is left behind."""
    process = start(home, "--nodes", "1")
    reached(process, lambda: has_joined(home, "a-w1"))
    kill(process)

    until(lambda: members(home) == [], PATIENCE_SECONDS)
    assert home.has("SELECT 1 FROM log WHERE name = 'node.left'"), "it was asked to end, not killed"


def test_a_port_that_is_taken_is_named(home: Home, tmp_path: Path) -> None:
    """The coordinator ends with a reason, and the command with it."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, output = home.run("up", "--nodes", "1", "--port", str(taken.getsockname()[1]))

    assert code == 1
    assert "cannot listen at 127.0.0.1: Address already in use" in output
    assert not os.path.exists(home.path / "workers")
