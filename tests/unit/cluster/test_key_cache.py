"""The keys that a coordinator has in memory are those of its store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ringrift.cluster.keys import KeyCache, StoredKey, store_keys
from ringrift.kernel.wire_errors import KeyRefused
from ringrift.store.ports import Reads, Store
from ringrift.wire.keys import SigningKey
from ringrift.wire.ports import Request
from unit.work.world import World, play

OLD, NEW = (SigningKey.make("w1", Random(seed)) for seed in (1, 2))


class _PausingStore:
    """The store, whose reads end only when they may."""

    def __init__(self, store: Store) -> None:
        self._store, self.may_end, self.has_read = store, asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Reads]:
        async with self._store.read() as view:
            yield view
        self.has_read.set()
        await self.may_end.wait()


async def put(world: World, key: SigningKey) -> None:
    """*key* is that of its node from now on."""
    async with world.store.begin() as tx:
        await store_keys(tx, [StoredKey(node=key.node, public=key.public, scopes=("play",))])


def test_a_key_that_changes_while_the_keys_are_read_is_read_again(tmp_path: Path) -> None:
    """A machine that joins again under its name is not refused because another request was being answered."""

    async def story(world: World) -> None:
        await put(world, OLD)
        store: Any = _PausingStore(world.store)
        cache = KeyCache(store, world.clock)
        reading = asyncio.get_running_loop().create_task(cache.get("w1"))
        await store.has_read.wait()
        await put(world, NEW)
        cache.forget()
        store.may_end.set()
        await reading

        assert (await cache.prove(NEW.sign(Request(verb="beat", node="w1")), 0.0)).public == NEW.public

    play(tmp_path, story)


def test_another_key_is_refused(tmp_path: Path) -> None:
    """Under the name of a node that has one."""

    async def story(world: World) -> None:
        await put(world, OLD)
        with pytest.raises(KeyRefused, match="wrong"):
            await KeyCache(world.store, world.clock).prove(NEW.sign(Request(verb="beat", node="w1")), 0.0)

    play(tmp_path, story)
