"""Listeners: routers as nodes have them, events to say, and ears that write down what they hear."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from random import Random
from typing import Any

from contract.engines import HandClock
from ringrift.bus.delivery import Reader
from ringrift.bus.router import Router
from ringrift.bus.scribe import Scribe
from ringrift.events import custom, data, training, work
from ringrift.events.base import Envelope, Event
from ringrift.kernel.clock import Clock
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BusSettings
from ringrift.store.ports import Delivery, Put, Store, Tx

QUICK = {"poll_seconds": 0.01, "redeliver_seconds": 0.05}
LETTERS = ("parked", "dead", "done", "discarded")
_routers = count()


def scribe(node: str, clock: Clock) -> Scribe:
    """Somebody who writes envelopes for *node*, with ids that nobody else uses."""
    return Scribe(node, clock, Ids(clock, Random(f"{node}-{next(_routers)}")))


@asynccontextmanager
async def routed(store: Store, clock: Clock | None = None, node: str = "n1", **bus: Any) -> AsyncIterator[Router]:
    """The router of one node, closed at the end."""
    clock = clock or HandClock()
    router = Router(store, clock, scribe(node, clock), BusSettings(**QUICK | bus))
    try:
        yield router
    finally:
        await router.close()


def lost(blob: str, variant: str = "v") -> data.Lost:
    """An event of a line that goes into the log."""
    return data.Lost(variant=variant, blob=blob, reason="gone")


def finished(model: str) -> training.Finished:
    """Another one."""
    return training.Finished(variant="v", model=model, generation=1, node="n")


def progressed(job: str) -> work.Progressed:
    """An event that is in no log."""
    return work.Progressed(job=job, kind="train", variant="v", node="n", done=0.5)


def word(event: Event) -> str:
    """What *event* is about."""
    match event:
        case data.Lost() | data.Synced():
            return event.blob
        case training.Finished():
            return event.model
        case work.Progressed():
            return event.job
        case custom.Said():
            return event.event
        case _:
            return event.name()


class Ear:
    """Writes down what it hears; *wrong* makes it fail, by word, and *meanwhile* is awaited each time."""

    def __init__(self, meanwhile: Callable[[Event], Any] | None = None) -> None:
        self.heard: list[str] = []
        self.keys: list[str] = []
        self.envelopes: list[Envelope] = []
        self.wrong: dict[str, BaseException] = {}
        self.meanwhile = meanwhile

    async def live(self, event: Event, envelope: Envelope) -> None:
        """As a live subscriber."""
        self.heard.append(word(event))
        self.envelopes.append(envelope)
        if self.meanwhile is not None:
            await self.meanwhile(event)
        if word(event) in self.wrong:
            raise self.wrong[word(event)]

    async def durable(self, event: Event, envelope: Envelope, key: str) -> None:
        """As a handler."""
        self.keys.append(key)
        await self.live(event, envelope)

    def plain(self, event: Event, envelope: Envelope) -> None:
        """As a plain function."""
        self.heard.append(word(event))
        if word(event) in self.wrong:
            raise self.wrong[word(event)]

    async def react(self, event: Event, envelope: Envelope, tx: Tx) -> None:
        """As a reaction, whose effect is a record."""
        await tx.put([Put(kind="heard", id=word(event), body=b"I")])
        await self.live(event, envelope)

    def reader(self, name: str, *wants: type[Event]) -> Reader:
        """A durable reader with this reaction."""
        return Reader(name=name, wants=frozenset(event.name() for event in wants), react=self.react)


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


async def letters(store: Store, reader: str | None = None) -> Sequence[Delivery]:
    """Every delivery that ever went wrong, in whatever state it is."""
    async with store.read() as view:
        return await view.deliveries(LETTERS, 1000, reader)


async def log(store: Store) -> Sequence[Envelope]:
    """The whole log."""
    async with store.read() as view:
        return await view.read(0, 10_000)


async def place(store: Store, reader: str) -> int | None:
    """Where *reader* stands, if it has ever enrolled."""
    async with store.read() as view:
        return (await view.places()).get(reader)
