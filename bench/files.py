"""Files over ssh and HTTP on loopback against rsync over ssh: one large file, and many small ones."""

import asyncio
import hashlib
import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from functools import partial
from pathlib import Path

from bench.file_server import open_peer
from bench.measure import Contest, Line, Metrics, Side
from ringrift.blobs.folder import Folder, FolderBlobs
from ringrift.kernel.transfer_settings import LinkSettings
from ringrift.kernel.value import changed
from ringrift.sync.blob_messages import BlobSource
from ringrift.sync.stall import watch
from ringrift.sync.transports.http import PeerReader
from ringrift.sync.transports.ports import Endpoint
from ringrift.sync.transports.ssh import SshTransport
from ringrift.sync.transports.ssh_command import make_ssh

LARGE_BYTES = 1 << 30
SMALL_FILES, SMALL_BYTES = 10_000, 16 * 1024
PIECE_BYTES = 1 << 20
START_SECONDS_MAX = 10.0
LINKS = LinkSettings(ssh="ssh -F none")


@contextmanager
def _server(folder: Path) -> Iterator[Endpoint]:
    """An ssh server on loopback, and the folder of a node behind it."""
    sshd = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if sshd is None or not shutil.which("rsync"):
        raise RuntimeError("sshd or rsync is not installed: run  make peers")
    folder.chmod(0o700)
    for name in ("host", "own"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\nUsePAM no\nStrictModes no\n"
        f"AuthorizedKeysFile {folder}/own.pub\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True) if os.getuid() == 0 else None  # its own rule
    key = " ".join((folder / "host.pub").read_text().split()[:2])
    root = folder / "far"
    Folder(root, "far").mark()
    with subprocess.Popen([sshd, "-D", "-f", str(folder / "config"), "-E", str(folder / "log")]) as process:
        try:
            _await(port)
            yield Endpoint(
                node="far",
                transport="ssh",
                addresses=("127.0.0.1",),
                folder=str(root),
                port=port,
                identity=str(folder / "own"),
                host_keys=(key,),
            )
        finally:
            process.terminate()


def _await(port: int) -> None:
    end = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < end:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("sshd did not start")


def _put_large(folder: Folder) -> str:
    """A file of other bytes in each piece."""
    beside, hashed, noise = folder.root / "large", hashlib.sha256(), os.urandom(PIECE_BYTES)
    with beside.open("wb") as file:
        for number in range(LARGE_BYTES // PIECE_BYTES):
            piece = number.to_bytes(8, "big") + noise[8:]
            hashed.update(piece)
            file.write(piece)
    path = folder.path(hashed.hexdigest())
    path.parent.mkdir(exist_ok=True)
    beside.rename(path)
    return path.name


def _put_small(folder: Folder) -> list[str]:
    blobs, noise = list[str](), os.urandom(SMALL_BYTES)
    for number in range(SMALL_FILES):
        data = number.to_bytes(8, "big") + noise[8:]
        path = folder.path(hashlib.sha256(data).hexdigest())
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        blobs.append(path.name)
    return blobs


def _open_here(folder: Path) -> FolderBlobs:
    here = FolderBlobs(folder / "here", "here")
    here.folder.mark()
    return here


def _stream(endpoint: Endpoint, blob: str, folder: Path) -> Metrics:
    """One file as a plain stream into a part, flushed, read back and hashed."""

    async def receive() -> None:
        part = _open_here(folder).part(blob, "bench")
        await part.open()
        async for chunk in watch(SshTransport(LINKS).read(endpoint, blob, 0), LINKS, endpoint):
            await part.append(chunk)
        assert await part.commit() == LARGE_BYTES
        await part.close(keep=True)

    return _timed(lambda: asyncio.run(receive()), LARGE_BYTES / 1e6)


def _fetch(root: Path, blob: str, folder: Path, *, encrypted: bool) -> Metrics:
    """The same from a node that serves its peers, in pieces, some of which are asked for ahead."""

    async def receive(reader: PeerReader, source: BlobSource) -> None:
        part = _open_here(folder).part(blob, "bench")
        await part.open()
        async with aclosing(reader.pieces(source, blob, 0)) as pieces:
            async for piece in pieces:
                await part.append(piece.data)
        assert await part.commit() == LARGE_BYTES
        await part.close(keep=True)
        reader.close()

    with open_peer(root, blob, folder / "certs" if encrypted else None) as (reader, source):
        return _timed(lambda: asyncio.run(receive(reader, source)), LARGE_BYTES / 1e6)


def _batch(endpoint: Endpoint, blobs: list[str], folder: Path) -> Metrics:
    """Many files in one stream into a pack, each hashed, the pack flushed."""

    async def receive() -> None:
        stored = await _open_here(folder).write_pack(SshTransport(LINKS).read_batch(endpoint, blobs))
        assert len(stored) == len(blobs)

    return _timed(lambda: asyncio.run(receive()), len(blobs))


def _rsync(endpoint: Endpoint, path: str, count: float, folder: Path) -> Metrics:
    """The same by rsync over the same ssh, flushed once at the end and hashed."""

    def receive() -> None:
        ssh = shlex.join(make_ssh(LINKS, endpoint))
        subprocess.run(["rsync", "-a", "-e", ssh, f"127.0.0.1:{endpoint.folder}/{path}", f"{folder}/to/"], check=True)
        subprocess.run(["sync", "-f", str(folder)], check=True)
        hashing = f"find {shlex.quote(str(folder))} -type f -print0 | xargs -0 sha256sum >{folder}.sums"
        subprocess.run(["sh", "-c", hashing], check=True)
        Path(f"{folder}.sums").unlink()

    return _timed(receive, count)


def _timed(call: Callable[[], None], count: float) -> Metrics:
    began = time.perf_counter()
    call()
    return {"rate": count / (time.perf_counter() - began)}


@contextmanager
def _sides(folder: Path) -> Iterator[Mapping[str, Side]]:
    with _server(folder) as endpoint:
        far = Folder(endpoint.folder, "far")
        small = _put_small(far)
        os.sync()
        # rsync of many files takes the folder, in which the large one must not be: it lies in one of its own.
        large_root = Folder(folder / "large", "far")
        large_root.mark()
        blob = _put_large(large_root)
        large = changed(endpoint, folder=str(large_root.root))
        yield {
            "large": partial(_stream, large, blob),
            "large http": partial(_fetch, large_root.root, blob, encrypted=False),
            "large tls": partial(_fetch, large_root.root, blob, encrypted=True),
            "large rsync": partial(_rsync, large, f"{blob[:2]}/{blob}", LARGE_BYTES / 1e6),
            "small": partial(_batch, endpoint, small),
            "small rsync": partial(_rsync, endpoint, "", float(SMALL_FILES)),
        }


FILES = Contest(
    "files",
    _sides,
    (
        Line(
            name="large file over ssh",
            what="1 GiB as a plain stream, flushed and hashed, against rsync over ssh",
            unit="MB/s",
            metric="rate",
            ours="large",
            raw="large rsync",
            ratio_min=0.8,
        ),
        Line(
            name="large file over HTTP",
            what="1 GiB from a peer by plain HTTP, flushed and hashed, against rsync over ssh",
            unit="MB/s",
            metric="rate",
            ours="large http",
            raw="large rsync",
            ratio_min=2.0,
        ),
        Line(
            name="large file over TLS",
            what="1 GiB from a peer by HTTP over TLS, flushed and hashed, against rsync over ssh",
            unit="MB/s",
            metric="rate",
            ours="large tls",
            raw="large rsync",
            ratio_min=0.8,
        ),
        Line(
            name="small files over ssh",
            what="10,000 files of 16 KiB in one stream into a pack, flushed and hashed, against rsync over ssh",
            unit="files/s",
            metric="rate",
            ours="small",
            raw="small rsync",
            ratio_min=5.0,
        ),
    ),
)
