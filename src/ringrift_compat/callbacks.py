"""Callbacks: what users hand us, called on the loop that ran where they gave it."""

import asyncio
import inspect
import re
from collections.abc import Callable
from typing import Any

from ringrift.kernel.errors import DeliveryError
from ringrift.kernel.ids import check_name
from ringrift_compat.ambient import Embedded

LOOK_SECONDS = 0.5
"""How often a call on somebody else's loop looks whether that loop still exists."""
NAME_CHARACTERS_MAX = 128


class HomeClosed(DeliveryError):
    """The loop that a callback belongs to has been closed: it can never be called again."""


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs here, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def called_at_home(
    call: Callable[[Any], Any], home: asyncio.AbstractEventLoop | None, node: Embedded
) -> Callable[[Any], Any]:
    """*call* as something for the ambient loop to await.

    With a *home* it runs there.  Without one, a coroutine function runs on the ambient loop itself, and a plain
    function, which may block, in a thread.  Raises HomeClosed when its home is gone.
    """
    if home is None or home is node.loop:
        return call

    async def at_home(given: Any) -> None:
        found = call(given)
        if inspect.isawaitable(found):
            await found

    async def travelled(given: Any) -> None:
        if home.is_closed():
            raise HomeClosed("the loop of the callback has been closed")
        there = asyncio.run_coroutine_threadsafe(at_home(given), home)
        here = asyncio.wrap_future(there)
        try:
            while not here.done():
                await asyncio.wait((here,), timeout=LOOK_SECONDS)
                if home.is_closed() and not here.done():
                    raise HomeClosed("the loop of the callback was closed while it ran")
            await here
        finally:
            if not here.done() and not home.is_closed():
                there.cancel()

    return travelled


def name_of(call: Callable[..., Any]) -> str:
    """What a callback is called over restarts, in letters that a reader's name may have."""
    function = getattr(call, "__func__", call)
    module = getattr(function, "__module__", None) or "?"
    words = f"{module}.{getattr(function, '__qualname__', type(call).__qualname__)}"
    return re.sub(r"[^A-Za-z0-9_.]", "_", words)


def reader_name(prefix: str, asked: str, call: Callable[..., Any], number: int) -> str:
    """The name of the durable reader for the *number*-th callback of this name that asks for *asked*."""
    ending = f".{number}" if number else ""
    return check_name("reader", f"{prefix}{asked}.{name_of(call)}"[: NAME_CHARACTERS_MAX - len(ending)] + ending)
