"""An embedded node on a store and a clock of the test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any

from contract.engines import ManualClock
from contract.subscribers import QUICK
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.bus.router import Router
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BusSettings, NodeSettings, Settings
from ringrift.store.ports import Store
from ringrift.threads import Threads
from ringrift_compat.embedded_node import EmbeddedNode
from ringrift_compat.variables import PublishOptions


@asynccontextmanager
async def embedded_on(
    store: Store, clock: ManualClock, node_id: str = "n1", **options: Any
) -> AsyncIterator[EmbeddedNode]:
    """The embedded node of a program on *store*, closed at the end."""
    settings = Settings(node=NodeSettings(id=node_id), bus=BusSettings(**QUICK))
    ids = Ids(clock, Random(node_id))
    envelopes = EnvelopeFactory(node_id, clock, ids)
    async with AsyncExitStack() as stack:
        router, threads = Router(store, clock, envelopes, settings.bus), Threads(2, "callback")
        stack.push_async_callback(router.close)
        stack.callback(threads.close)
        loop = asyncio.get_running_loop()
        parts = (settings, clock, ids, envelopes, store, router, loop, threads)
        yield EmbeddedNode(*parts, "app_1", frozenset(), {}, stack, PublishOptions(**options))
