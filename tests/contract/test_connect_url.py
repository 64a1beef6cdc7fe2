"""A program of another machine connects by a URL over real HTTP, through a restart of its coordinator."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random, SystemRandom

import ringrift
from ringrift.cluster.keys import JoinToken, store_token
from ringrift.cluster.served import wait_until_served
from ringrift.events.base import Envelope
from ringrift.events.custom import Published
from ringrift.jobs import Verify
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.settings import Settings, WireSettings
from ringrift.node import Node
from ringrift.wire import connection
from ringrift.wire.keys import SigningKey, make_token
from ringrift.wire.open import open_wire
from wait import wait_until

SECONDS_MAX = 15.0
SCOPES = ("publish", "read", "administer")


def opened(home: Path, port: int) -> AbstractAsyncContextManager[Node]:
    """The coordinator in *home*."""
    values = {"node.profile": "coordinator", "wire.serve": True, "wire.port": port, "bus.redeliver_seconds": 0.05}
    return Node.open(Settings.local(home, node="c").overlaid(values), SystemClock(), Random(1))


async def join(node: Node, home: Path, url: str) -> None:
    """Put the key of a program into *home*."""
    token, key = make_token(SystemRandom()), SigningKey.make("lab", SystemRandom())
    now = node.clock.now()
    async with node.store.begin() as tx:
        await store_token(tx, token, JoinToken(id="", digest=b"", scopes=SCOPES, expires=now + 60.0), now)
    wire = open_wire(WireSettings())
    await connection.join(wire, url, token, key, profile="")
    wire.close()
    key.save(home / "keys" / "node.json")


def test_a_program_publishes_follows_and_handles_through_a_restart(tmp_path: Path) -> None:
    """Its stream and its handler go on where they were, and no event is missed."""
    handled = list[str]()

    async def handle(event: Published, envelope: Envelope, key: str) -> None:
        handled.append(event.event)

    async def story() -> None:
        async with opened(tmp_path, 0) as node:
            url = await wait_until_served(node.store, "c", node.clock, SECONDS_MAX)
            await join(node, tmp_path / "lab", url)
            settings = Settings.local(tmp_path / "lab").overlaid(
                {"bus.poll_seconds": 0.1, "bus.redeliver_seconds": 0.1}
            )
            running = ringrift.connect(url, settings=settings)
            client = await running.__aenter__()
            assert (await client.leader()).node == "c"
            assert [row.id for row in (await client.status()).nodes] == ["c"]
            job = await client.jobs.enqueue(Verify(variant="hex8_2p", model="ab" * 32))
            assert (await client.jobs.show(job)).state == "ready"
            events = client.subscribe(Published)
            await client.handle(Published, handle, name="lab")
            await client.publish(Published(event="one"))
            assert (await anext(events))[0] == Published(event="one")
        port = int(url.rpartition(":")[2])
        async with opened(tmp_path, port) as node:
            await wait_until_served(node.store, "c", node.clock, SECONDS_MAX)
            await node.router.publish(Published(event="two"))
            assert (await anext(events))[0] == Published(event="two")
            await client.publish(Published(event="three"))
            assert (await anext(events))[0] == Published(event="three")
            await wait_until(lambda: sorted(set(handled)) == ["one", "three", "two"], SECONDS_MAX)
            assert await client.jobs.cancel(job)
            await running.__aexit__(None, None, None)

    async def in_time() -> None:
        async with asyncio.timeout(60.0):
            await story()

    asyncio.run(in_time())
