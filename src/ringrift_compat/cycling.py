"""The documented base of daemons: calls one method of the user's over and over, on the loop where it was started."""

import asyncio
import inspect
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, ClassVar

from ringrift.bus.delivery import attempt
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import RingriftError
from ringrift_compat.callbacks import LOOK_SECONDS
from ringrift_compat.health import CoordinatorStatus, HealthCheckResult
from ringrift_compat.singletons import SingletonMixin

INTERVAL_SECONDS = 60.0
RECENT_MAX = 20
"""Cycles that the health of a daemon is read from."""
ILL_SHARE, TROUBLED_SHARE = 0.5, 0.2
"""Of the recent cycles: if more than so many failed, the daemon is ill, or troubled."""
TRIES_MAX = 1_000_000


@dataclass
class DaemonConfig:
    """How a daemon goes round."""

    name: str = ""
    interval: float | None = None
    """Seconds between two cycles; None = what the class says."""
    backoff_first: float = 1.0
    """Seconds before the next cycle after one that failed; twice as many after each further one …"""
    backoff_max: float = 300.0
    """… up to so many."""
    cycle_seconds_max: float = 3600.0
    """After so long in one cycle it counts as hung, and its health says so."""
    stop_seconds_max: float = 10.0
    """How long a cycle may go on when the daemon is stopped, before it is cancelled."""


class BaseDaemon(SingletonMixin):
    """A base for daemons: a subclass gives ``async def _run_cycle(self)``, and may give ``_on_start`` and ``_on_stop``.

    What a cycle raises is counted and ends that cycle only.  When the loop of the daemon ends, so does the daemon.
    """

    interval: ClassVar[float] = INTERVAL_SECONDS

    def __init__(self, config: DaemonConfig | None = None, *, clock: Clock | None = None) -> None:
        self.config = config or DaemonConfig()
        self.name = self.config.name or type(self).__name__
        self._clock = clock or SystemClock()
        self._backoff = Backoff(
            first_seconds=self.config.backoff_first, seconds_max=self.config.backoff_max, tries=TRIES_MAX
        )
        self._task: asyncio.Task[None] | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._ended: Future[None] | None = None
        self._starting = False
        self._started = self._cycle_began = 0.0
        self._in_cycle = False
        self._recent: deque[bool] = deque(maxlen=RECENT_MAX)
        self.cycle_count = self.error_count = self.consecutive_errors = 0
        self.last_error = ""

    async def _run_cycle(self) -> None:
        """What is done in each cycle.  To be overridden."""
        raise NotImplementedError(f"{type(self).__name__} has no _run_cycle")

    async def _on_start(self) -> None:
        """Called before the first cycle; what it raises, start() raises.  To be overridden."""

    async def _on_stop(self) -> None:
        """Called once behind the last cycle, also when the daemon is cancelled.  To be overridden."""

    @property
    def is_running(self) -> bool:
        """Whether it goes round."""
        return self._task is not None and not self._task.done() and not (self._home and self._home.is_closed())

    @property
    def uptime_seconds(self) -> float:
        """How long it has been going round; 0 when it does not."""
        return self._clock.tick() - self._started if self.is_running else 0.0

    async def start(self) -> None:
        """Begin, on this loop; nothing if it runs already."""
        if self.is_running or self._starting:
            return
        self._starting = True
        try:
            await _hook(self._on_start)
            self._home, self._stopping, self._ended = asyncio.get_running_loop(), asyncio.Event(), Future()
            self._started = self._clock.tick()
            self._task = self._home.create_task(self._live(self._stopping, self._ended), name=self.name)
        finally:
            self._starting = False

    async def stop(self) -> None:
        """End: let the cycle under way finish, and cancel it if it takes too long.  From any loop."""
        if not self.is_running:
            return
        assert self._home is not None
        if asyncio.get_running_loop() is self._home:
            await self._stop()
            return
        there = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._stop(), self._home))
        limit = 3 * self.config.stop_seconds_max
        await asyncio.wait((there,), timeout=limit)
        if not there.done():  # its loop stands still
            there.cancel()
            raise StopRefused(self.name, limit)
        await there

    async def wait_for_shutdown(self) -> None:
        """Return when it has ended.  Who is cancelled while waiting ends it, as for a server that serves for ever."""
        if self._ended is None or not self.is_running:
            return
        ended = asyncio.wrap_future(self._ended)
        try:
            # A loop that is closed at once does not let it say that it has ended.
            while self.is_running and not ended.done():
                await asyncio.wait((ended,), timeout=LOOK_SECONDS)
        except asyncio.CancelledError:
            await self.stop()
            raise

    def health_check(self) -> HealthCheckResult:
        """How it is: by what became of its recent cycles, and by whether the present one comes to an end."""
        status, message = self._judge()
        return HealthCheckResult(
            healthy=status is CoordinatorStatus.RUNNING, status=status, message=message, details=self.get_stats(),
            timestamp=self._clock.now(),
        )  # fmt: skip

    def get_stats(self) -> dict[str, Any]:
        """How it has done so far.  To be extended."""
        return {
            "name": self.name, "running": self.is_running, "uptime_seconds": self.uptime_seconds,
            "cycle_count": self.cycle_count, "error_count": self.error_count,
            "consecutive_errors": self.consecutive_errors, "last_error": self.last_error,
        }  # fmt: skip

    def _judge(self) -> tuple[CoordinatorStatus, str]:
        if not self.is_running:
            return CoordinatorStatus.STOPPED, f"{self.name} does not run"
        busy = self._clock.tick() - self._cycle_began if self._in_cycle else 0.0
        if busy > self.config.cycle_seconds_max:
            return CoordinatorStatus.ERROR, f"one cycle has taken {busy:.0f} s: it may hang"
        recent = tuple(self._recent)
        failed = recent.count(False)
        told = f"{failed} of the last {len(recent)} cycles failed: {self.last_error}"
        if failed > ILL_SHARE * len(recent):
            return CoordinatorStatus.ERROR, told
        if failed > TROUBLED_SHARE * len(recent):
            return CoordinatorStatus.DEGRADED, told
        return CoordinatorStatus.RUNNING, ""

    async def _live(self, stopping: asyncio.Event, ended: "Future[None]") -> None:
        try:
            while not stopping.is_set():
                pause = await self._cycle()
                try:
                    await asyncio.wait_for(stopping.wait(), pause)
                except TimeoutError:
                    continue
        finally:
            wrong = await attempt(_hook, self._on_stop)
            if wrong is not None:
                self._note_error(wrong)
            ended.set_result(None)

    async def _cycle(self) -> float:
        """Go round once; how many seconds to wait behind it."""
        self._cycle_began, self._in_cycle = self._clock.tick(), True
        try:
            wrong = await attempt(self._run_cycle)
        finally:
            self._in_cycle = False
        self.cycle_count += 1
        self._recent.append(wrong is None)
        if wrong is None:
            self.consecutive_errors = 0
            return self.interval if self.config.interval is None else self.config.interval
        self.consecutive_errors += 1
        self._note_error(wrong)
        return self._backoff.delay(min(self.consecutive_errors, TRIES_MAX - 1)) or 0.0

    def _note_error(self, wrong: Exception) -> None:
        self.error_count += 1
        self.last_error = f"{type(wrong).__name__}: {wrong}"

    async def _stop(self) -> None:
        task, stopping = self._task, self._stopping
        if task is None or stopping is None:
            return
        stopping.set()
        if asyncio.current_task() is task:  # it ends itself, behind this cycle
            return
        await asyncio.wait((task,), timeout=self.config.stop_seconds_max)
        if not task.done():
            task.cancel()
            await asyncio.wait((task,), timeout=self.config.stop_seconds_max)
        if not task.done():
            raise StopRefused(self.name, 2 * self.config.stop_seconds_max)


class StopRefused(RingriftError):
    """A daemon goes on although it was told to stop and cancelled."""

    def __init__(self, daemon: str, seconds: float) -> None:
        self.daemon, self.seconds = daemon, seconds
        super().__init__(f"daemon {daemon!r} has not stopped within {seconds:g} s, and was cancelled in vain")


async def _hook(call: Callable[[], Any]) -> None:
    """Call a hook, plain or async."""
    found = call()
    if inspect.isawaitable(found):
        await found
