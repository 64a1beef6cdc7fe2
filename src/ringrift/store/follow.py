"""The two ways to wait for the log: follow its events as they come, or wait until a question has an answer.

A lost wake-up costs *poll_seconds*, never an event: both look again after that time.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from typing import TypeVar

from ringrift.events.base import Envelope
from ringrift.kernel.clock import Clock
from ringrift.store.ports import Reads, Store

T = TypeVar("T")
_Question = Callable[[Reads], Awaitable[T | None]]
PAGE = 500  # events that are read at once


async def follow(
    store: Store,
    after: int,
    *,
    names: Collection[str] = (),
    until: int | None = None,
    page: int = PAGE,
    poll_seconds: float = 1.0,
) -> AsyncGenerator[Envelope, None]:
    """Yield the events after position *after*, in order; with *names* only those.

    With *until* the iterator ends after that position; without, it goes on for ever, as events become durable.
    """
    position = after
    while until is None or position < until:
        newest = store.position
        async with store.read() as view:
            envelopes = await view.read(position, page, names)
        for envelope in envelopes:
            if until is not None and envelope.position > until:
                return
            position = envelope.position
            yield envelope
        if len(envelopes) == page:
            continue
        if until is not None:
            return
        # Events of other names may lie between: do not read them again.
        position = max(position, newest)
        await store.wait(position, poll_seconds)


async def wait_for(
    store: Store, question: _Question[T], clock: Clock, seconds_max: float, *, poll_seconds: float = 0.1
) -> T | None:
    """Ask *question* of the store again and again until it answers; None if it does not within *seconds_max*."""
    end = clock.tick() + seconds_max
    while True:
        # It waits before the question is asked, so that a commit in between wakes it.
        waiter = asyncio.create_task(store.wait(None, min(poll_seconds, max(end - clock.tick(), 0.0))))
        try:
            await asyncio.sleep(0)
            async with store.read() as view:
                answer = await question(view)
            if answer is not None or clock.tick() >= end:
                return answer
            await waiter
        finally:
            waiter.cancel()
