"""Ambient: the one embedded node that old-style calls mean, on a loop of its own from first use to exit or shutdown.

It is the bus of a node and no more: the store, a scribe and a router.  It takes no role and no job and is in no roster,
so that any number of programs may use one home beside a running node.  A program that asks for duties gets a whole node
on top (``hosting``).
"""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from concurrent.futures import Future, wait
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, TypeVar

from ringrift.bus.recording import open_recorder
from ringrift.bus.router import Router
from ringrift.bus.scribe import Scribe
from ringrift.cli.environment import effective
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import Backpressure, NotLeader, Overtaken, RingriftError, Unreachable
from ringrift.kernel.ids import Ids, seed_of
from ringrift.kernel.settings import Settings
from ringrift.store.open import only_program, open_store
from ringrift.store.ports import Store
from ringrift.threads import Threads

T = TypeVar("T")
HOST = "host"
"""Where the whole node of a program is kept that became one."""
PLACES_MAX = 256
"""Programs that may use one home at once."""
LETTERS_MAX = 1
OPEN_SECONDS_MAX = 60.0
ACCEPTED_MAX = 2000
"""What may be accepted and not durable yet; far less than what the store lets wait."""
CLOSE_SECONDS_MAX = 10.0
"""How long the end of the program waits for what was published and for the store to close."""
STOP_SECONDS_MAX = 40.0
"""What the daemons of a whole node may take besides the grace period of its jobs."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Embedded:
    """The parts of a node that a program has in itself."""

    settings: Settings
    clock: Clock
    ids: Ids
    scribe: Scribe
    store: Store
    router: Router
    loop: asyncio.AbstractEventLoop
    threads: Threads
    """For plain callbacks, which may block."""
    readers: str
    """What the names of its durable readers begin with: no other program has it at the same time."""
    waiting: frozenset[str]
    """Those of its readers that an earlier life has left letters to."""
    kept: dict[str, Any]
    """What the adapters keep for as long as this node is open, by their names."""
    stack: AsyncExitStack
    """What was opened on it later, and closes before it."""


@asynccontextmanager
async def open_embedded(settings: Settings) -> AsyncIterator[Embedded]:
    """The bus of *settings*, opened in this program."""
    clock = SystemClock()
    rng = Random(seed_of(settings.node.id, os.getpid(), clock.now(), clock.tick(), id(clock)))
    async with AsyncExitStack() as stack:
        readers = f"app_{_place(settings, stack)}."
        store = await stack.enter_async_context(open_store(settings.store, clock))
        ids = Ids(clock, rng)
        opened = open_recorder(settings.trace, settings.node.id, clock, ids, store)
        scribe = Scribe(settings.node.id, clock, ids, await stack.enter_async_context(opened))
        mine = _begins_with(readers)
        stack.push_async_callback(tidy, store, mine)
        router = Router(store, clock, scribe, settings.bus)
        stack.push_async_callback(router.close)
        waiting = await tidy(store, mine)
        threads = Threads(settings.bus.threads_max, "ringrift-callback")
        stack.callback(threads.close)
        later = await stack.enter_async_context(AsyncExitStack())
        yield Embedded(
            settings=settings, clock=clock, ids=ids, scribe=scribe, store=store, router=router,
            loop=asyncio.get_running_loop(), threads=threads, readers=readers, waiting=waiting, kept={}, stack=later,
        )  # fmt: skip


def _place(settings: Settings, stack: AsyncExitStack) -> int:
    """The first place that no other living program has; it is ours until *stack* ends."""
    for number in range(1, PLACES_MAX + 1):
        try:
            stack.enter_context(only_program(settings.store, number, settings.node.id))
        except NotLeader:
            continue
        return number
    raise Unreachable(f"{PLACES_MAX} programs use {settings.store.path} already")


def _begins_with(prefix: str) -> Callable[[str], bool]:
    return lambda name: name.startswith(prefix)


async def tidy(store: Store, mine: Callable[[str], bool]) -> frozenset[str]:
    """Let no reader of *mine*, none of which is served now, hold the log: the names of those that are still there.

    One with letters waits at the end of the log, the others go.

    Who subscribes hears of what comes from then on, so what an earlier life did not get to is nobody's.
    """
    kept: set[str] = set()
    async with store.begin() as tx:
        for reader, place in (await tx.places()).items():
            if not mine(reader):
                continue
            letters = await tx.deliveries(("parked", "dead", "done", "discarded"), LETTERS_MAX, reader)
            try:
                if letters:
                    await tx.advance(reader, place, max(place, store.position))
                    kept.add(reader)
                    continue
            except Overtaken:
                log.warning("%s has lapsed, and its letters with it", reader)
            await tx.forget(reader)
    return frozenset(kept)


class Pending(Generic[T]):
    """What has been accepted: awaiting it, or asking for its result, waits until it is durable."""

    def __init__(self, future: "Future[T]") -> None:
        self._future = future

    def __await__(self) -> Generator[Any, None, T]:
        # Who stops waiting does not take back what was accepted.
        return asyncio.shield(asyncio.wrap_future(self._future)).__await__()

    def done(self) -> bool:
        """Whether there is a result, or an error."""
        return self._future.done()

    def when_done(self, call: "Callable[[Future[T]], object]") -> None:
        """Call *call* once there is a result, or an error."""
        self._future.add_done_callback(call)

    def result(self, timeout: float | None = None) -> T:
        """The result; waits for it.  Raises RuntimeError on the loop that has to bring it."""
        ambient.require_elsewhere("result()")
        return self._future.result(timeout)


class Ambient:
    """Opens the embedded node when somebody needs it, and closes it when all is over."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._node: Embedded | None = None
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self._pending: set[Future[Any]] = set()
        self._room = threading.Semaphore(ACCEPTED_MAX)
        self._hooked = False
        self._inherited: Embedded | None = None

    @property
    def is_open(self) -> bool:
        """Whether the node is there now."""
        return self._node is not None

    def node(self) -> Embedded:
        """The node, opened if it is not.  Raises what opening it raises."""
        node = self._node
        if node is not None:
            return node
        with self._lock:
            return self._node or self._open()

    def _open(self) -> Embedded:
        ready: Future[Embedded] = Future()
        settings = effective().settings
        self._thread = threading.Thread(target=self._live, args=(settings, ready), name="ringrift-ambient", daemon=True)
        self._thread.start()
        node = self._node = ready.result(OPEN_SECONDS_MAX)
        if not self._hooked:
            self._hooked = True
            # Behind this moment no thread pool takes work any more, and atexit comes later still.
            threading._register_atexit(self.shutdown)  # type: ignore[attr-defined]  # it has no public name
            os.register_at_fork(after_in_child=self._forked)
        return node

    def _live(self, settings: Settings, ready: "Future[Embedded]") -> None:
        async def live() -> None:
            stop = self._stop = asyncio.Event()
            try:
                async with open_embedded(settings) as node:
                    ready.set_result(node)
                    await stop.wait()
            except (RingriftError, OSError) as wrong:
                if ready.done():
                    log.exception("the ambient node did not close well")
                else:
                    ready.set_exception(wrong)
            except BaseException as wrong:
                if not ready.done():
                    ready.set_exception(wrong)
                raise

        asyncio.run(live())

    def _forked(self) -> None:
        """A forked child has the parent's memory and none of its threads: it starts afresh."""
        self._lock, self._room = threading.RLock(), threading.Semaphore(ACCEPTED_MAX)
        self._inherited = self._node  # letting go of it would close the parent's files in the child
        self._node = self._thread = self._stop = None
        self._pending = set()

    def shutdown(self) -> None:
        """Wait for what was accepted and close the node, if one is open; the next use opens it again."""
        self.require_elsewhere("shutdown")
        with self._lock:
            node, thread, stop = self._node, self._thread, self._stop
            if node is None or thread is None or stop is None:
                return
            wait(tuple(self._pending), CLOSE_SECONDS_MAX)
            self._node = self._thread = self._stop = None
            node.loop.call_soon_threadsafe(stop.set)
            # One that became a node lets the jobs that it does end as a node would.
            more = node.settings.work.grace_seconds + STOP_SECONDS_MAX if HOST in node.kept else 0.0
            thread.join(CLOSE_SECONDS_MAX + more)

    def is_here(self) -> bool:
        """Whether the running code is on the ambient loop."""
        return self._thread is not None and threading.get_ident() == self._thread.ident

    def require_elsewhere(self, what: str) -> None:
        """Raise RuntimeError on the ambient loop, where *what* would wait for itself."""
        if self.is_here():
            raise RuntimeError(f"{what} would wait for the loop that it runs on: await the asynchronous form instead")

    def post(self, work: Coroutine[Any, Any, T]) -> Pending[T]:
        """Start *work* on the ambient loop, from any thread and any loop."""
        try:
            loop = self.node().loop
        except BaseException:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        return Pending(future)

    def accept(self, work: Coroutine[Any, Any, T], *, may_wait: bool) -> Pending[T]:
        """Start *work*, of which only so much may be under way: who *may_wait* does, others get Backpressure."""
        room = self._room
        if not room.acquire(blocking=may_wait):
            work.close()
            raise Backpressure("what the ambient node has accepted", ACCEPTED_MAX)
        try:
            pending = self.post(work)
        except BaseException:
            room.release()
            raise
        pending.when_done(lambda _: room.release())
        return pending

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """What *work* comes to on the ambient loop; waits for it.  Raises RuntimeError on that loop itself."""
        try:
            self.require_elsewhere("this call")
        except RuntimeError:
            work.close()
            raise
        return self.post(work).result()


ambient = Ambient()
"""The only ambient state there is."""
