"""Probes: events that belong to no line, published and read all the time, so that the bus is always checked."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ringrift.bus.router import Router
from ringrift.events.base import Envelope, Event
from ringrift.events.data import Lost
from ringrift.kernel.errors import RingriftError
from ringrift.store.ports import Put, Tx
from ringrift.supervision.spec import Daemon

_VARIANT = "probe_2p"
EFFECT = "effect"
_EVERY_SECONDS = 0.6
_HANDLER_SECONDS = 0.003
HANDLER = "probe_handler"
POISON, FLAKY = "poison", "flaky"
"""The reader fails on a poison probe until it is repaired, and on a flaky one the first time."""


class Probes:
    """The outside view of the probes: published, acknowledged, and how the reader treats them."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self.published, self.acked = list[str](), list[str]()
        self.failed_once: set[str] = set()
        self.handled: dict[str, set[str]] = {}  # probes that the durable handler was called with, and their keys
        self.repaired = self.paused = self.stuck = False
        self._log = log

    async def publish_forever(self, host: str, router: Router, start: int) -> None:
        """Publish a probe every so often, and record when it was acknowledged; *start* counts the starts of *host*."""
        number = 0
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            if self.paused:
                continue
            number += 1
            kind = POISON if number % 17 == 0 else FLAKY if number % 7 == 0 else "plain"
            id = f"{kind}-{host}-{start}-{number}"
            self.published.append(id)
            try:
                await router.publish(Lost(variant=_VARIANT, blob=id, reason="probe"), id=id)
            except RingriftError as error:
                self._log(f"{host}: probe {id} was not acknowledged: {error}")
                continue
            self.acked.append(id)

    def reader(self) -> Daemon:
        """The durable reader whose effects are counted."""
        return Daemon(name="probe", run=self._react, on=(Lost,), role="pipeline")

    async def _react(self, event: Event, envelope: Envelope, tx: Tx) -> None:
        if not isinstance(event, Lost) or event.variant != _VARIANT:
            return
        if envelope.id.startswith(POISON) and not self.repaired:
            raise ValueError("poison")
        if envelope.id.startswith(FLAKY) and envelope.id not in self.failed_once:
            self.failed_once.add(envelope.id)
            raise ValueError("flaky")
        before = int((await tx.get(EFFECT, [envelope.id])).get(envelope.id, b"0"))
        await tx.put([Put(kind=EFFECT, id=envelope.id, body=str(before + 1).encode())])

    async def handle(self, event: Event, envelope: Envelope, key: str) -> None:
        """The durable handler: an effect outside every transaction, which a kill may interrupt."""
        if isinstance(event, Lost) and event.variant == _VARIANT:
            self.handled.setdefault(envelope.id, set()).add(key)
            await asyncio.sleep(_HANDLER_SECONDS)
            while self.stuck:
                with suppress(asyncio.CancelledError):  # it does not return, whoever asks
                    await asyncio.sleep(_EVERY_SECONDS)
