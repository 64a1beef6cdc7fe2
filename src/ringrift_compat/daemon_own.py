"""Own daemons: a user's factory or daemon object as a daemon of the node, run on the loop where it was given."""

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ringrift.bus.delivery import attempt, attempt_plain
from ringrift.kernel.errors import SettingsError, SupervisionError
from ringrift.kernel.health import Health, Status
from ringrift.supervision.spec import CATEGORIES, Daemon
from ringrift_compat.ambient import Embedded
from ringrift_compat.callbacks import LOOK_SECONDS, HomeClosed
from ringrift_compat.daemon_types import DaemonManagerConfig, DaemonType

MODES = ("strict", "degraded", "local")
"""Wait for dependencies or do not start; start without those that do not come; do not wait at all."""
MISSED_KNOCKS_MAX = 3
"""A loop that misses so many in a row is silent for too long."""
SILENT_SECONDS_MIN = 2.0
"""A busy machine may keep any loop waiting for less."""
_METHODS = ("start", "run", "stop", "wait_for_shutdown", "health_check")


@dataclass(frozen=True)
class Own:
    """What a user registered: a factory, or a daemon object with ``start`` or ``run``."""

    daemon_type: DaemonType
    factory: Callable[[], Any] | None
    daemon: object | None = None
    home: asyncio.AbstractEventLoop | None = None
    depends_on: tuple[DaemonType, ...] = ()
    soft_depends_on: tuple[DaemonType, ...] = ()
    startup_mode: str = "strict"
    health_check_interval: float | None = None
    auto_restart: bool = True
    max_restarts: int | None = None
    startup_grace_period: float = 0.0
    category: str = "other"
    critical: bool = False

    def __post_init__(self) -> None:
        key = f"daemon {self.daemon_type.value}"
        if self.startup_mode not in MODES:
            raise SettingsError(key, self.startup_mode, f"startup modes are {', '.join(MODES)}")
        if self.category not in CATEGORIES:
            raise SettingsError(key, self.category, f"categories are {', '.join(CATEGORIES)}")
        if self.factory is None and not any(hasattr(self.daemon, name) for name in ("start", "run")):
            raise SettingsError(key, self.daemon, "has start() or run()")

    def declared(self, node: Embedded, config: DaemonManagerConfig) -> Daemon:
        """It as a daemon of ours, governed by *config*."""
        guest = Guest(self, node, config)
        return Daemon(
            name=self.daemon_type.value, run=guest.serve, serve=True, check=guest.check, category=self.category,
            critical=self.critical, restart=config.restart(self.max_restarts, again=self.auto_restart),
            look_seconds=guest.interval, stop_seconds_max=config.shutdown_timeout, final=(HomeClosed,),
            seconds_max=max(MISSED_KNOCKS_MAX * guest.interval, SILENT_SECONDS_MIN, self.startup_grace_period),
        )  # fmt: skip


class Away:
    """A coroutine on some loop, waited for and ended from the ambient one."""

    def __init__(self, home: asyncio.AbstractEventLoop, call: Callable[[], Any]) -> None:
        self._home, self._call = home, call
        self._task: asyncio.Task[Exception | None] | None = None
        self._done: Future[Exception | None] = Future()

    def begin(self) -> None:
        """Start it.  Raises HomeClosed."""
        self._here = asyncio.wrap_future(self._done)
        self._tell(self._start)

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self._done.done()

    def _start(self) -> None:
        self._task = self._home.create_task(attempt(self._call))
        self._task.add_done_callback(self._settle)

    def _settle(self, task: "asyncio.Task[Exception | None]") -> None:
        self._done.set_result(
            SupervisionError("it was cancelled on its own loop") if task.cancelled() else task.result()
        )

    async def over(self, seconds: float) -> bool:
        """Whether it has ended, at the latest after *seconds*.  Raises HomeClosed."""
        await asyncio.wait((self._here,), timeout=seconds)
        if not self.ended and self._home.is_closed():
            raise HomeClosed("the loop that it ran on has been closed")
        return self.ended

    async def wrong(self) -> Exception | None:
        """What it ended with.  Raises HomeClosed when that was the end of its loop, which cancels before it closes."""
        found = self._done.result()
        if isinstance(found, SupervisionError) and self._task is not None and self._task.cancelled():
            for _ in range(10):
                await asyncio.sleep(LOOK_SECONDS / 10)
                if self._home.is_closed():
                    raise HomeClosed("the loop that it ran on has been closed")
        return found

    async def answers(self, seconds: float) -> bool:
        """Whether its loop does something within *seconds*: after the step it is at, and what follows from that."""
        here, heard = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            with suppress(RuntimeError):  # the ambient loop has closed: nobody waits
                here.call_soon_threadsafe(heard.set)

        self._tell(lambda: self._home.call_soon(lambda: self._home.call_soon(tell)))
        try:
            await asyncio.wait_for(heard.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def cancel(self) -> None:
        """Let it end by itself as soon as it can.  Raises HomeClosed."""
        self._tell(lambda: None if self._task is None else self._task.cancel())

    async def end(self) -> None:
        """Cancel it and wait until it has ended, or its loop has; who is told to hurry tells it once more.

        Going on without it would leave it running where nobody knows of it.
        """
        hurry: asyncio.CancelledError | None = None
        with suppress(HomeClosed):
            self.cancel()
            while not self.ended:
                try:
                    await self.over(LOOK_SECONDS)
                except asyncio.CancelledError as again:
                    hurry = again
                    self.cancel()
        if hurry is not None:
            raise hurry

    def _tell(self, call: Callable[[], object]) -> None:
        try:
            self._home.call_soon_threadsafe(call)
        except RuntimeError as closed:
            raise HomeClosed("the loop that it belongs to has been closed") from closed


class Guest:
    """A user's daemon while it runs: begun, watched and ended from the ambient loop, living on its own."""

    def __init__(self, own: Own, node: Embedded, config: DaemonManagerConfig) -> None:
        self._own, self._node, self._wiring = own, node, config.enable_coordination_wiring
        self._home = own.home or node.loop
        self.interval = config.look_seconds(own.critical, own.health_check_interval)
        self._daemon: Any = own.daemon or getattr(own.factory, "__self__", None)
        self._begun = False
        self._since = 0.0

    async def serve(self, *, alive: Callable[[], None]) -> None:
        """Run it to its end.  An end that nobody asked for is a failure, and so is the end of its loop."""
        self._begun, self._since = False, self._node.clock.tick()
        away = Away(self._home, self._live)
        away.begin()
        try:
            seconds = 0.0
            while not await away.over(seconds):
                heard = await away.answers(self.interval)
                if heard and self._begun and not away.ended:
                    alive()
                # While it starts it is asked more often, so that it counts as soon as it is there.
                seconds = self.interval if self._begun else min(self.interval, LOOK_SECONDS / 10)
            if (wrong := await away.wrong()) is not None:
                raise wrong
        finally:
            await away.end()

    async def _live(self) -> None:
        """What happens on its own loop."""
        own = self._own
        if own.factory is not None:
            self._begun = True
            found = await _called(own.factory)
            if not any(hasattr(found, name) for name in _METHODS):
                return
            self._daemon = found  # it has started the daemon and hands it over
        elif hasattr(own.daemon, "start"):
            await _called(own.daemon.start)
        daemon = self._daemon
        wires = self._wiring and hasattr(daemon, "subscribe_all")
        if wires:
            daemon.subscribe_all()
        try:
            self._begun = True
            await _to_its_end(daemon, started=own.factory is not None or hasattr(daemon, "start"))
        finally:
            if wires:
                daemon.unsubscribe_all()
            if hasattr(daemon, "stop"):
                await _called(daemon.stop)

    async def check(self) -> Health:
        """What it says of itself; within its grace period a complaint only makes it degraded."""
        daemon, name = self._daemon, self._own.daemon_type.value
        if not hasattr(daemon, "health_check"):
            return Health(part=name, status=Status.HEALTHY)
        if self._home is self._node.loop and not inspect.iscoroutinefunction(daemon.health_check):
            said, wrong = await self._node.threads.run(attempt_plain, daemon.health_check)
        else:
            said, wrong = await self._asked(daemon.health_check)
        if wrong is not None:
            raise wrong
        found = health_of(name, said)
        young = self._node.clock.tick() - self._since < self._own.startup_grace_period
        if young and found.status < Status.DEGRADED:
            return Health(part=name, status=Status.DEGRADED, reason=f"it starts: {found.reason}")
        return found

    async def _asked(self, call: Callable[[], Any]) -> tuple[Any, Exception | None]:
        """What *call* says on its own loop, or what went wrong."""
        box: list[Any] = []
        away = Away(self._home, lambda: _into(box, call))
        away.begin()
        try:
            while not await away.over(LOOK_SECONDS):
                pass
        except asyncio.CancelledError:
            with suppress(HomeClosed):
                away.cancel()
            raise
        return box[0] if box else None, await away.wrong()


def health_of(name: str, said: Any) -> Health:
    """What a user's ``health_check()`` returned, as ours: what it does not say is unknown, which is not healthy."""
    if isinstance(said, Health):
        return said
    if inspect.isawaitable(said) or said is None:
        return Health(part=name, status=Status.UNKNOWN, reason="its health_check() says nothing")
    fields = said if isinstance(said, dict) else {key: getattr(said, key, None) for key in ("healthy", "status")}
    healthy = said if isinstance(said, bool) else fields.get("healthy")
    message = fields.get("message") if isinstance(said, dict) else getattr(said, "message", "")
    if healthy is None:
        return Health(part=name, status=Status.UNKNOWN, reason=f"its health_check() says {said!r:.100}")
    word = str(fields.get("status") or "").lower()
    status = Status.DEGRADED if word == "degraded" else Status.HEALTHY if healthy else Status.UNHEALTHY
    default = "" if status is Status.HEALTHY else f"its health_check() says {word or 'unhealthy'}"
    return Health(part=name, status=status, reason=str(message or default))


async def _called(call: Callable[[], Any]) -> Any:
    found = call()
    return await found if inspect.isawaitable(found) else found


async def _into(box: list[Any], call: Callable[[], Any]) -> None:
    box.append(await _called(call))


async def _to_its_end(daemon: Any, *, started: bool) -> None:
    """Wait as long as *daemon* lives; one that only can be started and stopped lives until it is stopped."""
    if hasattr(daemon, "wait_for_shutdown"):
        await _called(daemon.wait_for_shutdown)
    elif not started:
        await _called(daemon.run)
    else:
        await asyncio.Event().wait()
