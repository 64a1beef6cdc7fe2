"""The documented event router: a view of the bus of the ambient node."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import cache
from typing import Any

import msgspec

from ringrift.compat import listening
from ringrift.compat.ambient import Embedded, Pending, ambient
from ringrift.compat.callbacks import running_loop
from ringrift.compat.listening import Callback, Listeners
from ringrift.compat.router_event import EventSource, RouterEvent, name_of, read
from ringrift.compat.saying import Counts, Saying, say
from ringrift.events import old_names

HISTORY_MAX = 1000
log = logging.getLogger(__name__)


class EventRouter:
    """Publishes and listens, under the names of the documents and under ours: it is one stream."""

    view = EventSource.ROUTER

    @classmethod
    def get_instance(cls) -> "EventRouter":
        """The router."""
        return get_router()

    def publish(
        self, event_type: object, payload: Mapping[str, Any] | None = None, source: str = "", *,
        route_to_data_bus: bool = True, route_to_stage_bus: bool = True, route_to_cross_process: bool = True,
    ) -> Pending[RouterEvent]:  # fmt: skip
        """Accept an event at once; awaiting what is returned is the durable acknowledgement.

        Raises InputError, UnknownName where settings are strict, and on a running loop Backpressure when too much is
        accepted and not durable yet; without a loop it waits for room.
        """
        node = ambient.node()
        if isinstance(event_type, RouterEvent):
            payload, source = event_type.payload if payload is None else payload, source or event_type.source
            event_type = event_type.event_type
        hidden = {EventSource.DATA_BUS: route_to_data_bus, EventSource.STAGE_BUS: route_to_stage_bus}
        name = name_of(event_type)
        event = old_names.convert(name, payload or {}, strict=node.settings.bus.strict, evidence=False)
        saying = Saying(
            name=name, payload=msgspec.to_builtins(dict(payload or {}), str_keys=True), event=event, source=source,
            origin=self.view, hidden=frozenset(view for view, shown in hidden.items() if not shown),
            here_only=not route_to_cross_process,
        )  # fmt: skip
        pending = ambient.accept(say(node, saying), may_wait=running_loop() is None)
        pending.when_done(lambda done: _complain(name, done))
        return pending

    def publish_sync(
        self, event_type: object, payload: Mapping[str, Any] | None = None, source: str = "", **routes: bool
    ) -> RouterEvent:
        """Publish and wait until it is durable.  Raises RuntimeError on the ambient loop, which must not wait."""
        ambient.require_elsewhere("publish_sync")
        return self.publish(event_type, payload, source, **routes).result()

    def subscribe(self, event_type: object, callback: Callback | None = None) -> Any:
        """Call *callback*, plain or async, for every event of this name, or of all with None, from now on.

        Without a callback it is a decorator.
        """
        asked = None if event_type is None else name_of(event_type)
        if callback is None:
            return lambda function: self.subscribe(event_type, function) or function
        listening.listen(asked, callback, self.view)
        return None

    def unsubscribe(self, event_type: object, callback: Callback) -> bool:
        """Call *callback* no more for events of this name; whether it did listen."""
        return listening.stop(None if event_type is None else name_of(event_type), callback, self.view)

    def has_subscribers(self, event_type: object) -> bool:
        """Whether anybody in this program listens to events of this name."""
        return ambient.node().router.has_subscribers(None if event_type is None else name_of(event_type))

    def get_recent_events(self, limit: int = 100, event_type: object | None = None) -> list[RouterEvent]:
        """The last events, oldest first; of one name, if it is given."""
        return ambient.call(_recent(ambient.node(), limit, None if event_type is None else name_of(event_type)))

    @property
    def _event_history(self) -> list[RouterEvent]:
        return self.get_recent_events(HISTORY_MAX)

    def get_stats(self) -> dict[str, Any]:
        """How many events went through since the node was opened, and how many repetitions were not events."""
        node = ambient.node()
        counts = Counts.of(node)
        suppressed = counts.suppressed + node.router.suppressed
        return {
            "events_routed": dict(counts.by_name),
            "events_by_source": dict(counts.by_origin),
            "total_events_routed": sum(counts.by_name.values()),
            "duplicates_prevented": suppressed,
            "content_duplicates_prevented": suppressed,
            "subscriber_count": len(Listeners.of(node).listed()),
        }


async def _recent(node: Embedded, limit: int, name: str | None) -> list[RouterEvent]:
    found = [read(envelope) for envelope in await node.router.recent(limit if name is None else HISTORY_MAX)]
    return [event for event in found if name is None or event.event_type == name][-limit:]


def _complain(name: str, done: "Future[RouterEvent]") -> None:
    """Who does not wait for the acknowledgement must find somewhere that there was none."""
    if not done.cancelled() and (wrong := done.exception()) is not None:
        log.warning("%s was not published: %s", name, wrong)


UnifiedEventRouter = UnifiedEventCoordinator = EventRouter


@cache
def get_router() -> EventRouter:
    """The router of this program."""
    return EventRouter()


get_event_router = get_event_coordinator = get_router


def publish(
    event_type: object, payload: Mapping[str, Any] | None = None, source: str = "", **routes: bool
) -> Pending[RouterEvent]:
    """As :meth:`EventRouter.publish`."""
    return get_router().publish(event_type, payload, source, **routes)


def publish_sync(event_type: object, payload: Mapping[str, Any] | None = None, source: str = "") -> RouterEvent:
    """As :meth:`EventRouter.publish_sync`."""
    return get_router().publish_sync(event_type, payload, source)


def subscribe(event_type: object, callback: Callback | None = None) -> Any:
    """As :meth:`EventRouter.subscribe`."""
    return get_router().subscribe(event_type, callback)


def unsubscribe(event_type: object, callback: Callable[[RouterEvent], Any]) -> bool:
    """As :meth:`EventRouter.unsubscribe`."""
    return get_router().unsubscribe(event_type, callback)


def has_subscribers(event_type: object) -> bool:
    """As :meth:`EventRouter.has_subscribers`."""
    return get_router().has_subscribers(event_type)
