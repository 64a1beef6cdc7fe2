"""The documented base of coordinators: a part of the user's that starts and stops, and has a health.

::

    initializing → ready → starting → running → stopping → stopped → starting …

An error in any step leads to *error*, from where it may be stopped, or started again.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import SupervisionError
from ringrift_compat.events.handler_base import Handler, HandlerBase
from ringrift_compat.health.protocols import CoordinatorStatus, HealthCheckResult
from ringrift_compat.singleton_mixin import SingletonMixin

_S = CoordinatorStatus
_TRANSITIONS: Mapping[CoordinatorStatus, tuple[CoordinatorStatus, ...]] = {
    _S.INITIALIZING: (_S.READY, _S.STARTING),
    _S.READY: (_S.STARTING, _S.STOPPING),
    _S.STARTING: (_S.RUNNING, _S.STOPPING),
    _S.RUNNING: (_S.STOPPING,),
    _S.STOPPING: (_S.STOPPED,),
    _S.STOPPED: (_S.STARTING,),
    _S.ERROR: (_S.STARTING, _S.STOPPING),
}
"""The statuses that may follow each status; an error may follow any."""


class IllegalChange(SupervisionError):
    """A coordinator cannot go from its status to another."""

    def __init__(self, name: str, before: CoordinatorStatus, after: CoordinatorStatus) -> None:
        self.name, self.before, self.after = name, before, after
        super().__init__(f"{name} is {before} and cannot become {after}, only {', '.join(_TRANSITIONS[before])}")


class CoordinatorBase(SingletonMixin):
    """A base for parts with a lifecycle: override the ``_do_…`` hooks, which are awaited where the call was made.

    ``start()`` initialises first where that has not happened; starting what runs and stopping what is stopped does
    nothing.  Any other step that does not fit the status raises IllegalChange.
    """

    def __init__(self, name: str = "", *, clock: Clock | None = None) -> None:
        self.name = name or type(self).__name__
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self.status = _S.INITIALIZING
        self._is_initialized = False
        self._started: float | None = None
        self._errors = 0
        self._last_error = ""

    @property
    def is_running(self) -> bool:
        """Whether it runs."""
        return self.status is _S.RUNNING

    @property
    def uptime_seconds(self) -> float:
        """How long it has been running; 0 when it is not."""
        return 0.0 if self._started is None else self._clock.tick() - self._started

    async def initialize(self) -> None:
        """Make ready, once."""
        if self.status is not _S.READY:
            if self._is_initialized or self.status is not _S.INITIALIZING:
                raise IllegalChange(self.name, self.status, _S.READY)
            await self._step(self._prepare, _S.READY)

    async def start(self) -> None:
        """Start."""
        if not self.is_running:
            self._become(_S.STARTING)
            await self._step(self._open, _S.RUNNING)
            self._started = self._clock.tick()

    async def stop(self) -> None:
        """Stop."""
        if self.status not in (_S.INITIALIZING, _S.STOPPED):
            self._become(_S.STOPPING)
            await self._step(self._close, _S.STOPPED)
            self._started = None

    def record_error(self, error: BaseException | str) -> None:
        """Count an error."""
        self._errors += 1
        self._last_error = error if isinstance(error, str) else f"{type(error).__name__}: {error}"

    def health_check(self) -> HealthCheckResult:
        """Healthy while it runs."""
        healthy = self.status is _S.RUNNING
        cause = f": {self._last_error}" if self._last_error else ""
        message = "" if healthy else f"{self.name} is {self.status}{cause}"
        return HealthCheckResult(healthy, self.status, message, self.get_stats(), self._clock.now())

    def get_stats(self) -> dict[str, Any]:
        """Status, uptime and errors.  To be extended."""
        stats = {"name": self.name, "status": self.status.value, "uptime_seconds": self.uptime_seconds}
        return stats | {"errors_count": self._errors, "last_error": self._last_error}

    def _become(self, after: CoordinatorStatus) -> None:
        # Checking and changing is one step: of two starts at once, one succeeds.
        with self._lock:
            if after not in _TRANSITIONS[self.status]:
                raise IllegalChange(self.name, self.status, after)
            self.status = after

    async def _step(self, hook: Callable[[], Awaitable[None]], after: CoordinatorStatus) -> None:
        """Run *hook* and become *after*; *error* if it raises."""
        try:
            await hook()
        except BaseException as error:
            self.record_error(error)
            self.status = _S.ERROR
            raise
        self._become(after)

    async def _prepare(self) -> None:
        if not self._is_initialized:
            self._is_initialized = True
            try:
                await self._do_initialize()
            except BaseException:
                self._is_initialized = False
                raise

    async def _open(self) -> None:
        await self._prepare()
        await self._do_start()

    async def _close(self) -> None:
        await self._do_stop()

    async def _do_initialize(self) -> None:
        """Make ready.  To be overridden."""

    async def _do_start(self) -> None:
        """Start.  To be overridden."""

    async def _do_stop(self) -> None:
        """Stop.  To be overridden."""


class BaseOrchestrator(CoordinatorBase):
    """A coordinator that is subscribed, from its start to its stop, to what ``_get_event_subscriptions()`` names.

    An event that a method fails on becomes a dead letter and is counted.
    """

    def __init__(self, name: str = "", *, clock: Clock | None = None) -> None:
        super().__init__(name, clock=clock)
        self._handlers = HandlerBase(self.name)
        self._handlers._get_event_subscriptions = self._get_event_subscriptions  # type: ignore[method-assign]  # a hook of this very object

    def _get_event_subscriptions(self) -> Mapping[Any, Handler]:
        """Event type → method.  To be overridden."""
        return {}

    @property
    def is_subscribed(self) -> bool:
        """Whether it is subscribed."""
        return self._handlers.is_subscribed

    def get_stats(self) -> dict[str, Any]:
        """As above, with the events."""
        events, subscribed = self._handlers.stats, {"subscribed": self.is_subscribed}
        counts = {"events_processed": events.events_processed, "events_failed": events.error_count}
        return super().get_stats() | subscribed | counts | {"success_rate": events.success_rate}

    async def _open(self) -> None:
        await super()._open()
        self._handlers.start()

    async def _close(self) -> None:
        # A callback under way may need this loop to end.
        await asyncio.to_thread(self._handlers.stop)
        await super()._close()
