"""Waiting: the only module of the tests that sleeps, and only in small steps until a condition holds."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable

STEP_SECONDS = 0.01


async def wait_until(
    condition: Callable[[], bool | Awaitable[bool]], seconds: float = 5.0, *, step_seconds: float = STEP_SECONDS
) -> None:
    """Return as soon as *condition* holds; raise TimeoutError if it does not within *seconds*."""
    async with asyncio.timeout(seconds):
        while True:
            holds = condition()
            if inspect.isawaitable(holds):
                holds = await holds
            if holds:
                return
            await asyncio.sleep(step_seconds)


def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """The same for tests that have no loop."""
    asyncio.run(wait_until(condition, seconds))
