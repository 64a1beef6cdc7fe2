"""The cross-process queue over a network: the coordinator's log, in which each subscriber has a place that it keeps."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any

from ringrift.client import Client
from ringrift.events.base import Envelope
from ringrift.kernel.errors import UnknownName
from ringrift_compat.events import old_names
from ringrift_compat.events.event_router import EXAMINED_MAX, select
from ringrift_compat.events.router_event import EventSource, Origins, RouterEvent

_PAGE = 1000
_PREFIX = "queue."


class _OtherMachines(Origins):
    """Every event comes from another process."""

    def __init__(self) -> None:
        pass

    def origin_of(self, envelope: Envelope) -> EventSource:
        return EventSource.CROSS_PROCESS


async def publish(client: Client, name: object, payload: Mapping[str, Any]) -> str:
    """Publish; the id of the event.  What decisions rest on becomes a custom event: no program is evidence."""
    event = old_names.make_event(old_names.canonical(name), old_names.to_plain(payload), evidence=False)
    return (await client.publish(event)).id


async def subscribe(client: Client, subscriber: str) -> None:
    """Keep what comes from now on for *subscriber*; a known one stays where it is."""
    await client.place(_PREFIX + subscriber)


async def poll(client: Client, subscriber: str, names: frozenset[str], limit: int) -> list[RouterEvent]:
    """The next events for *subscriber*, oldest first.  Its place does not move."""
    selected, origins, events = old_names.make_filter(names or None), _OtherMachines(), list[RouterEvent]()
    async for page in _pages(client, await client.place(_PREFIX + subscriber), selected.names or ()):
        events += select(page, selected, names, origins)
        if len(events) >= limit:
            break
    return events[:limit]


async def acknowledge(client: Client, subscriber: str, event_id: str) -> None:
    """Move *subscriber* to this event, if it is not behind it already.  Raises UnknownName."""
    place = await client.place(_PREFIX + subscriber)
    async for page in _pages(client, place, ()):
        for envelope in page:
            if envelope.id == event_id:
                await client.move(_PREFIX + subscriber, place, envelope.position)
                return
    raise UnknownName("event that is not acknowledged", event_id)


async def unsubscribe(client: Client, subscriber: str) -> None:
    """Keep nothing for *subscriber*: it is moved behind all events, and lapses like any reader that stands still."""
    place = await client.place(_PREFIX + subscriber)
    if client.position > place:
        await client.move(_PREFIX + subscriber, place, client.position)


async def _pages(client: Client, after: int, names: Collection[str]) -> AsyncIterator[Sequence[Envelope]]:
    """The log after *after*, in pages, as far as is looked at for one call."""
    examined = 0
    while examined < EXAMINED_MAX:
        page = await client.read(after, names=names, limit=_PAGE)
        if not page:
            return
        yield page
        after, examined = page[-1].position, examined + len(page)
