"""One of many processes on a store: publishes, serves reactions or serves handlers, until it is ended.

    many.py publish STORE | react STORE NAME… | handle STORE FOLDER NAME…

The parent holds its standard input: when that closes, it ends, so that none is ever left behind.  The publisher
reads there how many events to publish.
"""

import asyncio
import os
import sys
import zlib
from collections.abc import Awaitable, Callable
from itertools import count, islice
from pathlib import Path
from random import Random

from ringrift.bus.delivery import Reader
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.bus.router import Router
from ringrift.events import node
from ringrift.events.base import Envelope, Event
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BusSettings, StoreSettings
from ringrift.store.open import open_store
from ringrift.store.ports import Put, Tx

AT_ONCE = 500
BATCH = 250
KIND = "chain"


class Chain:
    """A reaction whose effect shows every event it ever had: how many, the sum over their ids in order, the last."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = self._sum = 0
        self._last: int | None = None

    async def react(self, event: Event, envelope: Envelope, tx: Tx) -> None:
        """Add one link.  The state of an undone attempt is dropped: then the store is read."""
        if self._last is None or envelope.position != self._last + 1:
            body = (await tx.get(KIND, [self._name])).get(self._name, b"0 0 0")
            self._count, self._sum, self._last = map(int, body.split())
        self._count, self._last = self._count + 1, envelope.position
        self._sum = zlib.crc32(envelope.id.encode(), self._sum)
        await tx.put([Put(kind=KIND, id=self._name, body=b"%d %d %d" % (self._count, self._sum, self._last))])


async def publish(router: Router, orders: asyncio.StreamReader) -> None:
    """Publish as many events as ordered, some at a time, numbered from the first on."""
    numbers = count()
    while order := await orders.readline():
        for _ in range(int(order) // AT_ONCE):
            await router.publish_many([node.Left(node=f"{number}") for number in islice(numbers, AT_ONCE)])


async def react(router: Router, orders: asyncio.StreamReader, *names: str) -> None:
    """Serve these reactions for ever."""
    readers = [Reader(name=name, event_names=frozenset({node.Left.name()}), react=Chain(name).react) for name in names]
    serving = [asyncio.create_task(router.serve(reader, lambda: None, lambda: True)) for reader in readers]
    await asyncio.wait([*serving, asyncio.create_task(orders.read())], return_when=asyncio.FIRST_COMPLETED)
    os._exit(1)


async def handle(router: Router, orders: asyncio.StreamReader, folder: str, *names: str) -> None:
    """Serve these handlers for ever: the effect of each is a line in a file of its own, outside the store."""

    def writer(name: str) -> Callable[[Event, Envelope, str], Awaitable[None]]:
        file = os.open(Path(folder) / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

        async def write(event: Event, envelope: Envelope, key: str) -> None:
            os.write(file, b"%d %s\n" % (envelope.position, key.encode()))

        return write

    for name in names:
        router.handle(node.Left, writer(name), name=name, from_start=True)
    await orders.read()
    os._exit(1)


PARTS = {"publish": publish, "react": react, "handle": handle}


async def main(part: str, path: str, *words: str) -> None:
    """Open the store and play *part*."""
    clock, orders = SystemClock(), asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    async with open_store(StoreSettings(path=path), clock) as store:
        envelopes = EnvelopeFactory(part, clock, Ids(clock, Random(f"{part} {os.getpid()}")))
        await PARTS[part](Router(store, clock, envelopes, BusSettings(batch=BATCH)), orders, *words)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
