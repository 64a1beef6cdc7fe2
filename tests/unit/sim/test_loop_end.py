"""SimLoop: the end of a world, whatever state it is in."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import Context, copy_context
from typing import Any

from ringrift.sim.loop import SimLoop, run


async def elapse(seconds: float) -> None:
    """Let virtual time go by; this loop never really sleeps."""
    await asyncio.sleep(seconds)


def test_the_end_is_quiet() -> None:
    """Closing the loop neither raises nor warns, whatever the state of its tasks and who refers to them."""
    contexts: list[Context] = []

    @asynccontextmanager
    async def slow_to_leave() -> AsyncIterator[None]:
        try:
            yield
        finally:
            await elapse(1)
            asyncio.get_running_loop().call_soon(print)

    async def steps() -> AsyncIterator[None]:
        while True:
            async with slow_to_leave():
                await slow_step()
            yield

    async def slow_step() -> None:
        try:
            await elapse(60)
        finally:
            await elapse(1)

    async def iterate() -> None:
        async for _ in steps():
            pass

    async def nested() -> None:
        never_awaited = elapse(1)
        async with slow_to_leave(), slow_to_leave():
            await elapse(60)
        await never_awaited

    async def stubborn() -> None:
        while True:
            with suppress(BaseException):
                await elapse(60)

    async def main(loop: SimLoop) -> list[Any]:
        contexts.append(copy_context())  # as the traceback of an error does that was logged
        tasks = [loop.spawn(host, coro) for host in "ab" for coro in (nested(), iterate(), stubborn())]
        await elapse(5)
        loop.kill("a")
        return [*tasks, loop.spawn("a", elapse(1))]

    run(1, main).clear()
    contexts.clear()
    gc.collect()
