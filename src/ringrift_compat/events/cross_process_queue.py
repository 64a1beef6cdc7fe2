"""The documented cross-process queue: the log, read by name from the position of a subscriber."""

from collections.abc import Iterable, Mapping
from typing import Any

from ringrift.kernel.errors import UnknownName, require_name
from ringrift.kernel.ids import check_name
from ringrift.kernel.stall_detector import Observation, StallDetector
from ringrift.kernel.value import Value
from ringrift.store.ports import Reads, Tx
from ringrift.store.records import Records
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.events import old_names, remote_queue
from ringrift_compat.events.event_router import EXAMINED_MAX, EventRouter, select
from ringrift_compat.events.router_event import EventSource, Origins, RouterEvent
from ringrift_compat.remote import coordinators, wait_for

_PAGE = 1000
_TIMEOUT_SECONDS = 300.0


class _QueueSubscriber(Value):
    """A subscriber: how often it has polled, and how long it may go without."""

    polls: int
    seconds: float


_SUBSCRIBERS = Records("queue_subscriber", _QueueSubscriber, limit=1000)


class _SilenceDetector(StallDetector):
    """Observes for one program which subscribers have stopped polling."""

    def __init__(self, node: EmbeddedNode) -> None:
        super().__init__()


class _View(EventRouter):
    """The router for events that are given to the queue."""

    view = EventSource.CROSS_PROCESS


_VIEW = _View()


class CrossProcessEventQueue:
    """Keeps events for subscribers of any process, over restarts; only a subscriber moves its own position.

    A program without a store uses the log of the coordinators at RINGRIFT_COORDINATOR_URL, under the scopes of its key.

    A subscriber that has not polled for *subscriber_timeout* seconds is forgotten, as any program that uses the queue
    observes on its own clock: nothing is kept for it until it subscribes again.
    """

    def __init__(self, subscriber_timeout: float = _TIMEOUT_SECONDS) -> None:
        self._seconds = subscriber_timeout

    def publish(self, event_type: object, payload: Mapping[str, Any] | None = None, source: str = "") -> str:
        """Publish and wait until it is durable; the id of the event."""
        if urls := coordinators():
            return wait_for(urls, lambda client: remote_queue.publish(client, event_type, payload or {}))
        return _VIEW.publish_sync(event_type, payload, source).event_id

    def subscribe(self, subscriber_id: str) -> None:
        """Keep what comes from now on for *subscriber_id*; a known one stays where it is."""
        check_name("subscriber", subscriber_id)
        if urls := coordinators():
            return wait_for(urls, lambda client: remote_queue.subscribe(client, subscriber_id))
        embedded.call(_register(embedded.node(), subscriber_id, self._seconds))

    def poll(self, subscriber_id: str, event_types: Iterable[object] = (), limit: int = 100) -> list[RouterEvent]:
        """The next events for *subscriber_id*, oldest first, of these types or all.  Its position does not move.

        Raises UnknownName, also for one that was forgotten.
        """
        names = frozenset(map(old_names.canonical, event_types))
        if urls := coordinators():
            return wait_for(urls, lambda client: remote_queue.poll(client, subscriber_id, names, limit))
        return embedded.call(_poll(embedded.node(), subscriber_id, names, limit))

    def ack(self, subscriber_id: str, event_id: str) -> None:
        """Move *subscriber_id* to this event.  Raises UnknownName."""
        if urls := coordinators():
            return wait_for(urls, lambda client: remote_queue.acknowledge(client, subscriber_id, event_id))
        embedded.call(_acknowledge(embedded.node(), subscriber_id, event_id))

    def unsubscribe(self, subscriber_id: str) -> None:
        """Keep nothing for *subscriber_id* any more.  Raises UnknownName."""
        if urls := coordinators():
            return wait_for(urls, lambda client: remote_queue.unsubscribe(client, subscriber_id))
        embedded.call(_forget(embedded.node(), subscriber_id))


async def _register(node: EmbeddedNode, subscriber: str, seconds: float) -> None:
    async with node.store.begin() as tx:
        await tx.register_reader(subscriber, node.store.position)
        await _mark_poll(tx, node, subscriber, seconds)


async def _mark_poll(tx: Tx, node: EmbeddedNode, subscriber: str, seconds: float | None = None) -> None:
    """Count a poll of *subscriber*, and forget those that have not polled for their time."""
    rows = await _SUBSCRIBERS.scan(tx)
    own = rows.get(subscriber) or _QueueSubscriber(polls=0, seconds=_TIMEOUT_SECONDS)
    rows[subscriber] = _QueueSubscriber(polls=own.polls + 1, seconds=own.seconds if seconds is None else seconds)
    await _SUBSCRIBERS.put_at(tx, {subscriber: rows[subscriber]})
    observations = [Observation(name=name, counter=row.polls, seconds=row.seconds) for name, row in rows.items()]
    for silent in node.extension(_SilenceDetector).stalled(observations, node.clock.tick()):
        await _forget_in(tx, silent.name)


async def _forget(node: EmbeddedNode, subscriber: str) -> None:
    async with node.store.begin() as tx:
        await _position(tx, subscriber)
        await _forget_in(tx, subscriber)


async def _forget_in(tx: Tx, subscriber: str) -> None:
    await _SUBSCRIBERS.delete(tx, [subscriber])
    if subscriber in await tx.positions():
        await tx.forget_reader(subscriber)


async def _position(view: Reads, subscriber: str) -> int:
    positions = await view.positions()
    require_name("subscriber", subscriber, positions)
    return positions[subscriber]


async def _poll(node: EmbeddedNode, subscriber: str, names: frozenset[str], limit: int) -> list[RouterEvent]:
    origins, selected = node.extension(Origins), old_names.make_filter(names or None)
    events: list[RouterEvent] = []
    examined = 0
    async with node.store.begin() as tx:
        await _position(tx, subscriber)
        await _mark_poll(tx, node, subscriber)
    async with node.store.read() as view:
        position = await _position(view, subscriber)
        while len(events) < limit and examined < EXAMINED_MAX:
            page = await view.read(position, _PAGE, selected.names or ())
            if not page:
                break
            events += select(page, selected, names, origins)
            position, examined = page[-1].position, examined + len(page)
    return events[:limit]


async def _acknowledge(node: EmbeddedNode, subscriber: str, event_id: str) -> None:
    async with node.store.begin() as tx:
        position = await _position(tx, subscriber)
        envelopes = await tx.events_by_id([event_id])
        if not envelopes:
            raise UnknownName("event", event_id)
        if envelopes[0].position > position:
            await tx.advance(subscriber, position, envelopes[0].position)


def publish_event(event_type: object, payload: Mapping[str, Any] | None = None, source: str = "") -> str:
    """Publish to every process of this home; the id of the event."""
    return CrossProcessEventQueue().publish(event_type, payload, source)
