"""The documented event router: a view of the bus of the ambient node."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import cache
from typing import Any

import msgspec

from ringrift.bus.wants import Wants, wants
from ringrift.events import catalog, old_names
from ringrift.events.base import Envelope, Unknown
from ringrift.kernel.ids import check_id
from ringrift_compat import listening
from ringrift_compat.ambient import Embedded, Pending, ambient
from ringrift_compat.callbacks import running_loop
from ringrift_compat.figures import Figures
from ringrift_compat.listening import Callback, Listeners
from ringrift_compat.router_event import EventSource, RouterEvent, marked, name_of, told
from ringrift_compat.saying import Counts, Saying, say
from ringrift_compat.voice import Voice

HISTORY_MAX = 1000
LOOKED_AT_ONCE = 500
LOOKED_MAX = 100_000
"""Events that may have a name and are looked at to find the last that do."""
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

        A RouterEvent keeps its id, its trace, its request and its parent: the same id again is the same event.
        Raises InputError, UnknownName where settings are strict, and on a running loop Backpressure when too much is
        accepted and not durable yet; without a loop it waits for room.  Awaiting raises IdConflict where an id is
        taken by another event.
        """
        node = ambient.node()
        given = event_type if isinstance(event_type, RouterEvent) else RouterEvent("")
        if given is event_type:
            payload, source = given.payload if payload is None else payload, source or given.source
            event_type = given.event_type
        shown = {EventSource.DATA_BUS: route_to_data_bus, EventSource.STAGE_BUS: route_to_stage_bus}
        hidden = frozenset(view for view, is_shown in shown.items() if not is_shown)
        name = name_of(event_type)
        event = old_names.convert(name, payload or {}, strict=node.settings.bus.strict, evidence=False)
        saying = Saying(
            name=name, payload=msgspec.to_builtins(dict(payload or {}), str_keys=True), event=event, source=source,
            origin=EventSource(given.origin) if self.view is EventSource.ROUTER else self.view, hidden=hidden,
            here_only=not route_to_cross_process, **_chosen(given, hidden),
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
        return ambient.call(recent(ambient.node(), limit, None if event_type is None else name_of(event_type)))

    @property
    def _event_history(self) -> list[RouterEvent]:
        return self.get_recent_events(HISTORY_MAX)

    def get_stats(self) -> dict[str, Any]:
        """How many events went through since the router was first used, whoever said them, and how many did not.

        *content_duplicates_prevented* counts those that said the same words within the window;
        *duplicates_prevented* these and those whose id was there already.  On the ambient loop, which must not wait,
        what others said last may not be counted yet.
        """
        node = ambient.node()
        return _stats(node) if ambient.is_here() else ambient.call(_counted(node))


def _chosen(given: RouterEvent, hidden: frozenset[EventSource]) -> dict[str, str]:
    """What an event that somebody made says of itself.  Raises InvalidId."""
    marks = marked("", EventSource.ROUTER, hidden)
    id = given.event_id if not given.event_id or given.event_id.endswith(marks) else given.event_id + marks
    found = {"id": id, "trace": given.trace_id, "correlation": given.correlation_id, "cause": given.parent_event_id}
    return {what: check_id("event" if what in ("id", "cause") else what, text) for what, text in found.items() if text}


async def _counted(node: Embedded) -> dict[str, Any]:
    await Figures.of(node).catch_up()
    return _stats(node)


def _stats(node: Embedded) -> dict[str, Any]:
    counts, figures = Counts.of(node), Figures.of(node)
    by_name, suppressed = figures.by_name(), counts.suppressed + node.router.suppressed
    return {
        "events_routed": by_name,
        "events_by_source": figures.by_origin(),
        "total_events_routed": sum(by_name.values()),
        "duplicates_prevented": suppressed + counts.repeated + node.router.repeated,
        "content_duplicates_prevented": suppressed,
        "subscriber_count": len(Listeners.of(node).listed()),
    }


async def recent(node: Embedded, limit: int, name: str | None) -> list[RouterEvent]:
    """The last *limit* events, oldest first; with a *name*, of the last that may be called so and are."""
    voice, wanted = Voice.of(node), wants(name)
    found: list[RouterEvent] = []
    before: int | None = None
    looked = 0
    while len(found) < limit and looked < LOOKED_MAX:
        async with node.store.read() as view:
            page = await view.last(before, max(limit, LOOKED_AT_ONCE), wanted.names or ())
        found = [*heard(page, wanted, () if name is None else (name,), voice), *found]
        if not page:
            break
        before, looked = page[0].position, looked + len(page)
    return found[-limit:] if limit > 0 else []


def heard(page: Iterable[Envelope], wanted: Wants, names: Collection[str], voice: Voice) -> Iterator[RouterEvent]:
    """Those of *page* that are *wanted*, under that of the *names* that each answers to; with no names, all."""
    for envelope in page:
        event = catalog.decode(envelope.name, envelope.body)
        if not names:
            yield told(event, envelope, None, voice.origin_of(envelope))
        elif not isinstance(event, Unknown) and wanted.has(event, envelope):
            asked = next((name for name in old_names.spoken(event) if name in names), None)
            yield told(event, envelope, asked, voice.origin_of(envelope))


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
