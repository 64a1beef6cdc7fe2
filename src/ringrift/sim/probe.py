"""Probes: events that belong to no line, published and read all the time, so that the bus is always watched."""

import asyncio
from collections.abc import Callable

from ringrift.bus.router import Router
from ringrift.events.base import Envelope, Event
from ringrift.events.data import Lost
from ringrift.kernel.errors import RingriftError
from ringrift.store.ports import Put, Tx
from ringrift.supervision.spec import Daemon

VARIANT = "probe_2p"
EFFECT = "effect"
EVERY_SECONDS = 0.6
HANDLING_SECONDS = 0.003
HANDLER = "probe_handler"
POISON, SOUR = "poison", "sour"
"""A poisoned probe fails until it is cured by hand; a sour one fails the first time."""


class Ledger:
    """What the world outside knows of probes: attempted, acknowledged, and which may be cured by now."""

    def __init__(self) -> None:
        self.tried: list[str] = []
        self.acked: list[str] = []
        self.tasted: set[str] = set()
        self.handled: dict[str, set[str]] = {}
        """Probes that the durable handler was called with, and the keys that came with each."""
        self.cured = False
        self.resting = False
        self.log: Callable[[str], None] = lambda _: None

    async def publish_forever(self, host: str, router: Router, life: int) -> None:
        """Publish a probe every so often, and write down when it was acknowledged."""
        number = 0
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            if self.resting:
                continue
            number += 1
            flavour = POISON if number % 17 == 0 else SOUR if number % 7 == 0 else "sweet"
            id = f"{flavour}-{host}-{life}-{number}"
            self.tried.append(id)
            try:
                await router.publish(Lost(variant=VARIANT, blob=id, reason="probe"), id=id)
            except RingriftError as refused:
                self.log(f"{host}: probe {id} refused: {refused}")
                continue
            self.acked.append(id)

    def reader(self) -> Daemon:
        """The durable reader whose effects are counted."""
        return Daemon(
            name="probe", run=self._react, on=(Lost,), role="pipeline", profiles=frozenset({"coordinator", "full"})
        )

    async def _react(self, event: Event, envelope: Envelope, tx: Tx) -> None:
        if not isinstance(event, Lost) or event.variant != VARIANT:
            return
        if envelope.id.startswith(POISON) and not self.cured:
            raise ValueError("poison")
        if envelope.id.startswith(SOUR) and envelope.id not in self.tasted:
            self.tasted.add(envelope.id)
            raise ValueError("sour")
        before = int((await tx.get(EFFECT, [envelope.id])).get(envelope.id, b"0"))
        await tx.put([Put(kind=EFFECT, id=envelope.id, body=str(before + 1).encode())])

    async def handle(self, event: Event, envelope: Envelope, key: str) -> None:
        """The durable handler: an effect in the world, outside every transaction, that may be cut off by a kill."""
        if isinstance(event, Lost) and event.variant == VARIANT:
            self.handled.setdefault(envelope.id, set()).add(key)
            await asyncio.sleep(HANDLING_SECONDS)
