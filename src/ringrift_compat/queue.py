"""The documented cross-process queue: the log, read by name from the place where a subscriber stands."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from ringrift.bus.wants import wants
from ringrift.kernel.errors import UnknownName
from ringrift.kernel.ids import check_name
from ringrift_compat.ambient import Embedded, ambient
from ringrift_compat.events import LOOKED_MAX, EventRouter, heard
from ringrift_compat.router_event import EventSource, RouterEvent, name_of
from ringrift_compat.voice import Voice

POLLED_AT_ONCE = 1000


class _View(EventRouter):
    """The router for what is given to the queue."""

    view = EventSource.CROSS_PROCESS


class CrossProcessEventQueue:
    """Keeps events for subscribers of any process, over restarts; each has a place that only its own word moves."""

    def publish(self, event_type: object, payload: Mapping[str, Any] | None = None, source: str = "") -> str:
        """Publish and wait until it is durable; the id of the event."""
        return _view().publish_sync(event_type, payload, source).event_id

    def subscribe(self, subscriber_id: str) -> None:
        """Keep what comes from now on for *subscriber_id*; one that is known stays where it is."""
        ambient.call(_enrol(ambient.node(), check_name("subscriber", subscriber_id)))

    def poll(self, subscriber_id: str, event_types: Iterable[object] = (), limit: int = 100) -> list[RouterEvent]:
        """The next events for *subscriber_id*, oldest first, of these types or all.  Its place stays where it is."""
        names = frozenset(name_of(one) for one in event_types)
        return ambient.call(_poll(ambient.node(), subscriber_id, names, limit))

    def ack(self, subscriber_id: str, event_id: str) -> None:
        """Move *subscriber_id* behind this event.  Raises UnknownName."""
        ambient.call(_acknowledge(ambient.node(), subscriber_id, event_id))

    def unsubscribe(self, subscriber_id: str) -> None:
        """Keep nothing for *subscriber_id* any more.  Raises UnknownName."""
        ambient.call(_forget(ambient.node(), subscriber_id))


async def _enrol(node: Embedded, subscriber: str) -> None:
    async with node.store.begin() as tx:
        await tx.enrol(subscriber, node.store.position)


async def _forget(node: Embedded, subscriber: str) -> None:
    async with node.store.begin() as tx:
        await tx.forget(subscriber)


async def _poll(node: Embedded, subscriber: str, names: frozenset[str], limit: int) -> list[RouterEvent]:
    voice, wanted = Voice.of(node), wants(names or None)
    found: list[RouterEvent] = []
    looked = 0
    async with node.store.read() as view:
        places = await view.places()
        if subscriber not in places:
            raise UnknownName("subscriber", subscriber, places)
        place = places[subscriber]
        while len(found) < limit and looked < LOOKED_MAX:
            page = await view.read(place, POLLED_AT_ONCE, wanted.names or ())
            if not page:
                break
            found += heard(page, wanted, names, voice)
            place, looked = page[-1].position, looked + len(page)
    return found[:limit]


async def _acknowledge(node: Embedded, subscriber: str, event_id: str) -> None:
    async with node.store.begin() as tx:
        places = await tx.places()
        if subscriber not in places:
            raise UnknownName("subscriber", subscriber, places)
        found = await tx.envelopes([event_id])
        if not found:
            raise UnknownName("event", event_id)
        if found[0].position > places[subscriber]:
            await tx.advance(subscriber, places[subscriber], found[0].position)


@cache
def _view() -> _View:
    return _View()


@cache
def get_event_queue() -> CrossProcessEventQueue:
    """The queue of this program's home."""
    return CrossProcessEventQueue()


def publish_event(event_type: object, payload: Mapping[str, Any] | None = None, source: str = "") -> str:
    """Publish to every process of this home; the id of the event."""
    return get_event_queue().publish(event_type, payload, source)
