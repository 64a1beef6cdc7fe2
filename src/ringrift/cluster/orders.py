"""Orders: what a person wants a daemon of some node to do, kept until that node has done it and said so."""

import msgspec

from ringrift.bus.scribe import Scribe
from ringrift.events.base import Envelope
from ringrift.events.daemon import Obeyed, Ordered
from ringrift.kernel.errors import UnknownName
from ringrift.kernel.value import Value
from ringrift.store.ports import Put, Reads, Tx

KIND = "order"
ACTIONS = ("start", "stop", "restart", "clear")
ORDERS_MAX = 64
"""Orders that a node carries out in one go; the others wait."""


class Order(Value):
    """One order; it is named by the event that says it."""

    id: str
    node: str
    daemon: str
    action: str
    """One of ACTIONS."""


async def give(tx: Tx, scribe: Scribe, said: Ordered) -> Envelope:
    """Write down what *said* orders, and say it: nothing is done by saying alone.  Raises UnknownName."""
    if said.action not in ACTIONS:
        raise UnknownName("action", said.action, ACTIONS)
    [told] = await tx.append([scribe.wrap(said, source="orders")])
    order = Order(id=told.id, node=said.node, daemon=said.daemon, action=said.action)
    await tx.put([Put(kind=KIND, id=_key(order.node, order.id), body=msgspec.json.encode(order))])
    return told


async def of(view: Reads, node: str) -> list[Order]:
    """What *node* is to do, the oldest first."""
    mine = f"{node}/"
    found = await view.scan(KIND, mine, ORDERS_MAX)  # those of other nodes stand behind ours
    return [msgspec.json.decode(one.body, type=Order) for one in found if one.id.startswith(mine)]


async def settle(tx: Tx, scribe: Scribe, order: Order, error: str = "") -> None:
    """Say that *order* was carried out, or with which *error* it was not, and forget it."""
    await tx.delete(KIND, [_key(order.node, order.id)])
    said = Obeyed(order=order.id, node=order.node, daemon=order.daemon, action=order.action, error=error)
    await tx.append([scribe.wrap(said, source="orders")])


def _key(node: str, id: str) -> str:
    return f"{node}/{id}"
