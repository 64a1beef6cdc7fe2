"""Tokens and private keys are in the files made for them and nowhere else: no log, store, output or list has one."""

import base64
import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from e2e.processes import PATIENCE_SECONDS, QUICK, Home
from wait import until

VARIANT = "hex8_2p"
PLAYED = "SELECT 1 FROM log WHERE name = 'selfplay.batch_finished' AND json_extract(body, '$.node') = ?"
ROTATED = "SELECT 1 FROM log WHERE name = 'node.key_changed' AND json_extract(body, '$.change') = 'rotated'"


class Cluster:
    """A coordinator, a worker and an operator's machine, each with a home, and all that they print."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.homes = {name: Home(folder / name, QUICK + "[wire]\nport = 0\n") for name in ("c", "w", "o")}
        self.printed = folder / "printed"
        self.printed.mkdir()
        self.secrets: dict[str, bytes] = {}
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, home: str, *words: str, **variables: str) -> "subprocess.Popen[bytes]":
        """Start ``ringrift`` with everything logged that can be."""
        inherited = {key: text for key, text in os.environ.items() if not key.startswith("RINGRIFT_")}
        loud = {"RINGRIFT_DEBUG": "1", "RINGRIFT_TRACE_DEBUG": "1", "RINGRIFT_HOME": str(self.homes[home].path)}
        output = (self.printed / f"{home}-{len(list(self.printed.iterdir()))}").open("wb")
        with output:
            program = [str(Path(sys.executable).with_name("ringrift")), *words]
            process = subprocess.Popen(
                program,
                env={**inherited, **loud, **variables},
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
        self.running.append(process)
        return process

    def run(self, home: str, *words: str, **variables: str) -> int:
        """Run ``ringrift`` to its end; its exit code."""
        return self.start(home, *words, **variables).wait(PATIENCE_SECONDS)

    def url(self) -> str:
        """Where the coordinator listens, once it does."""
        texts: list[str] = []

        def listens() -> bool:
            texts[:] = re.findall(r"serves workers at (http://\S+)", (self.printed / "c-0").read_text())
            return bool(texts)

        until(listens, PATIENCE_SECONDS)
        return texts[0]

    def token(self, name: str, *words: str) -> str:
        """A token; the secret in it is one to look for."""
        file = self.folder / f"token-{name}"
        assert self.run("c", "nodes", "token", "--out", str(file), *words) == 0
        text = file.read_text().strip()
        file.unlink()
        self.secrets[f"token of {name}"] = text.split("-")[2].encode()
        return text

    def note_key(self, name: str, home: str) -> bytes:
        """The private key in *home*, which is one to look for."""
        seed = base64.b64decode(json.loads((self.homes[home].path / "keys" / "node.json").read_bytes())["seed"])
        assert len(seed) == 32
        self.secrets[f"key of {name}"] = seed
        return seed

    def stop(self) -> None:
        """End every process in good order."""
        for process in reversed(self.running):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(PATIENCE_SECONDS)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster that is ended with the test."""
    made = Cluster(tmp_path)
    yield made
    for process in made.running:
        if process.poll() is None:
            process.kill()
            process.wait()
    for home in made.homes.values():
        home.clear()


def forms(secret: bytes) -> set[bytes]:
    """The ways in which *secret* may have been written, without what depends on its neighbours."""
    raw = bytes.fromhex(secret.decode()) if len(secret) == 40 else secret
    encoded = {base64.b64encode(raw).rstrip(b"="), base64.urlsafe_b64encode(raw).rstrip(b"=")}
    return {secret, raw, raw.hex().encode(), raw.hex().upper().encode(), repr(raw)[2:-1].encode(), *encoded}


def places(folder: Path, secret: bytes) -> list[str]:
    """The files below *folder* that contain *secret*."""
    names = []
    for file in (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink()):
        data = file.read_bytes()
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        if any(form in data for form in forms(secret)):
            names.append(str(file.relative_to(folder)))
    return names


def test_no_token_and_no_private_key_is_written_anywhere_else(cluster: Cluster) -> None:
    """Join by a variable, by a file, not on the command line, rotate, ask from afar: then all files are searched."""
    coordinator = cluster.start("c", "coordinator", "--variants", VARIANT)
    url = cluster.url()
    token = cluster.token("w1")
    assert cluster.run("w", "join", url, token) == 2, "the command line is refused"
    assert cluster.run("w", "join", url, "--token-file", token) == 2, "also as the name of a file"
    variables = {"RINGRIFT_CLUSTER_AUTH_TOKEN": token, "RINGRIFT_NODE_ID": "w1"}
    worker = cluster.start("w", "join", url, **variables)
    until(lambda: (cluster.homes["w"].path / "keys" / "node.json").exists(), PATIENCE_SECONDS)
    before = cluster.note_key("w1", "w")

    file = cluster.folder / "token-file"
    file.write_text(cluster.token("operator", "--scope", "administer"))
    assert cluster.run("o", "join", url, "--program", "--token-file", str(file), RINGRIFT_NODE_ID="laptop") == 0
    file.unlink()
    cluster.note_key("operator", "o")
    assert cluster.run("o", "nodes", "--url", url) == 0
    assert cluster.run("o", "nodes", "rotate", "w1", "--url", url) == 0
    home = cluster.homes["c"]
    until(lambda: home.has(ROTATED) and home.has(PLAYED, "w1"), PATIENCE_SECONDS)
    assert worker.poll() is None
    until(lambda: cluster.note_key("w1 after its rotation", "w") != before, PATIENCE_SECONDS)
    lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    environments = [_environment(child) for child in psutil.Process(worker.pid).children(recursive=True)]
    cluster.stop()
    assert coordinator.returncode == 0
    assert worker.returncode == 0

    cluster.secrets["a word that is everywhere"] = b"selfplay.batch_finished"
    assert places(cluster.folder, cluster.secrets.pop("a word that is everywhere")), "the search finds what is there"
    for name, secret in cluster.secrets.items():
        own = {"key of operator": ["o/keys/node.json"], "key of w1 after its rotation": ["w/keys/node.json"]}
        assert places(cluster.folder, secret) == own.get(name, []), name
        assert not [line for line in lines if secret.decode("latin-1") in line], name
        assert not [text for text in environments if secret.decode("latin-1") in text], name


def _environment(process: psutil.Process) -> str:
    try:
        return str(process.environ())
    except psutil.Error:
        return ""
