"""The blob folder of a node behind a real ssh server, and a folder here that receives from it."""

import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest

from e2e import bad_link
from e2e.ssh_server import SshServer
from ringrift.blobs.folder import Folder, FolderBlobs
from ringrift.kernel.transfer_settings import LinkSettings
from ringrift.kernel.value import changed
from ringrift.sync.stall import watch
from ringrift.sync.transports.base64 import Base64Transport
from ringrift.sync.transports.ports import Endpoint, Source
from ringrift.sync.transports.ssh import SshTransport
from wait import wait_until

# A machine that is busy with other tests takes long to shake hands.
PATIENT = LinkSettings(ssh="ssh -F none", connect_seconds_max=60.0, silence_seconds_max=60.0)
STREAMS: tuple[type[SshTransport], ...] = (SshTransport, Base64Transport)


@dataclass(frozen=True)
class FarFolder:
    """The folder of node *far*, how to reach it, and the folder of node *here*."""

    folder: Folder
    here: FolderBlobs
    endpoint: Endpoint
    links: LinkSettings
    keys: Path  # what the server accepts: an option before the key changes what a connection runs
    rng: Random = field(default_factory=lambda: Random(7))

    def put(self, size: int) -> tuple[str, bytes]:
        """A new blob of the far folder."""
        data = self.rng.randbytes(size)
        return self.folder.put(data), data

    def over(self, fault: str, number: int) -> LinkSettings:
        """Settings whose ssh goes over a link with *fault*."""
        command = f"{sys.executable} {bad_link.__file__} {fault} {number} {self.links.ssh}"
        return changed(self.links, ssh=command)

    def server(self) -> psutil.Process:
        """The process that accepts connections."""
        config = str(self.keys.parent / "config")
        [process] = [process for process in psutil.Process().children() if config in process.cmdline()]
        return process

    def kill_sessions(self) -> None:
        """Kill whatever serves a connection, as a machine that loses its power."""
        for process in self.server().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def at(self, **changes: Any) -> "FarFolder":
        """The same with another endpoint."""
        return replace(self, endpoint=changed(self.endpoint, **changes))

    async def read(self, transport: SshTransport, blob: str, offset: int = 0) -> bytes:
        """All bytes that come."""
        return b"".join([chunk async for chunk in transport.read(self.endpoint, blob, offset)])

    async def receive(self, transport: SshTransport, blob: str) -> int:
        """Bring *blob* here, on from what an earlier try has left; how many bytes were there."""
        part = self.here.part(blob, "transfer")
        offset = await part.open()
        try:
            chunks = watch(transport.read(self.endpoint, blob, offset), self.links, self.endpoint)
            async for chunk in chunks:
                await part.append(chunk)
            await part.commit()
        finally:
            await part.close(keep=True)
        return offset


@pytest.fixture
def far(ssh_server: SshServer, tmp_path: Path) -> FarFolder:
    """A folder behind *ssh_server*, whose key is pinned."""
    folder, sshd = Folder(tmp_path / "far away" / "blobs", "far"), tmp_path / "sshd"
    folder.mark()
    here = FolderBlobs(tmp_path / "here", "here")
    here.folder.mark()
    key = " ".join((sshd / "host.pub").read_text().split()[:2])
    endpoint = Endpoint(
        node="far",
        transport="ssh",
        addresses=("127.0.0.1",),
        folder=str(folder.root),
        port=ssh_server.port,
        identity=str(sshd / "own"),
        host_keys=(key,),
    )
    return FarFolder(folder, here, endpoint, PATIENT, sshd / "own.pub")


def source_of(data: bytes, step: int = 70_000) -> Source:
    """*data* as what is pushed."""

    async def source(offset: int) -> AsyncIterator[bytes]:
        for start in range(offset, len(data), step):
            yield data[start : start + step]

    return source


async def no_program_is_left() -> None:
    """Return when no ssh that this process started is there any more."""

    def is_over() -> bool:
        names = list[str]()
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                names.append(child.name())
        return not {"ssh", "rsync"}.intersection(names)

    await wait_until(is_over)
