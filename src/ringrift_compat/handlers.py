"""Classes and wrappers of the documents for those who listen: bases to inherit from, and boundaries for what fails."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from ringrift.bus.delivery import attempt, attempt_plain
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import DeliveryError
from ringrift_compat.circuits import CircuitBreaker, CircuitState
from ringrift_compat.events import get_router
from ringrift_compat.router_event import RouterEvent, name_of

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
    refused_count: int = 0
    """Events for which the handler was not called, because its circuit was open."""

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


@dataclass(frozen=True)
class ResilientHandlerConfig:
    """How long a handler may take, and when it is left alone for a while.

    How often what failed is tried again is no matter of a handler: it is a letter, and ``bus.redelivery`` says it.
    """

    timeout_seconds: float = 30.0
    """For async handlers; a plain one runs in a thread, which cannot be stopped."""
    max_consecutive_failures: int = 5
    """Failures in a row at which it is not called any more …"""
    reset_seconds: float = 60.0
    """… for so long; then one event shows whether it is well again."""


class CircuitOpen(DeliveryError):
    """A handler has failed too often in a row and is not called for a while: the event is a letter until then."""

    def __init__(self, name: str, seconds: float, error: str) -> None:
        self.name, self.seconds, self.error = name, seconds, error
        super().__init__(f"{name} is not called for another {seconds:.0f} s: {error}")


class Boundary:
    """What stands around one handler: counts what comes of it, and opens its circuit."""

    def __init__(self, name: str, config: ResilientHandlerConfig, stats: HandlerStats, breaker: CircuitBreaker) -> None:
        self.name, self.config, self.stats, self.breaker = name, config, stats, breaker
        self._told = False

    def enter(self) -> None:
        """Raise CircuitOpen, and count it, if the handler is not to be called now."""
        if not self.breaker.can_execute(self.name):
            left, last = self.breaker.seconds_left(self.name), self.breaker.last_error(self.name)
            self.stats.refused_count += 1
            raise CircuitOpen(self.name, left, last)

    def leave(self, wrong: Exception | None) -> None:
        """Count one call; raises what went wrong."""
        self.stats.note(self.name, wrong)
        if wrong is None:
            self.breaker.record_success(self.name)
            self._told = False
            return
        self.breaker.record_failure(self.name, self.stats.last_error)
        if not self._told and self.breaker.get_state(self.name) is CircuitState.OPEN:
            self._told = True
            log.error("%s fails again and again and is not called for a while", self.name, exc_info=wrong)
        raise wrong

    async def awaited(self, given: Callable[[], Awaitable[Any]]) -> None:
        """Await what *given* returns, for as long as it may take."""

        async def in_time() -> None:
            async with asyncio.timeout(self.config.timeout_seconds):
                await given()

        try:
            wrong = await attempt(in_time)
        except asyncio.CancelledError:
            self.breaker.record_undecided(self.name)
            raise
        self.leave(wrong)


def resilient_handler(
    call: Callable[..., Any], stats: HandlerStats | None = None, *, name: str = "",
    config: ResilientHandlerConfig | None = None, clock: Clock | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """*call* behind a boundary: it has a time limit and a circuit, and *stats* counts what comes of it.

    What goes wrong is counted and raised.  On the bus it hurts nobody else there: it is a letter of this handler, tried
    again with growing pauses, which is the retry; to swallow it would lose the event and call the handler healthy.
    """
    limits = config or ResilientHandlerConfig()
    breaker = CircuitBreaker(limits.max_consecutive_failures, limits.reset_seconds, clock=clock)
    own = name or getattr(call, "__qualname__", repr(call))
    boundary = Boundary(own, limits, stats or HandlerStats(), breaker)

    @wraps(call)
    def plain(*args: Any) -> Any:
        boundary.enter()
        found, wrong = attempt_plain(call, *args)
        if wrong is None and inspect.isawaitable(found):
            return boundary.awaited(lambda: found)
        boundary.leave(wrong)
        return found

    @wraps(call)
    async def bounded(*args: Any) -> None:
        boundary.enter()
        await boundary.awaited(lambda: call(*args))

    wrapped: Any = bounded if inspect.iscoroutinefunction(call) else plain
    wrapped.stats, wrapped.breaker = boundary.stats, breaker
    return wrapped  # type: ignore[no-any-return]  # one of the two above


def make_handlers_resilient(
    owner: object, name: str = "", prefix: str = HANDLER_PREFIX, config: ResilientHandlerConfig | None = None
) -> dict[str, Callable[..., Any]]:
    """Put every method of *owner* whose name begins with *prefix* behind a boundary of its own; these, by their names.

    *name* is what *owner* is called in errors and counts.
    """
    own = name or type(owner).__name__
    found = {one: getattr(owner, one) for one in dir(type(owner)) if one.startswith(prefix)}
    made = {
        one: resilient_handler(call, name=f"{own}.{one}", config=config)
        for one, call in found.items()
        if callable(call)
    }
    for one, call in made.items():
        setattr(owner, one, call)
    return made
