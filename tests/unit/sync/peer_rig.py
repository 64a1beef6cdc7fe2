"""Workers that share files: each has a folder, a key and a port of its own, and the coordinator is asked directly."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random

from ringrift.blobs.folder import FolderBlobs
from ringrift.cluster.keys import StoredKey, store_keys
from ringrift.cluster.roster import NodeRecord
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.settings import Settings, WireSettings
from ringrift.node import Node
from ringrift.sync.file_share import FileShare
from ringrift.sync.peer_port import open_peer_port
from ringrift.sync.remote_blobs import BlobCache
from ringrift.sync.transports.http import PeerReader
from ringrift.threads import beside
from ringrift.wire.connection import Connection
from ringrift.wire.open import open_wire
from ringrift.wire.ports import CHUNK_BYTES
from unit.worker_rig import ADDRESS, DirectWire, coordinator, key_of
from wait import wait_until

PIECES = 5
DATA = os.urandom(1000) * (PIECES * CHUNK_BYTES // 1000) + b"end"
SCOPES = ("play", "read")
_MEMBERS_MAX = 20


class Member:
    """One worker, as far as files go."""

    def __init__(self, name: str, home: Path, wire: DirectWire) -> None:
        clock, self.name = SystemClock(), name
        self.settings = Settings.local(home / name, node=name)
        self.connection = Connection(wire, [ADDRESS], key_of(name), Random(name), boot=f"boot of {name}")
        self.blobs = FolderBlobs(self.settings.blobs.address(), name)
        self.peers = PeerReader(name, self.connection.sign, lambda ca: open_wire(WireSettings(), authority=ca))
        self.cache = BlobCache(self.connection, self.blobs, clock, self.peers)
        self.file_share = FileShare(self.connection, self.blobs, self.cache, clock)

    @property
    def sent(self) -> int:
        """Bytes that it has sent to peers."""
        return self.file_share.service.bytes_sent

    async def serve(self, address: str = "127.0.0.1:0") -> None:
        """Serve until cancelled."""
        settings = self.settings.overlaid({"node.serve": address})
        with open_peer_port(settings, SystemClock()) as (wire, bind, authority):
            await self.file_share.serve(wire, bind, authority, lambda: None)

    async def has(self, blob: str) -> bool:
        """Whether it has a good copy."""
        return bool(await self.blobs.have([blob])) and not await self.blobs.verify([blob])


class Fleet:
    """A coordinator and its members."""

    def __init__(self, node: Node, wire: DirectWire, home: Path, stack: AsyncExitStack) -> None:
        self.node, self.wire, self._home, self._stack = node, wire, home, stack
        self.members: dict[str, Member] = {}

    async def add(self, name: str, *, serves: bool = True) -> Member:
        """A member whose port the coordinator knows if it *serves*."""
        member = self.members[name] = Member(name, self._home, self.wire)
        await member.blobs.open(is_new=True)
        self._stack.callback(member.peers.close)
        await self.node.roster.put(NodeRecord(id=name, profile="full", address="", beat=1))
        if serves:
            await self._stack.enter_async_context(beside(member.serve()))
            await wait_until(lambda: bool(member.file_share._address))
        await member.file_share.report()
        return member

    async def put(self, data: bytes = DATA) -> str:
        """A file that the coordinator has."""
        [blob] = await self.node.blobs.put([data])
        return blob

    @property
    def reads(self) -> int:
        """Pieces that the coordinator was asked for."""
        return self.wire.calls["blob.read"]


@asynccontextmanager
async def opened(home: Path, scopes: Mapping[str, tuple[str, ...]], **settings: object) -> AsyncIterator[Fleet]:
    """A fleet without members, which knows their keys: those of *scopes* may do that, the others play and read."""
    wire = DirectWire()
    slow = {"cluster.beat_seconds": 60.0, "cluster.role_seconds": 2.0}
    async with coordinator(home, wire, **slow, **settings) as node, AsyncExitStack() as stack:
        names = {f"w{number}": SCOPES for number in range(_MEMBERS_MAX)} | dict(scopes)
        rows = [
            StoredKey(node=name, public=key_of(name).public, scopes=may, profile="full") for name, may in names.items()
        ]
        async with node.store.begin() as tx:
            await store_keys(tx, rows)
        yield Fleet(node, wire, home, stack)


def tell(
    home: Path,
    story: Callable[[Fleet], Awaitable[None]],
    scopes: Mapping[str, tuple[str, ...]] | None = None,
    **settings: object,
) -> None:
    """Tell *story* to its end."""

    async def main() -> None:
        async with asyncio.timeout(60.0), opened(home, scopes or {}, **settings) as fleet:
            await story(fleet)

    asyncio.run(main())
