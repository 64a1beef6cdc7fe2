"""Carries out what somebody orders for a daemon of this node: start, stop, start again, clear."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ringrift.bus.router import Router
from ringrift.bus.scribe import Scribe
from ringrift.cluster import orders
from ringrift.cluster.orders import Order
from ringrift.events.base import Envelope, Event
from ringrift.events.daemon import Ordered
from ringrift.kernel.errors import SupervisionError, UnknownName, told
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.supervision.supervisor import Supervisor

LOOK_SECONDS = 5.0
"""Between looks that nothing calls for: an order may have been given while the node was away."""
LIFE_SECONDS = 5.0
"""Between two signs of life while an order is carried out, which takes as long as the daemon does."""
ERROR_CHARACTERS_MAX = 500
NAME = "obey"


async def obey(
    *, node_id: str, store: Store, router: Router, scribe: Scribe, supervisor: Supervisor, alive: Callable[[], None]
) -> None:
    """Look at once, whenever an order is given, and now and then."""
    given = asyncio.Event()

    async def wake(event: Event, envelope: Envelope) -> None:
        given.set()

    heard = router.subscribe(Ordered, wake, name=f"obey:{node_id}")
    try:
        while True:
            given.clear()
            async with store.read() as view:
                waiting = await orders.of(view, node_id)
            for order in waiting:
                error = await _in_time(supervisor, order, alive)
                async with store.begin() as tx:
                    await orders.settle(tx, scribe, order, error)
            alive()
            with suppress(TimeoutError):
                await asyncio.wait_for(given.wait(), LOOK_SECONDS)
    finally:
        await router.unsubscribe(heard)


async def _in_time(supervisor: Supervisor, order: Order, alive: Callable[[], None]) -> str:
    """Carry out *order* and show life meanwhile: each step of it has a limit of its own."""
    acting = asyncio.get_running_loop().create_task(carry_out(supervisor, order))
    try:
        while not acting.done():
            alive()
            await asyncio.wait((acting,), timeout=LIFE_SECONDS)
        return acting.result()
    finally:
        acting.cancel()


async def carry_out(supervisor: Supervisor, order: Order) -> str:
    """Do what *order* says; why that could not be, if it could not."""
    name = order.daemon
    if name == NAME and order.action != "start":
        return "it carries out the orders itself, and cannot end before it has said so"
    try:
        match order.action:
            case "start":
                await supervisor.start(name)
            case "stop":
                if not await supervisor.stop(name):
                    return "was told to stop and still runs: only a restart of the node helps"
            case "restart":
                await supervisor.restart(name)
            case "clear":
                await supervisor.clear(name)
    except (SupervisionError, UnknownName) as refused:
        return told(str(refused), ERROR_CHARACTERS_MAX)
    return ""


SPEC = Daemon(name="obey", run=obey, serve=True, after=("beat",), category="core")
