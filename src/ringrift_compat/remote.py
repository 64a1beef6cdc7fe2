"""A program without a store of its own: the coordinators that it reaches over a network, and calls that wait."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from ringrift.cli.worker_home import WorkerHome
from ringrift.client import Client, connect
from ringrift.kernel.errors import NodeAway
from ringrift.kernel.value import changed
from ringrift.store.open import store_exists
from ringrift.wire.connection import Challenge
from ringrift.wire.open import open_wire
from ringrift.wire.ports import Request
from ringrift_compat.embedded_node import embedded, running_loop
from ringrift_compat.variables import read_settings

T = TypeVar("T")


def coordinators() -> tuple[str, ...]:
    """The coordinators of RINGRIFT_COORDINATOR_URL, or those that this home joined; none if it has a store."""
    if embedded.is_open:
        return ()
    read = read_settings()
    if store_exists(read.settings.store):
        return ()
    member = WorkerHome(read.home).membership()
    return read.settings.node.coordinators or (member.addresses if member else ())


async def find_leading(urls: Sequence[str], seconds_max: float) -> str | None:
    """The first of *urls* at which a coordinator serves, and so leads; None if none answers in time."""
    read = read_settings()
    pinned, settings = WorkerHome(read.home).ca, read.settings.wire
    wire = open_wire(settings if settings.ca or not pinned.exists() else changed(settings, ca=str(pinned)))
    question = Request(verb="challenge", body=msgspec.msgpack.encode(Challenge()))
    try:
        for url in urls:
            with suppress(NodeAway, TimeoutError):
                if not (await wire.request(url, question, seconds_max / len(urls))).error:
                    return url
    finally:
        wire.close()
    return None


async def ask(urls: Sequence[str], work: Callable[[Client], Awaitable[T]], seconds_max: float) -> T:
    """The result of *work* with a client of the coordinators at *urls*, or without any of the store of this home.

    Raises NodeAway if none answers, TimeoutError if it takes longer than *seconds_max*, and what *work* raises.
    """
    settings = read_settings().settings
    own = changed(settings, node=changed(settings.node, coordinators=()))
    async with asyncio.timeout(seconds_max), connect(",".join(urls) or None, settings=own) as client:
        return await work(client)


def wait_for(urls: Sequence[str], work: Callable[[Client], Awaitable[T]], seconds_max: float = 30.0) -> T:
    """As :func:`ask`, for plain code."""
    return run_plainly(lambda: ask(urls, work, seconds_max))


def run_plainly(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of *work*, with or without a loop in the caller's thread."""
    if running_loop() is None:
        return asyncio.run(work())
    with ThreadPoolExecutor(1, "ringrift-remote") as thread:
        return thread.submit(lambda: asyncio.run(work())).result()
