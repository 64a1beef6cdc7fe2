"""Living: what a daemon of each shape does from its start until it ends or fails."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from ringrift.bus.delivery import Reader
from ringrift.bus.router import Router
from ringrift.kernel.errors import NotLeader, SupervisionError
from ringrift.store.ports import Tx
from ringrift.supervision.unit import Unit

Holds = Callable[[str], bool]
"""Whether this node believes that it holds a role."""
Want = Callable[[str], None]
"""Has this node stand for a role from now on."""
Check = Callable[[str, Tx], Awaitable[None]]
"""Binds a transaction to a role, and raises NotLeader where it has gone to another node."""


async def live(unit: Unit, router: Router, readers: Mapping[str, Reader], holds: Holds) -> None:
    """Tick, react or serve for ever.  Returns only when it was told to stop, and raises whatever goes wrong."""
    if unit.spec.on:
        await _react(unit, router, readers[unit.spec.name], holds)
    elif unit.spec.every is not None:
        await _tick(unit, holds)
    else:
        await unit.measured()
        if not unit.ending:
            raise SupervisionError(f"daemon {unit.spec.name} is to serve, but ended by itself")


def reader(unit: Unit, check: Check) -> Reader:
    """The reader of a daemon that reacts, each transaction of which is bound to its role."""
    role = unit.spec.role

    async def guard(tx: Tx) -> None:
        unit.alive()  # the transaction before this one has come to its end
        if role is not None:
            await check(role, tx)

    wants = frozenset(event.name() for event in unit.spec.on)
    return Reader(name=unit.spec.name, wants=wants, react=unit.measured, guard=guard)


async def _tick(unit: Unit, holds: Holds) -> None:
    role = unit.spec.role
    assert unit.seconds is not None
    while not unit.ending:
        if role is None or holds(role):
            await _once(unit)
        unit.alive()
        await asyncio.sleep(unit.seconds)


async def _once(unit: Unit) -> None:
    seconds = unit.spec.seconds_max
    try:
        async with asyncio.timeout(seconds) as limit:
            with suppress(NotLeader):  # the role has gone to another node: nothing happened
                await unit.measured()
    except TimeoutError as late:
        if not limit.expired():
            raise
        raise TimeoutError(f"a tick took longer than {seconds:g} s") from late


async def _react(unit: Unit, router: Router, reads: Reader, holds: Holds) -> None:
    role = unit.spec.role
    while not unit.ending:
        try:
            await router.serve(reads, unit.alive, (lambda: True) if role is None else (lambda: holds(role)))
        except NotLeader:  # another node reads on: there is nothing to do here
            await asyncio.sleep(unit.spec.restart.first_seconds)
