"""A copy of a store is one moment of it, taken while others write, and its new epoch lets nothing of before count."""

import asyncio
from pathlib import Path

import apsw
import pytest

from contract.engines import Engine, claim, enqueue, job, new_job, put, recorded, renewal, run
from contract.test_store_roles import hold, roles
from contract.test_store_tasks import change, register, request
from ringrift.kernel.errors import LeaseLost, NotLeader, StoreError
from ringrift.kernel.settings import StoreSettings
from ringrift.store.open import begin_epoch, copy_store
from ringrift.store.ports import Put, Store

EPOCH = 2


def settings(engine: Engine) -> StoreSettings:
    """The settings of the store of *engine*."""
    return StoreSettings(path=str(engine.path))


def test_a_copy_is_one_moment_while_others_write(on_file: Engine, tmp_path: Path) -> None:
    """Pairs of records that were written together are in it together, and writers do not wait for it."""
    target, body = tmp_path / "copy.db", bytes(2_000)

    async def write(store: Store, stop: asyncio.Event) -> int:
        number = 0
        while not stop.is_set():
            number += 1
            async with store.begin() as tx:
                rows = [Put(kind=kind, id=f"{number:06d}", body=body) for kind in ("left", "right")]
                await tx.put(rows)
        return number

    async def story(store: Store) -> tuple[int, int]:
        for number in range(8):  # several steps of the copy
            async with store.begin() as tx:
                await tx.put([Put(kind="ballast", id=f"{number}-{row:03d}", body=body) for row in range(1_000)])
        stop, before = asyncio.Event(), 0
        writing = asyncio.create_task(write(store, stop))
        try:
            for _ in range(3):
                await copy_store(settings(on_file), target)
                before = max(before, len(await recorded(store, "left")))
        finally:
            stop.set()
        return await writing, before

    number, before = on_file.run(story)
    copy = Engine(target).run(lambda store: asyncio.gather(recorded(store, "left"), recorded(store, "right")))

    assert copy[0] == copy[1] == [f"{place:06d}" for place in range(1, len(copy[0]) + 1)]
    assert 0 < len(copy[0]) <= before <= number
    assert before > 3, "writers waited for the copy"


def test_a_copy_is_one_file(on_file: Engine, tmp_path: Path) -> None:
    """Nothing of it lies in a log beside it, and an earlier copy is replaced."""
    target = tmp_path / "copies" / "copy.db"
    target.parent.mkdir()
    target.write_bytes(b"left over")

    async def story(store: Store) -> None:
        await put(store, "thing", "a")
        await copy_store(settings(on_file), target)

    on_file.run(story)

    assert [path.name for path in target.parent.iterdir()] == ["copy.db"]
    assert Engine(target).run(lambda store: recorded(store, "thing")) == ["a"]


def test_a_damaged_store_is_not_copied(on_file: Engine, tmp_path: Path) -> None:
    """A copy of damage would in time replace the good ones."""
    on_file.run(lambda store: put(store, "thing", "a", bytes(200_000)))
    with on_file.path.open("r+b") as file:
        file.seek(5 * 4096)
        file.write(bytes(8 * 4096))

    with pytest.raises(StoreError):
        run(copy_store(settings(on_file), tmp_path / "copy.db"))


def test_a_lease_of_before_cannot_finish(on_file: Engine) -> None:
    """The job is ready again with no try used up, and its next fence is above every one that was ever given."""

    async def before(store: Store) -> None:
        await enqueue(store, new_job("a"), new_job("b"))
        await claim(store)

    async def after(store: Store) -> None:
        assert [(await job(store, id)).state for id in ("a", "b")] == ["ready", "ready"]
        old = renewal((await claim(store))[0])
        assert old.job == "a"
        assert (await job(store, "a")).attempts == 1
        for fence in (1, 2, 1 << 31):  # whatever the first store has given since
            async with store.begin() as tx:
                with pytest.raises(LeaseLost):
                    await tx.finish([type(old)(job="a", fence=fence)])
        assert old.fence > EPOCH << 32
        async with store.begin() as tx:
            await tx.finish([old])

    on_file.run(before)
    run(begin_epoch(on_file.path, EPOCH))
    on_file.run(after)


def test_a_term_of_before_is_over(on_file: Engine) -> None:
    """Every role is free, and a term of the new epoch is above all of before, also that of a role nobody had yet."""

    async def before(store: Store) -> None:
        assert await hold(store, "n1") is not None

    async def after(store: Store) -> None:
        [row] = await roles(store)
        assert (row.holder, row.term > EPOCH << 32) == ("", True)
        for term in (1, 1 << 31):
            with pytest.raises(NotLeader):
                async with store.begin() as tx:
                    await tx.require_role("fill", term)
        first = await hold(store, "n2", row)
        second = await hold(store, "n2", None, "watch")
        assert first is not None
        assert second is not None
        assert first.term == row.term + 1
        assert second.term == (EPOCH << 32) + 1

    on_file.run(before)
    run(begin_epoch(on_file.path, EPOCH))
    on_file.run(after)


def test_tasks_of_before_have_ended(on_file: Engine) -> None:
    """Their programs worked for another store; the counts of jobs are right all the same."""

    async def before(store: Store) -> None:
        await register(store, request("a"))
        await enqueue(store, new_job("b"))
        await claim(store)

    async def after(store: Store) -> None:
        async with store.begin() as tx:
            assert await tx.change_tasks([change("a", 1, "done")]) == []
        async with store.read() as view:
            [row] = await view.last_tasks(10)
            assert (row.state, row.error) == ("dead", "the store was restored from a backup")
            assert await view.count_jobs() == {("play", "ready"): 1}

    on_file.run(before)
    run(begin_epoch(on_file.path, EPOCH))
    on_file.run(after)

    db = apsw.Connection(str(on_file.path))
    tally = "SELECT kind, state, sum(count) FROM job_counts WHERE count GROUP BY kind, state ORDER BY kind"
    assert db.execute(tally).fetchall() == [("play", "ready", 1), ("task:training", "dead", 1)]
    db.close()
