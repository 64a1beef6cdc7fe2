"""The documented bridges: blocking calls from async code, async calls from threads, and how the buses are one."""

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from ringrift.bus.delivery import attempt, attempt_plain
from ringrift.kernel.errors import Backpressure, SupervisionError
from ringrift.threads import Threads
from ringrift_compat.ambient import Embedded, ambient
from ringrift_compat.callbacks import running_loop
from ringrift_compat.configuring import get_config
from ringrift_compat.events import get_router
from ringrift_compat.listening import Listeners
from ringrift_compat.router_event import EventSource

T = TypeVar("T")
KEPT, CLOSES = "bridge", "bridge.closes"
WAITING_MAX = 1000
"""Calls that may be under way or wait for a thread; one more gets Backpressure."""
CALL_SECONDS_MAX = 600.0
SHUTDOWN_SECONDS_MAX = 10.0
CLOSE_SECONDS_MAX = 5.0
"""How long the node waits for the bridge when it closes: less than a program waits for its node."""
BRIDGES_MAX = 100
log = logging.getLogger(__name__)


class BridgeClosed(SupervisionError):
    """The bridge was shut down and takes no calls."""

    def __init__(self) -> None:
        super().__init__("the bridge was shut down: get_bridge_manager() gives another")


class Place:
    """The place of one call among those under way: given back once, by who is done with it first."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._state = "waiting"
        self._give_back = give_back

    def begin(self) -> bool:
        """Whether the call is still wanted; from now on it runs."""
        with self._lock:
            wanted = self._state == "waiting"
            self._state = "running" if wanted else self._state
            return wanted

    def end(self) -> None:
        """It has run."""
        self._give_back()

    def let_go(self) -> None:
        """Nobody waits any more: if it has not begun, it never will."""
        with self._lock:
            dropped = self._state == "waiting"
            self._state = "dropped" if dropped else self._state
        if dropped:
            self._give_back()


class AsyncBridgeManager:
    """Runs blocking calls in a few threads for async code, and coroutines on a loop for threads."""

    def __init__(self, max_workers: int | None = None) -> None:
        self.max_workers = get_config().bridge_max_workers if max_workers is None else max_workers
        assert self.max_workers >= 1
        self._threads = Threads(self.max_workers, "ringrift-bridge")
        self._idle = threading.Condition()
        self._under_way = self._done = self._failed = 0
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bridges: dict[str, tuple[Any, Callable[[], Any] | None]] = {}

    @property
    def is_closed(self) -> bool:
        """Whether it was shut down."""
        return self._closed

    def bind(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Run the coroutines of threads on *loop*, or on the one that runs here, instead of the ambient one."""
        self._loop = loop or asyncio.get_running_loop()

    async def run_sync(self, call: Callable[..., T], *args: Any, **options: Any) -> T:
        """What the blocking *call* returns, from a thread.  Raises what it raises, BridgeClosed or Backpressure.

        Who is cancelled lets go of it: it does not begin, or comes to its end alone.
        """
        place = self._enter()
        try:
            with self._idle:
                running = self._threads.run(self._counted, place, partial(call, *args, **options))
            found, wrong = await running
        finally:
            place.let_go()
        if wrong is not None:
            raise wrong
        return found  # type: ignore[return-value]  # without an error it is what the call returned

    run_in_thread = run_sync

    def run_async(self, work: Coroutine[Any, Any, T], timeout: float = CALL_SECONDS_MAX) -> T:
        """What *work* comes to on the bound loop, or the ambient one; waits for it, up to *timeout* seconds.

        Raises RuntimeError on that loop itself, where it would wait for itself; TimeoutError, and *work* is cancelled.
        """
        try:
            loop = self._target()
            place = self._enter()
        except BaseException:
            work.close()
            raise
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, loop)
        future.add_done_callback(lambda done: self._ended(place, done.cancelled() or done.exception() is not None))
        try:
            return future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise

    def register_bridge(self, name: str, bridge: Any, close: Callable[[], Any] | None = None) -> None:
        """Keep *bridge* under *name*; a shutdown calls *close*."""
        assert len(self._bridges) < BRIDGES_MAX or name in self._bridges, "bridges are registered without end"
        self._bridges[name] = (bridge, close)

    def get_bridge(self, name: str) -> Any:
        """What was registered as *name*, or None."""
        return self._bridges.get(name, (None, None))[0]

    async def shutdown(self, timeout: float = SHUTDOWN_SECONDS_MAX) -> bool:
        """Take no more calls, wait for those under way and close what was registered; whether all came to an end."""
        self._closed = True
        idle = await asyncio.to_thread(self._wait_idle, timeout)
        self._threads.close()
        clean = idle
        for _, close in self._bridges.values():
            wrong = await attempt(_closed, close)
            clean = clean and wrong is None
        self._bridges.clear()
        return clean

    def get_stats(self) -> dict[str, Any]:
        """How much it has done, and does."""
        return {
            "max_workers": self.max_workers, "active": self._under_way, "completed": self._done,
            "failed": self._failed, "bridges": sorted(self._bridges), "closed": self._closed,
        }  # fmt: skip

    def _target(self) -> asyncio.AbstractEventLoop:
        loop = self._loop if self._loop is not None and not self._loop.is_closed() else ambient.node().loop
        if running_loop() is loop:
            raise RuntimeError("run_async would wait for the loop that it runs on: await the coroutine instead")
        return loop

    def _enter(self) -> Place:
        with self._idle:
            if self._closed:
                raise BridgeClosed
            if self._under_way >= WAITING_MAX:
                raise Backpressure("the bridge", WAITING_MAX)
            self._under_way += 1
        return Place(self._leave)

    def _leave(self) -> None:
        with self._idle:
            self._under_way -= 1
            self._idle.notify_all()

    def _counted(self, place: Place, call: Callable[[], T]) -> tuple[T | None, Exception | None]:
        """Runs in a thread."""
        if not place.begin():
            return None, BridgeClosed()
        found, wrong = attempt_plain(call)
        self._ended(place, wrong is not None)
        return found, wrong

    def _ended(self, place: Place, failed: bool) -> None:
        with self._idle:
            self._done, self._failed = self._done + (not failed), self._failed + failed
        place.end()

    def _wait_idle(self, timeout: float) -> bool:
        with self._idle:
            return self._idle.wait_for(lambda: self._under_way == 0, timeout)


async def _closed(close: Callable[[], Any] | None) -> None:
    found = None if close is None else close()
    if inspect.isawaitable(found):
        await found


def get_bridge_manager() -> AsyncBridgeManager:
    """The bridge of this program, for as long as its node is open; another one if it was shut down."""
    node = ambient.node()
    if node.kept.setdefault(CLOSES, mine := object()) is mine:
        node.stack.push_async_callback(_close_kept, node)
    found: AsyncBridgeManager = node.kept.get(KEPT) or node.kept.setdefault(KEPT, AsyncBridgeManager())
    if found.is_closed:
        found = node.kept[KEPT] = AsyncBridgeManager()
    return found


async def _close_kept(node: Embedded) -> None:
    """The node closes: so does its bridge, whose threads would go on for ever."""
    found: AsyncBridgeManager | None = node.kept.get(KEPT)
    if found is not None and not await found.shutdown(CLOSE_SECONDS_MAX):
        log.warning("calls over the bridge are still under way, or what was registered on it did not close")


def get_integration_status() -> dict[str, Any]:
    """How the buses hang together: all are views of one router, so there is nothing to wire, and each hears the others.

    It asks the store, and raises if that does not answer.
    """
    node = ambient.node()
    return {
        "bridged": True,
        "views": [source.value for source in EventSource],
        "position": ambient.call(_position()),
        "subscribers": len(Listeners.of(node).listed()),
        "stats": get_router().get_stats(),
        "node": node.settings.node.id,
    }


async def _position() -> int:
    store = ambient.node().store
    async with store.read() as view:
        found = await view.last(None, 1)
    return found[-1].position if found else 0
