"""Embedded node: the one node that the documented calls of a program use, on an event loop of its own.

It opens at first use and closes at exit or shutdown.  It is only the bus of a node: store, envelopes and router.  It
takes no role and no job and is in no roster, so any number of programs may use one home beside a running node.  A
program that starts a daemon or a stage gets a whole node on the same store (``embedded_host``).
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

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.bus.recorder import open_recorder
from ringrift.bus.router import Router
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import Backpressure, Overtaken, RingriftError, Unreachable
from ringrift.kernel.ids import Ids, seed_of
from ringrift.kernel.settings import Settings
from ringrift.store.open import open_store, store_exists, take_program_number
from ringrift.store.ports import Reads, Store
from ringrift.threads import Threads
from ringrift_compat.variables import PublishOptions, read_options, read_settings

T = TypeVar("T")
HOST = "host"
"""The extension that a program has which became a whole node."""
"""Programs that may use one home at once."""
_OPEN_SECONDS_MAX = 60.0
_ACCEPTED_MAX = 2000
"""Publishes that may be accepted and not durable yet; far fewer than the store lets wait."""
_CLOSE_SECONDS_MAX = 10.0
"""How long the end of the program waits for its publishes and for the store to close."""
_STOP_SECONDS_MAX = 40.0
"""Time for the daemons of a whole node to stop, besides the grace period of its jobs."""
_NO_STORE = (
    "this program works for the coordinators of RINGRIFT_COORDINATOR_URL and has no store of its own: over a network "
    "there are P2PBackend, discover_p2p_leader_url, CrossProcessEventQueue and ringrift.connect"
)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EmbeddedNode:
    """The parts of a node that a program has in itself."""

    settings: Settings
    clock: Clock
    ids: Ids
    envelopes: EnvelopeFactory
    store: Store
    router: Router
    loop: asyncio.AbstractEventLoop
    threads: Threads
    """For plain callbacks, which may block."""
    program: str
    """Identifies this program among those that use the home now; the names of its durable readers begin with it."""
    readers_with_dead_letters: frozenset[str]
    """Its readers that an earlier process under the same name has left dead letters to."""
    extensions: dict[Any, Any]
    """State of the adapters for as long as this node is open, by class or name."""
    stack: AsyncExitStack
    """Resources that were opened on it later, and close before it."""
    options: PublishOptions

    def extension(self, kind: Callable[["EmbeddedNode"], T]) -> T:
        """The one instance of *kind* that belongs to this node, made at first use."""
        instance: T | None = self.extensions.get(kind)
        return self.extensions.setdefault(kind, kind(self)) if instance is None else instance


@asynccontextmanager
async def open_embedded(settings: Settings) -> AsyncIterator[EmbeddedNode]:
    """The bus of *settings*, opened in this program."""
    clock, options = SystemClock(), read_options()
    rng = Random(seed_of(settings.node.id, os.getpid(), clock.now(), clock.tick(), id(clock)))
    async with AsyncExitStack() as stack:
        program = f"app_{take_program_number(settings.store, settings.node.id, stack)}"
        store = await stack.enter_async_context(open_store(settings.store, clock))
        ids = Ids(clock, rng)
        recorder = await stack.enter_async_context(open_recorder(settings.trace, settings.node.id, clock, ids, store))
        envelopes = EnvelopeFactory(settings.node.id, clock, ids, recorder if recorder.on else None)
        own = _begins_with(f"{program}.")
        stack.push_async_callback(clean_readers, store, own)
        router = Router(store, clock, envelopes, settings.bus)
        stack.push_async_callback(router.close)
        left = await clean_readers(store, own)
        threads = Threads(settings.bus.threads_max, "ringrift-callback")
        stack.callback(threads.close)
        later = await stack.enter_async_context(AsyncExitStack())
        loop = asyncio.get_running_loop()
        yield EmbeddedNode(
            settings, clock, ids, envelopes, store, router, loop, threads, program, left, {}, later, options
        )


def _begins_with(prefix: str) -> Callable[[str], bool]:
    return lambda name: name.startswith(prefix)


async def clean_readers(store: Store, is_own: Callable[[str], bool]) -> frozenset[str]:
    """Keep no event for the readers of ours, none of which is served now; the names of those that remain.

    A reader with dead letters moves to the end of the log, the others are deleted: a subscription begins with what
    comes after it, so what an earlier process did not get to belongs to no one.
    """
    remaining: set[str] = set()
    async with store.begin() as tx:
        for reader, position in (await tx.positions()).items():
            if not is_own(reader):
                continue
            try:
                if await tx.deliveries(("parked", "dead", "done", "discarded"), 1, reader):
                    await tx.advance(reader, position, max(position, store.position))
                    remaining.add(reader)
                    continue
            except Overtaken:
                log.warning("%s has expired, and its dead letters with it", reader)
            await tx.forget_reader(reader)
    return frozenset(remaining)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs here, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Pending(Generic[T]):
    """Something that was accepted: awaiting it, or asking for its result, waits until it is durable."""

    def __init__(self, future: "Future[T]") -> None:
        self._future, self._pid = future, os.getpid()

    def __await__(self) -> Generator[Any, None, T]:
        self._require_own()
        # Cancelling the caller does not cancel what was accepted.
        return asyncio.shield(asyncio.wrap_future(self._future)).__await__()

    def done(self) -> bool:
        """Whether there is a result, or an error."""
        return self._future.done()

    def when_done(self, call: "Callable[[Future[T]], object]") -> None:
        """Call *call* once there is a result, or an error."""
        self._future.add_done_callback(call)

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result.  Raises RuntimeError on the loop that has to bring it."""
        self._require_own()
        embedded.require_other_loop("result()")
        return self._future.result(timeout)

    def _require_own(self) -> None:
        """Raise Unreachable in a forked child: its parent brings the result, and it would wait for ever."""
        if self._pid != os.getpid() and not self._future.done():
            raise Unreachable("this was accepted before the fork: the parent publishes it and has the result")


class _Embedded:
    """Opens the embedded node of this process at first use, and closes it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._node: EmbeddedNode | None = None
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self._pending: set[Future[Any]] = set()
        self._room = threading.Semaphore(_ACCEPTED_MAX)
        self._is_hooked = False
        self._inherited: EmbeddedNode | None = None

    @property
    def is_open(self) -> bool:
        """Whether the node is open now."""
        return self._node is not None

    def node(self) -> EmbeddedNode:
        """The node, opened if it is not.  Raises what opening it raises."""
        node = self._node
        if node is not None:
            return node
        with self._lock:
            return self._node or self._open()

    def _open(self) -> EmbeddedNode:
        ready: Future[EmbeddedNode] = Future()
        read = read_settings()
        if read.settings.node.coordinators and not store_exists(read.settings.store):
            raise Unreachable(_NO_STORE)
        for line in read.warnings:
            log.warning("%s", line)
        arguments = (read.settings, ready)
        self._thread = threading.Thread(target=self._run, args=arguments, name="ringrift-embedded", daemon=True)
        self._thread.start()
        node = self._node = ready.result(_OPEN_SECONDS_MAX)
        if not self._is_hooked:
            self._is_hooked = True
            # After this moment no thread pool takes work any more, and atexit comes later still.
            threading._register_atexit(self.shutdown)  # type: ignore[attr-defined]  # it has no public name
            os.register_at_fork(after_in_child=self._reset_in_child)
        return node

    def _run(self, settings: Settings, ready: "Future[EmbeddedNode]") -> None:
        async def run() -> None:
            stop = self._stop = asyncio.Event()
            try:
                async with open_embedded(settings) as node:
                    ready.set_result(node)
                    await stop.wait()
            except (RingriftError, OSError) as error:
                if ready.done():
                    log.exception("the embedded node did not close cleanly")
                else:
                    ready.set_exception(error)
            except BaseException as error:
                if not ready.done():
                    ready.set_exception(error)
                raise

        asyncio.run(run())

    def _reset_in_child(self) -> None:
        """A forked child has the parent's memory and none of its threads: it starts afresh."""
        self._lock, self._room = threading.RLock(), threading.Semaphore(_ACCEPTED_MAX)
        self._inherited = self._node  # releasing it would close the parent's files in the child
        self._node = self._thread = self._stop = None
        self._pending = set()

    def shutdown(self) -> None:
        """Wait for what was accepted and close the node, if one is open; the next use opens it again."""
        self.require_other_loop("shutdown")
        with self._lock:
            node, thread, stop = self._node, self._thread, self._stop
            if node is None or thread is None or stop is None:
                return
            wait(tuple(self._pending), _CLOSE_SECONDS_MAX)
            self._node = self._thread = self._stop = None
            node.loop.call_soon_threadsafe(stop.set)
            # A whole node lets its running jobs end first.
            more = node.settings.work.grace_seconds + _STOP_SECONDS_MAX if HOST in node.extensions else 0.0
            thread.join(_CLOSE_SECONDS_MAX + more)

    def is_current_loop(self) -> bool:
        """Whether the running code is on the loop of the embedded node."""
        return self._thread is not None and threading.get_ident() == self._thread.ident

    def require_other_loop(self, call: str) -> None:
        """Raise RuntimeError on the loop of the embedded node, where *call* would wait for itself."""
        if self.is_current_loop():
            raise RuntimeError(f"{call} would wait for the loop that it runs on: await the asynchronous form instead")

    def post(self, work: Coroutine[Any, Any, T]) -> Pending[T]:
        """Start *work* on the loop of the embedded node, from any thread and any loop."""
        try:
            loop = self.node().loop
        except BaseException:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        return Pending(future)

    def accept(self, work: Coroutine[Any, Any, T]) -> Pending[T]:
        """As :meth:`post`, within a limit: beyond it wait, or raise Backpressure where a loop runs."""
        room = self._room
        if not room.acquire(blocking=running_loop() is None):
            work.close()
            raise Backpressure("publishes of this program that are not durable yet", _ACCEPTED_MAX)
        try:
            pending = self.post(work)
        except BaseException:
            room.release()
            raise
        pending.when_done(lambda _: room.release())
        return pending

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* on the loop of the embedded node and wait for its result.  Raises RuntimeError on that loop."""
        try:
            self.require_other_loop("this call")
        except RuntimeError:
            work.close()
            raise
        return self.post(work).result()

    def query(self, read: Callable[[Reads], Coroutine[Any, Any, T]]) -> T:
        """The result of *read* on the store of the node; waits for it.  Raises what reading raises."""

        async def query() -> T:
            async with self.node().store.read() as view:
                return await read(view)

        return self.call(query())


embedded = _Embedded()
"""The only global state of this package."""
