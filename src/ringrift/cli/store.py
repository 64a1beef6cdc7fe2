"""Store: opens the store that exists, for commands that look and for those that change something by hand."""

import argparse
import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import SystemRandom

from ringrift.bus.scribe import Scribe
from ringrift.cli.environment import effective
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import Unreachable
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import StoreSettings
from ringrift.store.open import open_store
from ringrift.store.ports import Store


def require(path: str) -> None:
    """Raise Unreachable unless there is a store at *path*."""
    if not Path(path).exists():
        raise Unreachable(f"there is no store at {path}: start one with  ringrift run  (or set RINGRIFT_HOME)")


@asynccontextmanager
async def existing(settings: StoreSettings) -> AsyncIterator[Store]:
    """The store of *settings*.  Raises Unreachable and makes nothing if there is none."""
    require(settings.path)
    async with open_store(settings, SystemClock()) as store:
        yield store


def by_hand(node: str) -> Scribe:
    """A scribe for what a person says or does through a command on *node*."""
    clock = SystemClock()
    return Scribe(node, clock, Ids(clock, SystemRandom()))


def answer(
    options: argparse.Namespace,
    given: Mapping[str, object],
    do: Callable[[Store, argparse.Namespace, str], Awaitable[str]],
) -> int:
    """Do what is asked with the store that exists, on behalf of this node, and print what came of it; 0."""
    found = effective(file=options.settings, given=given)

    async def run() -> str:
        async with existing(found.settings.store) as store:
            return await do(store, options, found.settings.node.id)

    print(asyncio.run(run()))
    return 0
