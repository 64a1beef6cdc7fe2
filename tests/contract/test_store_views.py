"""Views have an end, so that the file in which SQLite logs its writes has one too."""

import asyncio
import os
from pathlib import Path

import pytest

from contract.engines import Engine, append, logged, run, settle
from ringrift.kernel.errors import Overdue
from ringrift.store.ports import Put, Store
from ringrift.store.sqlite.connect import WAL_BYTES_MAX
from ringrift.store.sqlite.engine import SqliteStore
from wait import wait_until

VIEW_SECONDS = 0.05
MEGABYTE = 1024 * 1024


def log_size(engine: Engine) -> int:
    """The bytes of SQLite's log."""
    return os.stat(Path(f"{engine.path}-wal")).st_size


async def pass_time(seconds: float) -> None:
    """Return after *seconds*."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    await wait_until(lambda: loop.time() > end)


def test_a_view_that_stays_open_too_long_is_ended(on_file: Engine) -> None:
    """Its next query raises, rather than see another state, and the store continues."""

    async def story(store: Store) -> list[str]:
        async with store.read() as view:
            await view.positions()
            await pass_time(2 * VIEW_SECONDS)
            await append(store, "meanwhile")
            with pytest.raises(Overdue):
                await view.positions()
        return await logged(store)

    assert on_file.run(story, view_seconds_max=VIEW_SECONDS) == ["meanwhile"]


def test_the_log_of_sqlite_is_bounded_while_views_overlap(on_file: Engine) -> None:
    """With never a moment without a view, a heavy writer leaves a file of limited size."""

    async def story(store: Store) -> int:
        written = asyncio.Event()

        async def look(shift: float) -> None:
            await pass_time(shift)
            while not written.is_set():
                async with store.read() as view:
                    await view.positions()
                    await pass_time(4 * VIEW_SECONDS)

        views = [asyncio.create_task(look(shift)) for shift in (0.0, VIEW_SECONDS, 2 * VIEW_SECONDS)]
        await settle()
        largest = 0
        for number in range(90):
            async with store.begin() as tx:
                await tx.put([Put(kind="k", id=str(number % 8), body=os.urandom(MEGABYTE))])
            largest = max(largest, log_size(on_file))
        written.set()
        await asyncio.gather(*views)
        return largest

    assert on_file.run(story) < 4 * WAL_BYTES_MAX


def test_the_log_of_sqlite_shrinks_after_a_long_view(on_file: Engine) -> None:
    """What grew while a view was open is given back by the first transactions after its end."""

    async def story() -> bool:
        async with on_file.open() as store:
            assert isinstance(store, SqliteStore)
            async with store.read() as view:
                await view.positions()
                for number in range(40):
                    async with store.begin() as tx:
                        await tx.put([Put(kind="k", id=str(number % 4), body=os.urandom(MEGABYTE))])
            grown = log_size(on_file) > 2 * WAL_BYTES_MAX
            store._limit_log_at = 0.0  # the pause between attempts is over
            await append(store, "after")
            await wait_until(lambda: log_size(on_file) == 0)
            return grown

    assert run(story())
