"""Addresses at which the coordinators of a store serve, for people, workers and programs that ask who leads."""

from ringrift.kernel.clock import Clock
from ringrift.store.follow import wait_for
from ringrift.store.ports import Reads, Store
from ringrift.store.records import Records

SERVED = Records("served_address", str)  # by node: where it serves, once it listens


async def record_served(store: Store, node: str, address: str) -> None:
    """Record that *node* listens at *address*; an empty one: not any more, or not yet."""
    async with store.begin() as tx:
        await SERVED.put_at(tx, {node: address})


async def wait_until_served(store: Store, node: str, clock: Clock, seconds_max: float) -> str:
    """The address of *node* once it listens; empty if it does not within *seconds_max*."""

    async def address(view: Reads) -> str | None:
        return await SERVED.get(view, node) or None

    return await wait_for(store, address, clock, seconds_max) or ""
