"""``ringrift join``: a worker in a process of its own, with a home of its own, that comes, goes, dies and returns."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.processes import PATIENCE_SECONDS, QUICK, Home, kill
from wait import until

VARIANT = "hex8_2p"
ISLAND = QUICK + "[node]\nisland = true\n"
BATCHES = "SELECT json_extract(body, '$.batch'), json_extract(body, '$.node') FROM log WHERE name = ?"
FORGED = "rr-00000000-cafecafecafecafecafecafecafecafecafecafe"


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[tuple[Home, Home]]:
    """The home of a coordinator, and that of a worker."""
    both = Home(tmp_path / "c", QUICK), Home(tmp_path / "w", ISLAND)
    yield both
    for home in both:
        home.clear()


def serve(home: Home, port: int = 0) -> tuple["subprocess.Popen[str]", str]:
    """Start the coordinator; it and its address."""
    process = home.start("coordinator", "--variants", VARIANT, "--port", str(port))
    assert process.stdout is not None
    for line in process.stdout:
        if address := re.search(r"serves workers at (http://\S+)", line):
            return process, address[1]
    raise AssertionError("the coordinator has ended")


def make_token(home: Home) -> str:
    """A token for one join."""
    code, output = home.run("nodes", "token")
    assert code == 0, output
    token = re.search(r"rr-\S+", output)
    assert token is not None, output
    return token[0]


def join(home: Home, *arguments: str) -> "subprocess.Popen[str]":
    """Start a worker."""
    return home.start("join", *arguments, "--set", "node.id=w1")


def end(process: "subprocess.Popen[str]") -> str:
    """End it with SIGTERM, after which its exit code is 0; what it printed."""
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, output
    return output


def batches(home: Home, node: str = "w1") -> list[str]:
    """The batches of *node* that are counted."""
    return [batch for batch, by in home.ask(BATCHES, "selfplay.batch_finished") if by == node]


def spool(home: Home) -> list[Path]:
    """The results in the spool."""
    return sorted((home.path / "blobs" / "spool").glob("*.result"))


def test_a_worker_joins_by_a_token_works_leaves_and_returns_without_one(homes: tuple[Home, Home]) -> None:
    """It leaves in good order on SIGTERM; the key in its home brings it back; after `leave --forget` there is none."""
    home, own = homes
    _, address = serve(home)
    token = own.path / "token"
    token.write_text(FORGED)
    code, output = own.run("join", address, "--token-file", str(token))
    assert (code, "the token was refused" in output) == (1, True), output
    token.write_text(make_token(home))
    worker = join(own, address, "--token-file", str(token))
    until(lambda: home.has(BATCHES, "selfplay.batch_finished") and len(batches(home)) >= 2, PATIENCE_SECONDS)
    output = end(worker)
    assert "joined" in output
    assert "has left" in output
    assert token.read_text() not in output
    [record] = [row for row in home.records("node") if row["id"] == "w1"]
    assert record["gone"]
    assert record.get("address", "") == ""
    assert (own.path / "keys" / "node.json").stat().st_mode & 0o077 == 0
    assert not list(own.path.rglob("*.db"))

    before = len(batches(home))
    worker = own.start("join")  # as what and where it joined
    until(lambda: len(batches(home)) > before, PATIENCE_SECONDS)
    code, output = own.run("leave", "--forget", "--json")
    assert code == 0, output
    assert json.loads(output)["node"] == "w1"
    assert worker.wait(PATIENCE_SECONDS) == 0
    assert not (own.path / "keys" / "node.json").exists()
    code, output = own.run("join", address)
    assert code == 2
    assert "ringrift nodes token" in output


def test_a_full_spool_survives_the_death_of_both_sides(homes: tuple[Home, Home]) -> None:
    """The coordinator dies, the worker plays on and is killed too; when both are back, every batch is counted once."""
    home, own = homes
    coordinator, address = serve(home)
    token = own.path / "token"
    token.write_text(make_token(home))
    worker = join(own, address, "--token-file", str(token))
    until(lambda: home.has(BATCHES, "selfplay.batch_finished") and len(batches(home)) >= 1, PATIENCE_SECONDS)
    kill(coordinator)
    until(lambda: len(spool(own)) >= 4, PATIENCE_SECONDS)
    kill(worker)
    waiting = spool(own)
    assert len(waiting) >= 4

    serve(home, int(address.rpartition(":")[2]))
    before = len(batches(home))
    worker = join(own)
    until(lambda: not set(spool(own)) & set(waiting), PATIENCE_SECONDS)
    until(lambda: len(batches(home)) >= before + 3, PATIENCE_SECONDS)
    assert len(set(batches(home))) == len(batches(home))
    end(worker)
