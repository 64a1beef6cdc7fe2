"""A deliverer with a clock that a test moves, and readers that record their effects."""

from collections.abc import Sequence
from random import Random
from typing import Any

from contract.engines import ManualClock
from ringrift.bus.delivery import Deliverer, Reader
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events import data
from ringrift.events.base import Envelope, Event
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BusSettings
from ringrift.kernel.stall_detector import StallDetector
from ringrift.store.ports import Delivery, Put, Store, Tx

BACKOFF = BusSettings().redelivery


class Rig:
    """One store with a deliverer, a clock that a test moves, and readers that record their effects."""

    def __init__(self, store: Store, batch: int = 4, backoff: Backoff = BACKOFF) -> None:
        self.store, self.clock, self.watch = store, ManualClock(), StallDetector()
        self.envelopes = EnvelopeFactory("n1", self.clock, Ids(self.clock, Random(7)))
        self.deliverer = Deliverer(store, self.clock, self.envelopes, backoff, batch)
        self.errors: dict[str, BaseException] = {}

    async def publish(self, *blobs: str) -> Sequence[Envelope]:
        """Publish one event for each of *blobs*."""
        async with self.store.begin() as tx:
            return await tx.append(
                [self.envelopes.make(data.Lost(variant="v", blob=blob, reason="")) for blob in blobs]
            )

    def reader(self, name: str = "reader", **changes: Any) -> Reader:
        """A reader whose effect is a stroke for each event, undone when the event is in *errors*."""

        async def react(event: Event, envelope: Envelope, tx: Tx) -> None:
            assert isinstance(event, data.Lost)
            strokes = (await tx.get(name, [event.blob])).get(event.blob, b"")
            await tx.put([Put(kind=name, id=event.blob, body=strokes + b"I")])
            if event.blob in self.errors:
                raise self.errors[event.blob]

        return Reader(**{"name": name, "event_names": frozenset({data.Lost.name()}), "react": react} | changes)

    async def all(self, reader: Reader) -> int:
        """Deliver until nothing is left; the reader's position after that."""
        position = await self.deliverer.register(reader)
        while (new := await self.deliverer.deliver_batch(reader, position)) != position:
            position = new
        return position

    async def effects(self, name: str = "reader") -> dict[str, str]:
        """The effects of *name*: strokes by blob."""
        async with self.store.read() as view:
            return {id: body.decode() for id, body in (await view.scan(name, "", 1000)).items()}

    async def unsettled(self) -> list[Delivery]:
        """The parked and dead deliveries."""
        async with self.store.read() as view:
            return list(await view.deliveries(("parked", "dead"), 1000))

    async def retry(self, *readers: Reader) -> dict[str, int]:
        """Retry what is due, as the retry daemon does."""
        named = {reader.name: reader for reader in readers}
        return dict(await self.deliverer.retry_due(named, self.watch, self.clock.tick()))
