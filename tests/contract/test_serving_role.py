"""Two nodes on one store: a serving daemon with a role works on one of them, and passes to the other."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import msgspec

from ringrift.kernel.clock import SystemClock
from ringrift.kernel.settings import NodeSettings, Settings
from ringrift.node import Node
from ringrift.store.open import open_store
from ringrift.supervision.spec import Daemon
from wait import wait_until

SECONDS_MAX, LIFE_SECONDS = 20.0, 0.05


def settings(home: Path, node: str) -> Settings:
    """A node of *home* that elects often."""
    local = Settings.local(home)
    cluster = msgspec.structs.replace(local.cluster, elect_seconds=0.1, role_seconds=1.5, beat_seconds=0.2)
    blobs = msgspec.structs.replace(local.blobs, folder=str(home / node))
    return msgspec.structs.replace(local, node=NodeSettings(id=node), cluster=cluster, blobs=blobs)


def test_a_webhook_is_served_by_one_node_and_handed_over(tmp_path: Path) -> None:
    """It never runs on two nodes at once; when its node leaves, the other one takes it over with the role."""

    async def story() -> None:
        serving, most = list[str](), 0

        def daemon() -> Daemon:
            async def post(*, node_id: str, alive: Callable[[], None]) -> None:
                nonlocal most
                serving.append(node_id)
                most = max(most, len(serving))
                try:
                    while True:
                        alive()
                        await asyncio.sleep(LIFE_SECONDS)
                finally:
                    serving.remove(node_id)

            return Daemon(name="post", run=post, serve=True, role="webhook")

        first, clock = settings(tmp_path, "n1"), SystemClock()
        async with asyncio.timeout(60.0), open_store(first.store, clock) as store, AsyncExitStack() as stack:
            opened = {}
            for name in ("n1", "n2"):
                own = await stack.enter_async_context(AsyncExitStack())
                node = Node.open(settings(tmp_path, name), clock, Random(1), store=store, extra=(daemon(),))
                await own.enter_async_context(node)
                opened[name] = own
            await wait_until(lambda: len(serving) == 1, SECONDS_MAX)
            [holder] = serving
            await opened[holder].aclose()
            [other] = {"n1", "n2"} - {holder}
            await wait_until(lambda: serving == [other], SECONDS_MAX)
            assert most == 1

    asyncio.run(story())
