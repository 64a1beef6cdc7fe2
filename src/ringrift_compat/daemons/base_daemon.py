"""The documented base of daemons: calls one method of the user's again and again, on the loop where it was started."""

import asyncio
import inspect
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ClassVar

from ringrift.bus.delivery import attempt
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import RingriftError
from ringrift_compat.events.callbacks import POLL_SECONDS
from ringrift_compat.health.protocols import CoordinatorStatus, HealthCheckResult
from ringrift_compat.singleton_mixin import SingletonMixin

_RECENT_MAX = 20
"""Cycles that the health of a daemon is judged by."""
_ERROR_SHARE, _DEGRADED_SHARE = 0.5, 0.2
"""The share of failed recent cycles above which a daemon has an error, or is degraded."""
_TRIES_MAX = 1_000_000


class BaseDaemon(SingletonMixin):
    """A base for daemons: a subclass has ``async def _run_cycle(self)``, and may have ``_on_start`` and ``_on_stop``.

    An error is counted and ends that cycle only.  When the loop of the daemon ends, so does the daemon.
    """

    interval: float = 60.0
    """Seconds between two cycles."""
    backoff: ClassVar[Backoff] = Backoff(first_seconds=1.0, seconds_max=300.0, tries=_TRIES_MAX)
    """The pauses after cycles that failed."""
    cycle_seconds_max: ClassVar[float] = 3600.0
    """A cycle that takes longer counts as hung in its health."""
    stop_seconds_max: ClassVar[float] = 10.0
    """How long a cycle may go on when the daemon is stopped, before it is cancelled."""

    def __init__(self, name: str = "", interval: float | None = None, *, clock: Clock | None = None) -> None:
        self.name = name or type(self).__name__
        self.interval = type(self).interval if interval is None else interval
        self._clock = clock or SystemClock()
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._ended: Future[None] | None = None
        self._is_starting = False
        self._started = 0.0
        self._cycle_started: float | None = None
        self._recent: deque[bool] = deque(maxlen=_RECENT_MAX)
        self.cycle_count = self.error_count = self.consecutive_errors = 0
        self.last_error = ""

    async def _run_cycle(self) -> None:
        """One cycle.  To be overridden."""
        raise NotImplementedError(f"{type(self).__name__} has no _run_cycle")

    async def _on_start(self) -> None:
        """Called before the first cycle; start() raises its errors.  To be overridden."""

    async def _on_stop(self) -> None:
        """Called once after the last cycle, also when the daemon is cancelled.  To be overridden."""

    @property
    def is_running(self) -> bool:
        """Whether it cycles."""
        return self._task is not None and not self._task.done() and not (self._loop and self._loop.is_closed())

    @property
    def uptime_seconds(self) -> float:
        """How long it has been running; 0 when it is not."""
        return self._clock.tick() - self._started if self.is_running else 0.0

    async def start(self) -> None:
        """Start on this loop; nothing if it runs already."""
        if self.is_running or self._is_starting:
            return
        self._is_starting = True
        try:
            await _call_hook(self._on_start)
            self._loop, self._stopping, self._ended = asyncio.get_running_loop(), asyncio.Event(), Future()
            self._started = self._clock.tick()
            self._task = self._loop.create_task(self._run(self._stopping, self._ended), name=self.name)
        finally:
            self._is_starting = False

    async def stop(self) -> None:
        """Stop, from any loop: let the present cycle finish, and cancel it if it takes too long."""
        if not self.is_running:
            return
        assert self._loop is not None
        if asyncio.get_running_loop() is self._loop:
            await self._stop()
            return
        ending = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._stop(), self._loop))
        limit = 3 * self.stop_seconds_max
        await asyncio.wait((ending,), timeout=limit)
        if not ending.done():  # its loop is blocked
            ending.cancel()
            raise StopRefused(self.name, limit)
        await ending

    async def wait_for_shutdown(self) -> None:
        """Return when it has ended.  Cancelling this call stops it, as for a server that serves for ever."""
        if self._ended is None or not self.is_running:
            return
        ended = asyncio.wrap_future(self._ended)
        try:
            # A loop that is closed at once does not let it report its end.
            while self.is_running and not ended.done():
                await asyncio.wait((ended,), timeout=POLL_SECONDS)
        except asyncio.CancelledError:
            await self.stop()
            raise

    def health_check(self) -> HealthCheckResult:
        """Its health by its recent cycles, and by whether the present one ends."""
        status, message = self._judge()
        healthy = status is CoordinatorStatus.RUNNING
        return HealthCheckResult(healthy, status, message, self.get_stats(), self._clock.now())

    def get_stats(self) -> dict[str, Any]:
        """Uptime, cycles and errors.  To be extended."""
        counts = ("cycle_count", "error_count", "consecutive_errors", "last_error")
        stats = {"name": self.name, "running": self.is_running, "uptime_seconds": self.uptime_seconds}
        return stats | {name: getattr(self, name) for name in counts}

    def _judge(self) -> tuple[CoordinatorStatus, str]:
        if not self.is_running:
            return CoordinatorStatus.STOPPED, f"{self.name} is not running"
        busy = 0.0 if self._cycle_started is None else self._clock.tick() - self._cycle_started
        if busy > self.cycle_seconds_max:
            return CoordinatorStatus.ERROR, f"one cycle has taken {busy:.0f} s: it may hang"
        recent = tuple(self._recent)
        failed = recent.count(False)
        message = f"{failed} of the last {len(recent)} cycles failed: {self.last_error}"
        if failed > _ERROR_SHARE * len(recent):
            return CoordinatorStatus.ERROR, message
        if failed > _DEGRADED_SHARE * len(recent):
            return CoordinatorStatus.DEGRADED, message
        return CoordinatorStatus.RUNNING, ""

    async def _run(self, stopping: asyncio.Event, ended: "Future[None]") -> None:
        try:
            while not stopping.is_set():
                pause = await self._cycle()
                try:
                    async with asyncio.timeout(pause):
                        await stopping.wait()
                except TimeoutError:
                    continue
        finally:
            error = await attempt(_call_hook, self._on_stop)
            if error is not None:
                self._count_error(error)
            ended.set_result(None)

    async def _cycle(self) -> float:
        """Run one cycle; how many seconds to wait after it."""
        self._cycle_started = self._clock.tick()
        try:
            error = await attempt(self._run_cycle)
        finally:
            self._cycle_started = None
        self.cycle_count += 1
        self._recent.append(error is None)
        if error is None:
            self.consecutive_errors = 0
            return self.interval
        self.consecutive_errors += 1
        self._count_error(error)
        return self.backoff.delay(min(self.consecutive_errors, _TRIES_MAX - 1)) or 0.0

    def _count_error(self, error: Exception) -> None:
        self.error_count += 1
        self.last_error = f"{type(error).__name__}: {error}"

    async def _stop(self) -> None:
        task, stopping = self._task, self._stopping
        if task is None or stopping is None:
            return
        stopping.set()
        if asyncio.current_task() is task:  # it stops itself, after this cycle
            return
        await asyncio.wait((task,), timeout=self.stop_seconds_max)
        if not task.done():
            task.cancel()
            await asyncio.wait((task,), timeout=self.stop_seconds_max)
        if not task.done():
            raise StopRefused(self.name, 2 * self.stop_seconds_max)


class StopRefused(RingriftError):
    """A daemon goes on although it was stopped and cancelled."""

    def __init__(self, daemon: str, seconds: float) -> None:
        self.daemon, self.seconds = daemon, seconds
        super().__init__(f"daemon {daemon!r} has not stopped within {seconds:g} s, although it was cancelled")


async def _call_hook(hook: Callable[[], Any]) -> None:
    result = hook()
    if inspect.isawaitable(result):
        await result
