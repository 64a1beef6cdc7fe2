"""Classes and wrappers of the documents for those who listen: bases to inherit from, and boundaries for what fails."""

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from ringrift.bus.delivery import attempt, attempt_plain
from ringrift.compat.events import get_router
from ringrift.compat.router_event import RouterEvent, name_of

HANDLER_PREFIX = "_on_"
NAMES_MAX = 1000
"""Names that one set of statistics counts by."""
log = logging.getLogger(__name__)


@dataclass
class HandlerStats:
    """How a handler is doing."""

    events_processed: int = 0
    success_count: int = 0
    error_count: int = 0
    last_error: str = ""
    errors_by_type: dict[str, int] = field(default_factory=dict)

    @property
    def success_rate(self) -> float:
        """The share of events that went well; 1.0 before the first."""
        return self.success_count / self.events_processed if self.events_processed else 1.0

    def note(self, name: str, wrong: Exception | None) -> None:
        """Count one event, and what went wrong with it."""
        self.events_processed += 1
        if wrong is None:
            self.success_count += 1
            return
        self.error_count += 1
        self.last_error = f"{type(wrong).__name__}: {wrong}"
        if name in self.errors_by_type or len(self.errors_by_type) < NAMES_MAX:
            self.errors_by_type[name] = self.errors_by_type.get(name, 0) + 1


class EventSubscriptionMixin:
    """Subscribes the methods that :meth:`_get_event_subscriptions` names, together, and ends them together."""

    _subscribed: "list[tuple[str, Callable[[RouterEvent], Any]]] | None" = None

    def _get_event_subscriptions(self) -> Mapping[Any, Callable[[RouterEvent], Any]]:
        """Event type → method.  To be overridden."""
        return {}

    def _guarded(self, method: Callable[[RouterEvent], Any]) -> Callable[[RouterEvent], Any]:
        """What is called in place of *method*."""
        return method

    def subscribe_all(self) -> int:
        """Listen to everything that is named; how many.  Again without an end between does nothing."""
        if self._subscribed is None:
            wanted = self._get_event_subscriptions()
            found = [(name_of(event), self._guarded(method)) for event, method in wanted.items()]
            for name, method in found:
                get_router().subscribe(name, method)
            self._subscribed = found
        return len(self._subscribed)

    def unsubscribe_all(self) -> None:
        """Listen to nothing any more."""
        for name, method in self._subscribed or ():
            get_router().unsubscribe(name, method)
        self._subscribed = None

    @property
    def is_subscribed(self) -> bool:
        """Whether it listens."""
        return self._subscribed is not None


class HandlerBase(EventSubscriptionMixin):
    """A base for classes that listen: counts what they process, and lets failures become letters."""

    def __init__(self, name: str = "") -> None:
        self.name = name or type(self).__name__
        self.stats = HandlerStats()

    def start(self) -> None:
        """Listen."""
        self.subscribe_all()

    def stop(self) -> None:
        """Listen no more."""
        self.unsubscribe_all()

    def _guarded(self, method: Callable[[RouterEvent], Any]) -> Callable[[RouterEvent], Any]:
        """*method*, counting what comes of it; what may block stays plain, so that it blocks no loop of ours."""

        def note(event: RouterEvent, wrong: Exception | None) -> None:
            self.stats.note(event.event_type, wrong)
            if wrong is not None:
                raise wrong

        @wraps(method)
        def plain(event: RouterEvent) -> Any:
            found, wrong = attempt_plain(method, event)
            note(event, wrong)
            return found

        @wraps(method)
        async def counted(event: RouterEvent) -> None:
            note(event, await attempt(method, event))

        return counted if inspect.iscoroutinefunction(method) else plain

    def get_status(self) -> dict[str, Any]:
        """How it is doing."""
        return {"name": self.name, "subscribed": self.is_subscribed, "stats": self.stats}


BaseEventHandler = HandlerBase


def resilient_handler(call: Callable[..., Any], stats: HandlerStats | None = None) -> Callable[..., Any]:
    """*call*, which now never raises: what goes wrong is counted in *stats* and written into the log."""
    name, counts = getattr(call, "__qualname__", repr(call)), stats or HandlerStats()

    def note(wrong: Exception | None) -> None:
        counts.note(name, wrong)
        if wrong is not None:
            log.error("%s failed", name, exc_info=wrong)

    @wraps(call)
    def plain(*args: Any) -> Any:
        found, wrong = attempt_plain(call, *args)
        note(wrong)
        return found

    @wraps(call)
    async def bounded(*args: Any) -> None:
        note(await attempt(call, *args))

    wrapped: Any = bounded if inspect.iscoroutinefunction(call) else plain
    wrapped.stats = counts
    return wrapped  # type: ignore[no-any-return]  # one of the two above


def make_handlers_resilient(owner: object, prefix: str = HANDLER_PREFIX) -> list[str]:
    """Wrap every method of *owner* whose name begins with *prefix*; their names."""
    names = [name for name in dir(type(owner)) if name.startswith(prefix) and callable(getattr(owner, name))]
    for name in names:
        setattr(owner, name, resilient_handler(getattr(owner, name)))
    return names
