"""Threads are waited for to their end."""

import asyncio
import threading

import pytest

from ringrift.threads import to_its_end
from waiting import wait_until


def test_a_call_returns_or_raises_what_it_did() -> None:
    """What the blocking call returns or raises comes out as if it had been called here."""

    async def story() -> int:
        with pytest.raises(ZeroDivisionError):
            await to_its_end(None, lambda: 1 // 0)
        return await to_its_end(None, max, 3, 4)

    assert asyncio.run(story()) == 4


def test_who_is_cancelled_waits_for_the_end() -> None:
    """However often the waiter is cancelled, it is cancelled only after the call has ended."""

    async def story() -> tuple[bool, bool, bool]:
        begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            may_end.wait(5)
            ended.set()

        waiter = asyncio.create_task(to_its_end(None, work))
        await wait_until(begun.is_set)
        for _ in range(2):
            waiter.cancel()
            await asyncio.sleep(0)
        early = waiter.done()
        may_end.set()
        await asyncio.wait((waiter,))
        return early, ended.is_set(), waiter.cancelled()

    assert asyncio.run(story()) == (False, True, True)
