"""Event statistics: counts of all events, by name and by origin, whichever process has published them.

Events in the log are counted when it is read: now and then, and when the counts are asked for.  A program that only
publishes waits for none of this.
"""

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ringrift.events import catalog
from ringrift.events.base import Envelope, Unknown
from ringrift.events.custom import Published
from ringrift.kernel.errors import InputError, StoreError
from ringrift.store.follow import follow
from ringrift_compat.embedded_node import EmbeddedNode
from ringrift_compat.events import old_names
from ringrift_compat.events.router_event import Origins

_POLLS = 5
"""Polls of the bus between two reads in the background: the log must not drop what is not counted yet."""
_MEMORY = frozenset(event.name() for event in catalog.EVENTS if event.SCOPE == "memory")
log = logging.getLogger(__name__)


class EventStats:
    """Counts of events since the router was first used.  Made and changed on the loop of the node only."""

    def __init__(self, node: EmbeddedNode) -> None:
        self._node, self._origins = node, node.extension(Origins)
        self._position = node.store.position
        self._reading = asyncio.Lock()
        self._by_name: Counter[str] = Counter()
        self._by_origin: Counter[str] = Counter()
        self._names: dict[str, str] = {}
        rows = old_names.names().values()
        self._several = {Published.name()} | {row.event.name() for row in rows if row.event is not None and row.fixed}
        task = node.loop.create_task(self._follow(), name="event_stats")
        node.stack.push_async_callback(_cancel, task)

    async def catch_up(self) -> None:
        """Count the events of the log that were not counted yet."""
        async with self._reading:
            async for envelope in follow(self._node.store, self._position, until=self._node.store.position):
                self._position = envelope.position
                self._by_name[self._name(envelope)] += 1
                self._by_origin[self._origins.origin_of(envelope).value] += 1

    def by_name(self, counted: Counter[str]) -> Counter[str]:
        """How many events had which name; of those that skip the log, without those that are *counted* already."""
        return self._by_name + self._memory(counted)

    def by_origin(self, counted: Counter[str]) -> Counter[str]:
        """How many events came from where."""
        return self._by_origin + Counter({"router": self._memory(counted).total()})

    def _memory(self, counted: Counter[str]) -> Counter[str]:
        """Events that skip the log; the router counts them by our names."""
        published = self._node.router.published - counted
        return Counter({_plain_name(name): published[name] for name in _MEMORY if published[name]})

    def _name(self, envelope: Envelope) -> str:
        """The closest old name; the body is decoded only where several stand for one name of ours."""
        name = self._names.get(envelope.name)
        if name is None:
            name = _closest_name(envelope)
            if envelope.name not in self._several:
                self._names[envelope.name] = name
        return name

    async def _follow(self) -> None:
        try:
            while True:
                await asyncio.sleep(_POLLS * self._node.settings.bus.poll_seconds)
                await self.catch_up()
        except StoreError as error:
            log.warning("events are counted only when the counts are asked for: %s", error)


def _closest_name(envelope: Envelope) -> str:
    try:
        event = catalog.decode(envelope.name, envelope.body)
    except InputError:
        event = Unknown(wire_name=envelope.name, raw=b"")  # it is counted, readable or not
    names = () if isinstance(event, Unknown) else old_names.names_of(event)
    return names[0] if names else old_names.canonical(envelope.name)


def _plain_name(wire_name: str) -> str:
    """The first old name that stands for every event of this class."""
    rows = old_names.names().items()
    plain = (name for name, row in rows if row.event is not None and not row.fixed and row.event.name() == wire_name)
    return next(plain, old_names.canonical(wire_name))


async def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait((task,))


@dataclass
class CoordinatorStats:
    """The counts of the router in the shape of the earlier event coordinator."""

    events_emitted: int = 0
    events_by_type: dict[str, int] = field(default_factory=dict)
    events_by_source: dict[str, int] = field(default_factory=dict)
    events_processed: int = 0
    """Calls of callbacks that have ended, with or without an error."""
    errors: int = 0
    duplicates_prevented: int = 0
    subscriber_count: int = 0

    @property
    def error_rate(self) -> float:
        """The share of calls that failed; 0.0 before the first."""
        return self.errors / self.events_processed if self.events_processed else 0.0

    @classmethod
    def read(cls, router: Any) -> "CoordinatorStats":
        """The counts of *router* now."""
        stats = router.get_stats()
        return cls(
            events_emitted=stats["total_events_routed"], events_by_type=stats["events_routed"],
            events_by_source=stats["events_by_source"], events_processed=stats["delivered"] + stats["failed"],
            errors=stats["failed"], duplicates_prevented=stats["duplicates_prevented"],
            subscriber_count=stats["subscriber_count"],
        )  # fmt: skip
