"""Threads: runs blocking code off the loop and waits for its end, whatever happens to who waits."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

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
