"""Look-ups take as many steps among thousands of rows as among ten: their indexes lead to the rows they return."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from contract.engines import Engine, claim, enqueue, new_job, renewal
from contract.steps import traced
from ringrift.store.ports import Failure, Put, Store, TaskRequest

FEW, MANY = 10, 3_000
SLACK = 50  # the last row of an index takes a step or two less than one in the middle
TASK = TaskRequest(kind="task:sync", variant="v", key="task:t", body=b"", holder="n", seconds=9.0)


async def find(store: Store) -> None:
    """Two records by one value, and four by two."""
    async with store.read() as view:
        assert list(await view.find("k", "field", ["2"], 9)) == ["00004", "00005"]
        assert len(await view.find("k", "field", ["1", "3"], 9)) == 4


async def list_live(store: Store) -> None:
    """The live jobs: one is claimed, one is ready."""
    async with store.read() as view:
        assert [row.id for row in await view.jobs(("ready", "claimed"), 9)] == ["b", "c"]


async def list_claimed(store: Store) -> None:
    """The claimed job."""
    async with store.read() as view:
        assert [row.id for row in await view.jobs(("claimed",), 9)] == ["b"]


async def list_dead(store: Store) -> None:
    """The dead job."""
    async with store.read() as view:
        assert [row.id for row in await view.jobs(("dead",), 9)] == ["a"]


async def register(store: Store) -> None:
    """A task, which gets the next number."""
    async with store.begin() as tx:
        assert await tx.register_tasks([TASK]) != [None]


async def archive(store: Store) -> None:
    """The two oldest jobs that have ended; at least as many stay as a young store has."""
    async with store.begin() as tx:
        assert await tx.archive_jobs(FEW, 2) == 2


LOOKS: list[Callable[[Store], Awaitable[None]]] = [find, list_live, list_claimed, list_dead, register, archive]


async def fill(store: Store, count: int) -> None:
    """*count* records and *count* done jobs, and after these a dead one, a claimed one and a ready one."""
    records = [Put(kind="k", id=f"{n:05}", body=b"", index={"field": str(n // 2)}) for n in range(count)]
    async with store.begin() as tx:
        await tx.put(records)
    await enqueue(store, *(new_job(f"done-{n}") for n in range(count)))
    done = await claim(store, limit=count)
    await enqueue(store, new_job("a"), new_job("b"), new_job("c"))
    leases = await claim(store, limit=2)
    async with store.begin() as tx:
        await tx.finish([renewal(lease) for lease in done])
        await tx.fail([Failure(job="a", fence=leases[0].fence, error="broke", pause=None)])


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_takes_as_many_steps_in_an_old_store(tmp_path: Path, look: Callable[[Store], Awaitable[None]]) -> None:
    """All its statements together, whatever else is stored."""
    totals = []
    for count in (FEW, MANY):
        engine = Engine(tmp_path / str(count) / "store.db")
        engine.run(partial(fill, count=count))
        with traced() as steps:
            engine.run(look)
        totals.append(sum(map(sum, steps.values())))
    assert totals[1] <= totals[0] + SLACK
