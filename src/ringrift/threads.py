"""Threads: runs blocking code off the loop: ours to its end, whatever happens to who waits; foreign code apart."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import Any, TypeVar

T = TypeVar("T")


async def to_its_end(executor: Executor | None, call: Callable[..., T], *args: object) -> T:
    """What *call* returns from a thread of *executor*.  Who is cancelled meanwhile is cancelled after its end.

    A thread cannot be stopped: going on without it would leave two users of one file or connection.
    """
    work = asyncio.get_running_loop().run_in_executor(executor, call, *args)
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait((work,))
        except asyncio.CancelledError as again:
            cancelled = again
    if cancelled is not None:
        work.exception()  # it has been seen; the cancellation is what counts
        raise cancelled
    return work.result()


class Threads:
    """At most *most* threads for foreign code that may block or hang: they never keep the process from ending."""

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[object, ...]] | None] = SimpleQueue()
        self._started = 0
        self._idle = Semaphore(0)
        self.share = max(most // 2, 1)
        """How many of the threads one who may hang should take at most."""

    def run(
        self, call: Callable[..., T], *args: object, ended: Callable[[], None] | None = None
    ) -> "asyncio.Future[T]":
        """What *call* returns, from one of the threads; it tells what went wrong by returning it and never raises.

        Cancelling it lets go of the call, which goes on alone.
        """
        done: Future[T] = Future()
        if ended is not None:
            loop = asyncio.get_running_loop()
            done.add_done_callback(lambda _: _tell(loop, ended))
        if not self._idle.acquire(blocking=False) and self._started < self._most:
            self._started += 1
            Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
        context = copy_context()
        self._waiting.put((done, context.run, (call, *args)))
        return asyncio.wrap_future(done)

    def _work(self) -> None:
        while (work := self._waiting.get()) is not None:
            done, call, args = work
            if done.set_running_or_notify_cancel():
                done.set_result(call(*args))
            self._idle.release()

    def close(self) -> None:
        """Let the threads end once they have nothing to do."""
        for _ in range(self._started):
            self._waiting.put(None)


def _tell(loop: asyncio.AbstractEventLoop, ended: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop has been closed: nobody waits for it
        loop.call_soon_threadsafe(ended)
