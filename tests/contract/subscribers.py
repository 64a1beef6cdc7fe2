"""Subscribers: routers as nodes have them, events to publish, and subscribers that record what they receive."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from random import Random
from typing import Any

from contract.engines import ManualClock
from ringrift.bus.delivery import Reader
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.bus.router import Router
from ringrift.events import custom, data, training, work
from ringrift.events.base import Envelope, Event
from ringrift.kernel.clock import Clock
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BusSettings
from ringrift.store.ports import Delivery, Put, Store, Tx

QUICK = {"poll_seconds": 0.01, "redeliver_seconds": 0.05}
DELIVERY_STATES = ("parked", "dead", "done", "discarded")
_routers = count()


def envelopes(node: str, clock: Clock) -> EnvelopeFactory:
    """A factory of envelopes for *node*, with ids that no other factory uses."""
    return EnvelopeFactory(node, clock, Ids(clock, Random(f"{node}-{next(_routers)}")))


@asynccontextmanager
async def routed(store: Store, clock: Clock | None = None, node: str = "n1", **bus: Any) -> AsyncIterator[Router]:
    """The router of one node, closed at the end."""
    clock = clock or ManualClock()
    router = Router(store, clock, envelopes(node, clock), BusSettings(**QUICK | bus))
    try:
        yield router
    finally:
        await router.close()


def lost(blob: str, variant: str = "v") -> data.Lost:
    """An event of a line that goes into the log."""
    return data.Lost(variant=variant, blob=blob, reason="gone")


def finished(model: str) -> training.Finished:
    """Another event that goes into the log."""
    return training.Finished(variant="v", model=model, generation=1, node="n")


def progressed(job: str) -> work.Progressed:
    """An event that does not go into the log."""
    return work.Progressed(job=job, kind="train", variant="v", node="n", done=0.5)


def subject(event: Event) -> str:
    """The blob, model, job or name that *event* is about."""
    match event:
        case data.Lost() | data.Synced():
            return event.blob
        case training.Finished():
            return event.model
        case work.Progressed():
            return event.job
        case custom.Published():
            return event.event
        case _:
            return event.name()


class Subscriber:
    """Records every event it receives; *errors* makes it fail, by subject, and *meanwhile* is awaited each time."""

    def __init__(self, meanwhile: Callable[[Event], Any] | None = None) -> None:
        self.received: list[str] = []
        self.keys: list[str] = []
        self.envelopes: list[Envelope] = []
        self.errors: dict[str, BaseException] = {}
        self.meanwhile = meanwhile

    async def live(self, event: Event, envelope: Envelope) -> None:
        """As a live subscriber."""
        self.received.append(subject(event))
        self.envelopes.append(envelope)
        if self.meanwhile is not None:
            await self.meanwhile(event)
        if subject(event) in self.errors:
            raise self.errors[subject(event)]

    async def durable(self, event: Event, envelope: Envelope, key: str) -> None:
        """As a handler."""
        self.keys.append(key)
        await self.live(event, envelope)

    def plain(self, event: Event, envelope: Envelope) -> None:
        """As a plain function."""
        self.received.append(subject(event))
        if subject(event) in self.errors:
            raise self.errors[subject(event)]

    async def react(self, event: Event, envelope: Envelope, tx: Tx) -> None:
        """As a reaction that writes a record."""
        await tx.put([Put(kind="received", id=subject(event), body=b"I")])
        await self.live(event, envelope)

    def reader(self, name: str, *wants: type[Event]) -> Reader:
        """A durable reader with this reaction."""
        return Reader(name=name, event_names=frozenset(event.name() for event in wants), react=self.react)


@asynccontextmanager
async def served(router: Router, *readers: Reader) -> AsyncIterator[None]:
    """Serve these reactions meanwhile, as a daemon does."""
    tasks = [asyncio.create_task(router.serve(reader, lambda: None, lambda: True)) for reader in readers]
    await asyncio.sleep(0)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def failed_deliveries(store: Store, reader: str | None = None) -> Sequence[Delivery]:
    """Every delivery that ever failed, in any state."""
    async with store.read() as view:
        return await view.deliveries(DELIVERY_STATES, 1000, reader)


async def log(store: Store) -> Sequence[Envelope]:
    """The whole log."""
    async with store.read() as view:
        return await view.read(0, 10_000)


async def reader_position(store: Store, reader: str) -> int | None:
    """The position of *reader*, if it has ever enrolled."""
    async with store.read() as view:
        return (await view.positions()).get(reader)
