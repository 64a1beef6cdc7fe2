"""Bases of the documents for classes that subscribe."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from ringrift.bus.delivery import attempt
from ringrift.kernel.foreign import attempt_sync
from ringrift_compat.events import old_names
from ringrift_compat.events.event_router import get_router
from ringrift_compat.events.router_event import RouterEvent

Handler = Callable[[RouterEvent], Any]
_TYPES_MAX = 1000
"""Names that one set of statistics counts by."""


@dataclass
class HandlerStats:
    """Counts of the calls of one handler."""

    events_processed: int = 0
    success_count: int = 0
    error_count: int = 0
    last_error: str = ""
    errors_by_type: dict[str, int] = field(default_factory=dict)
    refused_count: int = 0
    """Events for which the handler was not called, because its circuit was open."""

    @property
    def success_rate(self) -> float:
        """The share of events without an error; 1.0 before the first."""
        return self.success_count / self.events_processed if self.events_processed else 1.0

    def record(self, name: str, error: Exception | None) -> None:
        """Count one event and its error."""
        self.events_processed += 1
        if error is None:
            self.success_count += 1
            return
        self.error_count += 1
        self.last_error = f"{type(error).__name__}: {error}"
        if name in self.errors_by_type or len(self.errors_by_type) < _TYPES_MAX:
            self.errors_by_type[name] = self.errors_by_type.get(name, 0) + 1


class EventSubscriptionMixin:
    """Subscribes the methods that :meth:`_get_event_subscriptions` names, together, and ends them together."""

    _subscribed: "list[tuple[str, Handler]] | None" = None

    def _get_event_subscriptions(self) -> Mapping[Any, Handler]:
        """Event type → method.  To be overridden."""
        return {}

    def _wrap_handler(self, method: Handler) -> Handler:
        """The function that is called in place of *method*."""
        return method

    def subscribe_all(self) -> int:
        """Subscribe to everything that is named; how many.  A second call changes nothing."""
        if self._subscribed is None:
            methods = self._get_event_subscriptions().items()
            handlers = [(old_names.canonical(event), self._wrap_handler(method)) for event, method in methods]
            for name, handler in handlers:
                get_router().subscribe(name, handler)
            self._subscribed = handlers
        return len(self._subscribed)

    def unsubscribe_all(self) -> None:
        """End all subscriptions."""
        for name, handler in self._subscribed or ():
            get_router().unsubscribe(name, handler)
        self._subscribed = None

    @property
    def is_subscribed(self) -> bool:
        """Whether it is subscribed."""
        return self._subscribed is not None


class HandlerBase(EventSubscriptionMixin):
    """A base for classes that subscribe: counts what they process; failures become dead letters."""

    def __init__(self, name: str = "") -> None:
        self.name = name or type(self).__name__
        self.stats = HandlerStats()

    def start(self) -> None:
        """Subscribe."""
        self.subscribe_all()

    def stop(self) -> None:
        """Unsubscribe."""
        self.unsubscribe_all()

    def _wrap_handler(self, method: Handler) -> Handler:
        """*method*, with statistics; a plain one stays plain, so that it blocks no loop of ours."""

        def record(event: RouterEvent, error: Exception | None) -> None:
            self.stats.record(event.event_type, error)
            if error is not None:
                raise error

        @wraps(method)
        def plain(event: RouterEvent) -> Any:
            result, error = attempt_sync(method, event)
            record(event, error)
            return result

        @wraps(method)
        async def counted(event: RouterEvent) -> None:
            record(event, await attempt(method, event))

        return counted if inspect.iscoroutinefunction(method) else plain

    def get_status(self) -> dict[str, Any]:
        """Its name, whether it is subscribed, and its statistics."""
        return {"name": self.name, "subscribed": self.is_subscribed, "stats": self.stats}
