"""The documented rsync of programs goes to another machine over a real ssh server, whose key is pinned."""

import shutil
from pathlib import Path

import pytest

from compat.subscribers import QUICK, async_test
from e2e.far_folder import FarFolder
from e2e.ssh_server import NEEDS_SSHD
from ringrift_compat.embedded_node import embedded
from ringrift_compat.sync.sync_bandwidth import BandwidthCoordinatedRsync

pytestmark = [NEEDS_SSHD, pytest.mark.skipif(not shutil.which("rsync"), reason="rsync is not installed")]


def _write_settings(home: Path, far: FarFolder, key: str) -> None:
    row = f"ssh_host: 127.0.0.1, ssh_port: {far.endpoint.port}, ssh_key: '{far.endpoint.identity}'"
    (home / "hosts.yaml").write_text(f"hosts:\n  far: {{{row}, ssh_host_key: '{key}'}}\n")
    links = f'[links]\nhosts = "{home}/hosts.yaml"\nssh = "ssh -F none"\nconnect_seconds_max = 60.0\n'
    (home / "ringrift.toml").write_text(f"{QUICK}\n{links}")


@async_test
async def test_a_folder_goes_there_and_back(far: FarFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes are those of the folder; a host that shows another key than the pinned one gets and sends nothing."""
    home, source = tmp_path / "home", tmp_path / "from"
    home.mkdir()
    source.mkdir()
    (source / "games").write_bytes(bytes(range(256)) * 4000)
    monkeypatch.setenv("RINGRIFT_HOME", str(home))
    _write_settings(home, far, far.endpoint.host_keys[0])
    there, rsync = f"127.0.0.1:{tmp_path}/there/", BandwidthCoordinatedRsync(timeout=60.0)

    pushed = await rsync.sync(f"{source}/", there, "far")
    pulled = await rsync.sync(there, f"{tmp_path}/back/", "far")

    assert [(row.success, row.error, row.bytes_transferred) for row in (pushed, pulled)] == [(True, "", 1_024_000)] * 2
    assert (tmp_path / "back" / "games").read_bytes() == (source / "games").read_bytes()
    embedded.shutdown()
    _write_settings(home, far, " ".join((far.keys.read_text().split())[:2]))
    refused = await rsync.sync(there, f"{tmp_path}/other/", "far")
    assert not refused.success
    assert not (tmp_path / "other" / "games").exists()
    embedded.shutdown()
