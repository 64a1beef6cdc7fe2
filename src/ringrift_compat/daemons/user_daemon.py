"""User daemons: a user's factory as a daemon of the node's supervisor, run on the loop where it was registered."""

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ringrift.bus.delivery import attempt
from ringrift.kernel.errors import SettingsError, SupervisionError
from ringrift.kernel.foreign import attempt_sync
from ringrift.kernel.health import Health, Status
from ringrift.supervision.spec import CATEGORIES, Daemon
from ringrift_compat.daemons.types import DaemonManagerConfig, DaemonType
from ringrift_compat.embedded_node import EmbeddedNode
from ringrift_compat.events.callbacks import POLL_SECONDS, LoopClosed, on_loop
from ringrift_compat.health.protocols import read_health

_MISSED_BEATS_MAX = 3
"""A loop that misses so many in a row does not answer."""
_SILENT_SECONDS_MIN = 2.0
"""A busy machine may keep any loop waiting for less."""
_FIRST_BEAT_SECONDS = 0.05
"""A factory that still runs after this has started."""
_METHODS = ("stop", "wait_for_shutdown", "health_check")


@dataclass(frozen=True)
class UserDaemon:
    """A factory that a user registered, and how it is to be run."""

    daemon_type: DaemonType
    factory: Callable[[], Any]
    home: asyncio.AbstractEventLoop | None = None
    depends_on: tuple[DaemonType, ...] = ()
    health_check_interval: float | None = None
    auto_restart: bool = True
    max_restarts: int | None = None
    category: str = "other"
    critical: bool = False

    def __post_init__(self) -> None:
        if self.category not in CATEGORIES:
            key = f"daemon {self.daemon_type.value}"
            raise SettingsError(key, self.category, f"categories are {', '.join(CATEGORIES)}")

    def to_spec(self, node: EmbeddedNode, config: DaemonManagerConfig) -> Daemon:
        """The same as a daemon for the supervisor, governed by *config*."""
        run = _Run(self, node, config)
        return Daemon(
            name=self.daemon_type.value,
            run=run.serve,
            serve=True,
            check=run.check,
            category=self.category,
            critical=self.critical,
            restart=config.restart(self.max_restarts, again=self.auto_restart),
            check_seconds=run.interval,
            stop_seconds_max=config.shutdown_timeout,
            final=(LoopClosed,),
            seconds_max=max(_MISSED_BEATS_MAX * run.interval, _SILENT_SECONDS_MIN),
        )


class _HomeTask:
    """A coroutine on the loop of its user, awaited and cancelled from the loop of the node.

    Its own loop reports from time to time that it runs, so that a loop that is held up is noticed.
    """

    def __init__(self, home: asyncio.AbstractEventLoop, call: Callable[[], Any], beat: Callable[[], float]) -> None:
        self._home, self._call, self._beat = home, call, beat
        self._task: asyncio.Task[Exception | None] | None = None
        self._end: Future[Exception | None] = Future()
        self._send(self._start)

    def _start(self) -> None:
        self._task = self._home.create_task(attempt(self._call))
        self._task.add_done_callback(self._finish)
        self._home.call_later(_FIRST_BEAT_SECONDS, self._report)

    def _report(self) -> None:
        if not self._end.done():
            self._home.call_later(self._beat(), self._report)

    def _finish(self, task: "asyncio.Task[Exception | None]") -> None:
        cancelled = SupervisionError("it was cancelled on its own loop")
        self._end.set_result(cancelled if task.cancelled() else task.result())

    async def wait(self) -> None:
        """Wait for its end.  Raises its error, and LoopClosed if its loop has been closed."""
        end = asyncio.wrap_future(self._end)
        while not end.done():
            await asyncio.wait((end,), timeout=POLL_SECONDS)
            if not self._end.done():
                self._require_home()
        if self._task is not None and self._task.cancelled():
            for _ in range(10):  # a loop that ends cancels its tasks before it is closed
                await asyncio.sleep(POLL_SECONDS / 10)
                self._require_home()
        if (error := self._end.result()) is not None:
            raise error

    async def stop(self) -> None:
        """Cancel it and wait until it or its loop has ended; each cancellation of the caller cancels it again.

        Going on without it would leave it running outside any supervision.
        """
        cancelled: asyncio.CancelledError | None = None
        with suppress(LoopClosed):
            self._cancel()
            while not self._end.done():
                try:
                    await asyncio.wait((asyncio.wrap_future(self._end),), timeout=POLL_SECONDS)
                    self._require_home()
                except asyncio.CancelledError as again:
                    cancelled = again
                    self._cancel()
        if cancelled is not None:
            raise cancelled

    def _cancel(self) -> None:
        self._send(lambda: None if self._task is None else self._task.cancel())

    def _require_home(self) -> None:
        if self._home.is_closed():
            raise LoopClosed("the loop that it ran on has been closed")

    def _send(self, call: Callable[[], object]) -> None:
        try:
            self._home.call_soon_threadsafe(call)
        except RuntimeError as closed:
            raise LoopClosed("the loop that it ran on has been closed") from closed


class _Run:
    """The body and the health check of one user daemon."""

    def __init__(self, user: UserDaemon, node: EmbeddedNode, config: DaemonManagerConfig) -> None:
        self._user, self._node, self._wiring = user, node, config.enable_coordination_wiring
        self._home = user.home or node.loop
        self.interval = config.check_seconds(user.critical, user.health_check_interval)
        self._daemon: Any = getattr(user.factory, "__self__", None)

    async def serve(self, *, alive: Callable[[], None]) -> None:
        """Run the factory to its end, which is a failure, as is the end of its loop."""

        def beat() -> float:
            with suppress(RuntimeError):  # the node has closed
                self._node.loop.call_soon_threadsafe(alive)
            return self.interval

        task = _HomeTask(self._home, self._live, beat)
        try:
            await task.wait()
        finally:
            await task.stop()

    async def _live(self) -> None:
        """Call the factory; a daemon object that it returns runs until it ends or is stopped."""
        daemon = await _call(self._user.factory)
        if not any(hasattr(daemon, name) for name in _METHODS):
            return
        self._daemon = daemon
        is_wired = self._wiring and hasattr(daemon, "subscribe_all")
        if is_wired:
            daemon.subscribe_all()
        try:
            if hasattr(daemon, "wait_for_shutdown"):
                await _call(daemon.wait_for_shutdown)
            else:
                await asyncio.Event().wait()
        finally:
            if is_wired:
                daemon.unsubscribe_all()
            if hasattr(daemon, "stop"):
                await _call(daemon.stop)

    async def check(self) -> Health:
        """The health that the daemon object reports; a factory without an object is healthy while it runs."""
        name, daemon = self._user.daemon_type.value, self._daemon
        if not hasattr(daemon, "health_check"):
            return Health(part=name, status=Status.HEALTHY)
        results: list[Any] = []

        async def ask(_: object) -> None:
            results.append(await _call(daemon.health_check))

        if self._home is self._node.loop and not inspect.iscoroutinefunction(daemon.health_check):
            result, error = await self._node.threads.run(attempt_sync, daemon.health_check)
            results.append(result)
        else:
            error = await attempt(on_loop(ask, self._home, self._node), None)
        if error is not None:
            raise error
        return read_health(name, results[0])


async def _call(function: Callable[[], Any]) -> Any:
    result = function()
    return await result if inspect.isawaitable(result) else result
