"""Callbacks: functions of the user, called on the loop that ran where they were given to us."""

import asyncio
import inspect
import re
from collections.abc import Callable
from typing import Any

from ringrift.kernel.errors import DeliveryError
from ringrift.kernel.ids import check_name
from ringrift_compat.embedded_node import EmbeddedNode

POLL_SECONDS = 0.5
"""How often a call on another loop checks whether that loop still exists."""
_NAME_CHARACTERS_MAX = 128


class LoopClosed(DeliveryError):
    """The loop of a callback has been closed: it can never be called again."""


def on_loop(
    call: Callable[[Any], Any], loop: asyncio.AbstractEventLoop | None, node: EmbeddedNode
) -> Callable[[Any], Any]:
    """*call* as something that the loop of *node* can await, and that runs on *loop*.

    Without a *loop* of its own it is returned as it is.  Raises LoopClosed when its loop is closed.
    """
    if loop is None or loop is node.loop:
        return call

    async def run(argument: Any) -> None:
        result = call(argument)
        if inspect.isawaitable(result):
            await result

    async def run_there(argument: Any) -> None:
        if loop.is_closed():
            raise LoopClosed("the loop of the callback has been closed")
        future = asyncio.run_coroutine_threadsafe(run(argument), loop)
        ended = asyncio.wrap_future(future)
        try:
            while not ended.done():
                await asyncio.wait((ended,), timeout=POLL_SECONDS)
                if loop.is_closed() and not ended.done():
                    raise LoopClosed("the loop of the callback was closed while it ran")
            await ended
        finally:
            if not ended.done() and not loop.is_closed():
                future.cancel()

    return run_there


def reader_name(prefix: str, event_type: str, call: Callable[..., Any], number: int) -> str:
    """The name of the durable reader for the *number*-th callback of the same name that subscribes to *event_type*."""
    function = getattr(call, "__func__", call)
    module = getattr(function, "__module__", None) or "?"
    path = f"{module}.{getattr(function, '__qualname__', type(call).__qualname__)}"
    ending = f".{number}" if number else ""
    name = f"{prefix}{event_type}.{re.sub(r'[^A-Za-z0-9_.]', '_', path)}"
    return check_name("reader", name[: _NAME_CHARACTERS_MAX - len(ending)] + ending)
