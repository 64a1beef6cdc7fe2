"""Run code beside other code: blocking code in threads, and coroutines no longer than what they accompany."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager
from contextvars import copy_context
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import Any, TypeVar

T = TypeVar("T")


async def to_its_end(executor: Executor | None, call: Callable[..., T], *args: object) -> T:
    """Run *call* in a thread of *executor*.  A caller that is cancelled meanwhile is cancelled after its end.

    A thread cannot be stopped: returning early would leave two users of one file or connection.
    """
    work = asyncio.get_running_loop().run_in_executor(executor, call, *args)
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait((work,))
        except asyncio.CancelledError as again:
            cancelled = again
    if cancelled is not None:
        work.exception()  # retrieved, so that asyncio does not report it; the cancellation counts
        raise cancelled
    return work.result()


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, T]) -> AsyncIterator["asyncio.Task[T]"]:
    """Run *work* beside the body, at the longest until that ends."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Threads:
    """Up to *threads_max* threads for foreign code that may block or hang; they never keep the process from ending."""

    def __init__(self, threads_max: int, name: str) -> None:
        self._threads_max, self._name = threads_max, name
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[object, ...]] | None] = SimpleQueue()
        self._started = 0
        self._idle = Semaphore(0)
        self.share = max(threads_max // 2, 1)  #: Threads that one user who may hang should occupy at most.

    def run(
        self, call: Callable[..., T], *args: object, on_end: Callable[[], None] | None = None
    ) -> "asyncio.Future[T]":
        """Run *call* in one of the threads; the future has its result or error.  *on_end* is called on the loop.

        Cancelling the future abandons the call, which runs on.
        """
        done: Future[T] = Future()
        if on_end is not None:
            loop = asyncio.get_running_loop()
            done.add_done_callback(lambda _: call_soon(loop, on_end))
        if not self._idle.acquire(blocking=False) and self._started < self._threads_max:
            self._started += 1
            Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
        self._waiting.put((done, copy_context().run, (call, *args)))
        return asyncio.wrap_future(done)

    def _work(self) -> None:
        while (work := self._waiting.get()) is not None:
            done, call, args = work
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(call(*args))
                except Exception as error:  # noqa: BLE001 - it belongs to who awaits the call
                    done.set_exception(error)
            self._idle.release()

    def close(self) -> None:
        """Let the threads end once they are idle."""
        for _ in range(self._started):
            self._waiting.put(None)


def call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> bool:
    """Have *loop* make *call*, from any thread; False if the loop was closed, and its callers with it."""
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        return False
    return True
