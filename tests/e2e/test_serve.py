"""Workers that serve their peers, and uploads that go on: real processes, real ports, real kills."""

import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.processes import PATIENCE_SECONDS, QUICK, Home
from e2e.test_join import VARIANT, end, make_token, serve
from ringrift.blobs.folder import Folder
from ringrift.wire.ports import CHUNK_BYTES
from wait import until

KILLS = int(os.environ.get("RINGRIFT_KILLS", "12"))  # of a receiver, at random moments
DATA = random.Random(1).randbytes(24 * CHUNK_BYTES + 7)
BLOB = hashlib.sha256(DATA).hexdigest()
# Receives one file, piece by piece, as a coordinator does, and says where it was when it began.
RECEIVER = """
import asyncio, sys
from pathlib import Path
from ringrift.blobs.folder import FolderBlobs
from ringrift.coordinator.uploads import Uploads
from ringrift.kernel.clock import SystemClock
from ringrift.wire.ports import CHUNK_BYTES

async def main(folder, source, blob):
    blobs, data = FolderBlobs(folder, "c"), Path(source).read_bytes()
    await blobs.open(is_new=True)
    uploads, done = Uploads(blobs, SystemClock()), False
    offset, done = await uploads.write("w1", blob, len(data), 0, b"")
    print(offset, flush=True)
    while not done:
        offset, done = await uploads.write("w1", blob, len(data), offset, data[offset : offset + CHUNK_BYTES])

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[tuple[Home, Home]]:
    """The home of a coordinator, and that of a worker."""
    both = Home(tmp_path / "c", QUICK), Home(tmp_path / "w", QUICK)
    yield both
    for home in both:
        home.clear()
        for process in home.started:
            assert process.stdout is not None
            process.stdout.close()


def test_a_worker_that_serves_is_a_peer_with_tls_until_it_leaves(homes: tuple[Home, Home]) -> None:
    """The coordinator knows where, by which authority, and that it has the champion; `status` shows how many have."""
    home, own = homes
    _, address = serve(home)
    token = own.path / "token"
    token.write_text(make_token(home))
    arguments = ("--token-file", str(token), "--serve", "0.0.0.0:0", "--set", "node.id=w1")
    worker = own.start("join", address, *arguments)

    def champion() -> str | None:
        return next((row.get("champion") for row in home.records("line") if row["variant"] == VARIANT), None)

    def is_ready() -> bool:
        rows = [row for row in home.records("peer") if row["node"] == "w1"]
        return bool(rows) and champion() in rows[0].get("ready", {}) and bool(rows[0].get("address"))

    until(lambda: home.has("SELECT 1 FROM log WHERE name = ?", "model.promoted") and is_ready(), PATIENCE_SECONDS)
    [row] = [row for row in home.records("peer") if row["node"] == "w1"]
    assert row["address"].startswith("https://")
    assert row["ca"].startswith("-----BEGIN CERTIFICATE")
    code, output = home.run("status")
    assert code == 0, output
    assert re.search(rf"champion of {VARIANT}: \d of 1 nodes have it", output), output
    code, output = home.run("metrics")
    assert f'ringrift_champion_nodes{{variant="{VARIANT}",ready="' in output, output
    end(worker)
    for private in (own.path / "peer_certs").glob("*.key"):
        assert private.stat().st_mode & 0o077 == 0


def test_an_upload_whose_receiver_is_killed_again_and_again_arrives(tmp_path: Path) -> None:
    """At random moments: no byte that had arrived is sent again, and the file has its name only when it is whole."""
    source, folder, rng = tmp_path / "source", tmp_path / "blobs", random.Random(7)
    source.write_bytes(DATA)
    target, starts = Folder(folder).path(BLOB), list[int]()
    command = [sys.executable, "-c", RECEIVER, str(folder), str(source), BLOB]
    for _ in range(KILLS):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            starts.append(int(process.stdout.readline()))
            deadline = time.monotonic() + rng.random() * 0.03
            while time.monotonic() < deadline and process.poll() is None:
                """Until its random moment."""
            process.send_signal(signal.SIGKILL)
        if target.exists():
            assert hashlib.sha256(target.read_bytes()).hexdigest() == BLOB
    assert starts == sorted(starts)
    assert starts[-1] > 0
    assert subprocess.run(command, stdout=subprocess.PIPE, timeout=PATIENCE_SECONDS, check=True).stdout
    assert target.read_bytes() == DATA
    assert not os.listdir(folder / "partial")
