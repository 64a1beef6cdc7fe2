"""The documented base of coordinators: a part of the user's that starts, pauses, drains and stops, and says how it is.

::

    initializing → ready → starting → running ⇄ paused, degraded → draining → stopping → stopped → starting …

Whatever goes wrong in a step leads to *error*, from where it may be stopped, or started again.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import SupervisionError
from ringrift_compat.handlers import HandlerBase
from ringrift_compat.health import CoordinatorStatus, HealthCheckResult
from ringrift_compat.router_event import RouterEvent
from ringrift_compat.singletons import SingletonMixin

_S = CoordinatorStatus
_GOING = (_S.PAUSED, _S.DRAINING, _S.STOPPING, _S.ERROR)
FOLLOWS: Mapping[CoordinatorStatus, tuple[CoordinatorStatus, ...]] = {
    _S.INITIALIZING: (_S.READY, _S.STARTING, _S.ERROR),
    _S.READY: (_S.STARTING, _S.STOPPING, _S.ERROR),
    _S.STARTING: (_S.RUNNING, _S.STOPPING, _S.ERROR),
    _S.RUNNING: (_S.DEGRADED, *_GOING),
    _S.DEGRADED: (_S.RUNNING, *_GOING),
    _S.PAUSED: (_S.RUNNING, _S.DRAINING, _S.STOPPING, _S.ERROR),
    _S.DRAINING: (_S.STOPPING, _S.ERROR),
    _S.STOPPING: (_S.STOPPED, _S.ERROR),
    _S.STOPPED: (_S.STARTING,),
    _S.ERROR: (_S.STARTING, _S.STOPPING),
}
"""What may follow each status."""


class IllegalChange(SupervisionError):
    """A part cannot go from where it stands to where somebody wants it."""

    def __init__(self, name: str, before: CoordinatorStatus, after: CoordinatorStatus) -> None:
        self.name, self.before, self.after = name, before, after
        allowed = ", ".join(FOLLOWS[before])
        super().__init__(f"{name} is {before} and cannot become {after}: what may follow is {allowed}")


class CoordinatorBase(SingletonMixin):
    """A base for parts with a life: override the ``_do_…`` hooks, which are awaited where the call was made.

    ``start()`` initialises first where that has not happened; starting what runs and stopping what is stopped does
    nothing.  Any other step that does not fit the status raises IllegalChange.
    """

    def __init__(self, name: str = "", *, clock: Clock | None = None) -> None:
        self._name = name or type(self).__name__
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._status = CoordinatorStatus.INITIALIZING
        self._initialized = False
        self._started: float | None = None
        self._errors = 0
        self._last_error = ""

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    @property
    def status(self) -> CoordinatorStatus:
        """What it is doing."""
        return self._status

    @property
    def is_running(self) -> bool:
        """Whether it does its work, be it with difficulties."""
        return self._status in (CoordinatorStatus.RUNNING, CoordinatorStatus.DEGRADED)

    @property
    def uptime_seconds(self) -> float:
        """How long it has been up; 0 when it is not."""
        return 0.0 if self._started is None else self._clock.tick() - self._started

    async def initialize(self) -> None:
        """Make ready, once."""
        if self._status is CoordinatorStatus.READY:
            return
        if self._initialized:
            raise IllegalChange(self._name, self._status, CoordinatorStatus.READY)
        await self._step(self._prepare, CoordinatorStatus.INITIALIZING, CoordinatorStatus.READY)

    async def start(self) -> None:
        """Begin."""
        if self.is_running:
            return
        self._become(CoordinatorStatus.STARTING)
        await self._step(self._open, CoordinatorStatus.STARTING, CoordinatorStatus.RUNNING)
        self._started = self._clock.tick()

    async def stop(self) -> None:
        """End."""
        if self._status in (CoordinatorStatus.INITIALIZING, CoordinatorStatus.STOPPED):
            return
        self._become(CoordinatorStatus.STOPPING)
        await self._step(self._close, CoordinatorStatus.STOPPING, CoordinatorStatus.STOPPED)
        self._started = None

    async def pause(self) -> None:
        """Let the work rest until it is resumed."""
        self._require(CoordinatorStatus.PAUSED)
        await self._step(self._do_pause, self._status, CoordinatorStatus.PAUSED)

    async def resume(self) -> None:
        """Go on after a pause."""
        if self._status is not CoordinatorStatus.PAUSED:
            raise IllegalChange(self._name, self._status, CoordinatorStatus.RUNNING)
        await self._step(self._do_resume, CoordinatorStatus.PAUSED, CoordinatorStatus.RUNNING)

    async def drain(self) -> None:
        """Take on nothing more and finish what is under way; then it may be stopped."""
        self._become(CoordinatorStatus.DRAINING)
        await self._step(self._do_drain, CoordinatorStatus.DRAINING, CoordinatorStatus.DRAINING)

    def degrade(self, reason: str) -> None:
        """Say that it works with difficulties."""
        self._become(CoordinatorStatus.DEGRADED)
        self._last_error = reason

    def recover(self) -> None:
        """Say that the difficulties are over."""
        if self._status is not CoordinatorStatus.DEGRADED:
            raise IllegalChange(self._name, self._status, CoordinatorStatus.RUNNING)
        self._become(CoordinatorStatus.RUNNING)

    def record_error(self, error: BaseException | str) -> None:
        """Count an error."""
        self._errors += 1
        self._last_error = error if isinstance(error, str) else f"{type(error).__name__}: {error}"

    def health_check(self) -> HealthCheckResult:
        """How it is: healthy while it runs without difficulties."""
        healthy = self._status is CoordinatorStatus.RUNNING
        message = "" if healthy else f"{self._name} is {self._status}"
        if not healthy and self._last_error:
            message = f"{message}: {self._last_error}"
        return HealthCheckResult(
            healthy=healthy, status=self._status, message=message, details=self.get_stats(), timestamp=self._clock.now()
        )

    def get_stats(self) -> dict[str, Any]:
        """How it has done so far.  To be extended."""
        return {
            "name": self._name, "status": self._status.value, "uptime_seconds": self.uptime_seconds,
            "errors_count": self._errors, "last_error": self._last_error,
        }  # fmt: skip

    def _require(self, after: CoordinatorStatus) -> None:
        if after not in FOLLOWS[self._status]:
            raise IllegalChange(self._name, self._status, after)

    def _become(self, after: CoordinatorStatus) -> None:
        # Looking and changing is one step: of two that start at once, one does.
        with self._lock:
            self._require(after)
            self._status = after

    async def _step(
        self, hook: Callable[[], Awaitable[None]], during: CoordinatorStatus, after: CoordinatorStatus
    ) -> None:
        """Run *hook* in the status *during* and become *after*; *error* if it raises, or was changed meanwhile."""
        if self._status is not during:
            raise IllegalChange(self._name, self._status, after)
        try:
            await hook()
        except BaseException as wrong:
            self.record_error(wrong)
            self._status = CoordinatorStatus.ERROR
            raise
        if after is not during:
            self._become(after)

    async def _prepare(self) -> None:
        if self._initialized:
            return
        self._initialized = True
        try:
            await self._do_initialize()
        except BaseException:
            self._initialized = False
            raise

    async def _open(self) -> None:
        await self._prepare()
        await self._do_start()

    async def _close(self) -> None:
        await self._do_stop()

    async def _do_initialize(self) -> None:
        """Make ready.  To be overridden."""

    async def _do_start(self) -> None:
        """Begin.  To be overridden."""

    async def _do_stop(self) -> None:
        """End.  To be overridden."""

    async def _do_pause(self) -> None:
        """Let the work rest.  To be overridden."""

    async def _do_resume(self) -> None:
        """Go on.  To be overridden."""

    async def _do_drain(self) -> None:
        """Finish what is under way.  To be overridden."""


class _Ears(HandlerBase):
    """Listens for an orchestrator and counts what it hears."""

    def __init__(self, owner: "BaseOrchestrator") -> None:
        super().__init__(owner.name)
        self._owner = owner

    def _get_event_subscriptions(self) -> Mapping[Any, Callable[[RouterEvent], Any]]:
        return self._owner._get_event_subscriptions()


class BaseOrchestrator(CoordinatorBase):
    """A coordinator that listens, from its start to its stop, to what ``_get_event_subscriptions()`` names.

    What a method of it fails on becomes a letter and is counted.
    """

    def __init__(self, name: str = "", *, clock: Clock | None = None) -> None:
        super().__init__(name, clock=clock)
        self._ears = _Ears(self)

    def _get_event_subscriptions(self) -> Mapping[Any, Callable[[RouterEvent], Any]]:
        """Event type → method.  To be overridden."""
        return {}

    @property
    def is_subscribed(self) -> bool:
        """Whether it listens."""
        return self._ears.is_subscribed

    def get_stats(self) -> dict[str, Any]:
        """How it has done so far, with what it heard."""
        heard = self._ears.stats
        return super().get_stats() | {
            "subscribed": self.is_subscribed, "events_processed": heard.events_processed,
            "events_failed": heard.error_count, "success_rate": heard.success_rate,
        }  # fmt: skip

    async def _open(self) -> None:
        await super()._open()
        self._ears.start()

    async def _close(self) -> None:
        # A callback under way may need this loop to come to its end.
        await asyncio.to_thread(self._ears.stop)
        await super()._close()
