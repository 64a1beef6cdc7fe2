"""The documented event router: a view of the log of the embedded node."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from ringrift.bus.filters import EventFilter
from ringrift.events import catalog
from ringrift.events.base import Envelope, Unknown
from ringrift.kernel.ids import check_id
from ringrift_compat.embedded_node import EmbeddedNode, Pending, embedded
from ringrift_compat.events import old_names, subscriptions
from ringrift_compat.events.event_publish import Publish, Publisher
from ringrift_compat.events.event_stats import EventStats
from ringrift_compat.events.router_event import EventSource, Origins, RouterEvent
from ringrift_compat.events.subscriptions import Callback, Subscriptions

EXAMINED_MAX = 100_000
"""Events of a possible name that are examined to find those that have it."""
_HISTORY_MAX, _PAGE = 1000, 500
log = logging.getLogger(__name__)


class EventRouter:
    """Publishes and subscribes under the names of the documents and under ours: it is one stream."""

    view = EventSource.ROUTER

    @classmethod
    def get_instance(cls) -> "EventRouter":
        """The router of this program."""
        return get_router()

    def publish(
        self, event_type: object, payload: Mapping[str, Any] | None = None, source: str = "", *,
        route_to_data_bus: bool = True, route_to_stage_bus: bool = True, route_to_cross_process: bool = True,
    ) -> Pending[RouterEvent]:  # fmt: skip
        """Accept an event at once; awaiting what is returned is the durable acknowledgement.

        A RouterEvent keeps its id, trace, correlation and parent: the same id again is the same event.
        Raises InputError, UnknownName where settings are strict, and on a running loop Backpressure when too much is
        accepted and not durable yet; without a loop it waits.  Awaiting raises IdConflict where an id belongs to
        another event, and for a model file what importing it raises.
        """
        node, ids = embedded.node(), {}
        view = self.view
        if isinstance(event_type, RouterEvent):
            routed = event_type
            payload, source = routed.payload if payload is None else payload, source or routed.source
            event_type, ids = routed.event_type, _ids(routed)
            view = EventSource(routed.origin) if view is EventSource.ROUTER else view
        routes = {EventSource.DATA_BUS: route_to_data_bus, EventSource.STAGE_BUS: route_to_stage_bus}
        hidden = frozenset(bus for bus, is_shown in routes.items() if not is_shown)
        name = old_names.canonical(event_type)
        plain = old_names.to_plain(payload or {})
        event = old_names.make_event(name, plain, strict=node.options.strict, evidence=False)
        publish = Publish(
            name=name, payload=plain, event=event, source=source, view=view, hidden=hidden,
            is_local=not route_to_cross_process, **ids,
        )  # fmt: skip
        pending = embedded.accept(_publish(node, publish))
        pending.when_done(lambda done: _log_failure(name, done))
        return pending

    def publish_sync(
        self, event_type: object, payload: Mapping[str, Any] | None = None, source: str = "", **routes: bool
    ) -> RouterEvent:
        """Publish and wait until it is durable.  Raises RuntimeError on the loop of the node, which must not wait."""
        embedded.require_other_loop("publish_sync")
        return self.publish(event_type, payload, source, **routes).result()

    def subscribe(self, event_type: object, callback: Callback | None = None) -> Any:
        """Call *callback*, plain or async, for every event of this name, or of all with None, from now on.

        Without a callback it is a decorator.
        """
        if callback is None:
            return lambda function: self.subscribe(event_type, function) or function
        subscriptions.subscribe(_name(event_type), callback, self.view)
        return None

    def unsubscribe(self, event_type: object, callback: Callback) -> bool:
        """End a subscription; whether there was one."""
        return subscriptions.unsubscribe(_name(event_type), callback, self.view)

    def has_subscribers(self, event_type: object) -> bool:
        """Whether anything in this program subscribes to events of this name."""
        return embedded.node().router.has_subscribers(old_names.make_filter(_name(event_type)))

    def get_recent_events(self, limit: int = 100, event_type: object | None = None) -> list[RouterEvent]:
        """The last events, oldest first; with *event_type* only those of that name."""
        return embedded.call(_recent(embedded.node(), limit, _name(event_type)))

    @property
    def _event_history(self) -> list[RouterEvent]:
        return self.get_recent_events(_HISTORY_MAX)

    def get_stats(self) -> dict[str, Any]:
        """Counts of all events since the router was first used, whichever process has published them.

        *content_duplicates_prevented* counts publishes that repeated the content of another within the window,
        *duplicates_prevented* these and repeated ids.  On the loop of the node, which must not wait, the last events of
        other processes may be missing.
        """
        node = embedded.node()
        return _stats(node) if embedded.is_current_loop() else embedded.call(_fresh_stats(node))


def _name(event_type: object) -> str | None:
    return None if event_type is None else old_names.canonical(event_type)


def _ids(event: RouterEvent) -> dict[str, str]:
    """The ids that an event brings along.  Raises InvalidId."""
    ids = {"id": event.event_id, "trace": event.trace_id}
    ids |= {"correlation": event.correlation_id, "cause": event.parent_event_id}
    return {field: check_id("event" if field in ("id", "cause") else field, id) for field, id in ids.items() if id}


async def _publish(node: EmbeddedNode, publish: Publish) -> RouterEvent:
    node.extension(EventStats)  # counting begins with the first publish or subscription
    return await node.extension(Publisher).publish(publish)


async def _fresh_stats(node: EmbeddedNode) -> dict[str, Any]:
    await node.extension(EventStats).catch_up()
    return _stats(node)


def _stats(node: EmbeddedNode) -> dict[str, Any]:
    publisher, stats = node.extension(Publisher), node.extension(EventStats)
    by_name, by_origin = stats.by_name(publisher.in_router), stats.by_origin(publisher.in_router)
    for (name, view), count in publisher.local.items():
        by_name[name] += count
        by_origin[view] += count
    results = node.extension(Subscriptions).results
    return {
        "events_routed": dict(by_name),
        "events_by_source": dict(by_origin),
        "total_events_routed": by_name.total(),
        "duplicates_prevented": publisher.suppressed + publisher.repeated,
        "content_duplicates_prevented": publisher.suppressed,
        "subscriber_count": len(node.extension(Subscriptions).entries()),
        "delivered": results["delivered"],
        "failed": results["failed"],
    }


async def _recent(node: EmbeddedNode, limit: int, name: str | None) -> list[RouterEvent]:
    """The last *limit* events, oldest first; with a *name* only those that have it."""
    selected, origins = old_names.make_filter(name), node.extension(Origins)
    events: list[RouterEvent] = []
    before: int | None = None
    examined = 0
    while len(events) < limit and examined < EXAMINED_MAX:
        async with node.store.read() as view:
            page = await view.last(before, max(limit, _PAGE), selected.names or ())
        events = [*select(page, selected, () if name is None else (name,), origins), *events]
        if not page:
            break
        before, examined = page[0].position, examined + len(page)
    return events[-limit:] if limit > 0 else []


def select(
    page: Iterable[Envelope], selected: EventFilter, names: Collection[str], origins: Origins
) -> Iterator[RouterEvent]:
    """The events of *page* that *selected* matches, under that of *names* which each has; without names, all."""
    for envelope in page:
        event = catalog.decode(envelope.name, envelope.body)
        if not names:
            yield origins.router_event(event, envelope)
        elif not isinstance(event, Unknown) and selected.matches(event, envelope):
            name = next((name for name in old_names.names_of(event) if name in names), None)
            yield origins.router_event(event, envelope, name)


def _log_failure(name: str, done: "Future[RouterEvent]") -> None:
    """A program that does not await the acknowledgement must find the failure in the log."""
    if not done.cancelled() and (error := done.exception()) is not None:
        log.warning("%s was not published: %s", name, error)


UnifiedEventRouter = UnifiedEventCoordinator = EventRouter
_ROUTER = EventRouter()
publish, publish_sync = _ROUTER.publish, _ROUTER.publish_sync
subscribe, unsubscribe, has_subscribers = _ROUTER.subscribe, _ROUTER.unsubscribe, _ROUTER.has_subscribers


def get_router() -> EventRouter:
    """The router of this program."""
    return _ROUTER


get_event_router = get_event_coordinator = get_router
