"""The archive: jobs that ended long ago are out of the way, and nothing about them is lost."""

from collections.abc import Mapping, Sequence
from typing import Any

import apsw
import pytest

from contract.engines import EVERY_STATE, Engine, claim, enqueue, new_job, renewal
from ringrift.kernel.errors import IdConflict
from ringrift.store.ports import TASKS_RETAINED, Failure, JobRow, Store, TaskChange, TaskRequest
from ringrift.store.sqlite.connect import _MIGRATIONS, SCHEMA_LAST
from ringrift.store.sqlite.tx import SqliteTx

ENDS = {"j1": "done", "j2": "dead", "j3": "cancelled", "j4": "done"}
LIVE = {"j0": "claimed", "j5": "ready"}


async def work(store: Store) -> None:
    """Six jobs: the first is claimed and the last is ready, and those between have ended in every way."""
    await enqueue(store, *(new_job(id, time=float(number)) for number, id in enumerate(sorted({**ENDS, **LIVE}))))
    leases = await claim(store, limit=4)
    async with store.begin() as tx:
        await tx.finish([renewal(leases[1])])
        await tx.fail([Failure(job="j2", fence=1, error="broke", pause=None)])
        await tx.cancel(["j3"])
        [last] = await tx.claim(("play",), "node", 30.0, 1)
        await tx.finish([renewal(last)])


async def everything(store: Store) -> tuple[Sequence[JobRow], Mapping[tuple[str, str], int]]:
    """All jobs, and their counts."""
    async with store.read() as view:
        return await view.jobs(EVERY_STATE, 10_000), await view.count_jobs()


async def archive(store: Store, keep: int, limit: int = 10_000) -> int:
    """Archive jobs in a transaction of its own; how many."""
    async with store.begin() as tx:
        return await tx.archive_jobs(keep, limit)


def beside(tx: object) -> list[str]:
    """The ids of the jobs that are not archived."""
    assert isinstance(tx, SqliteTx)
    return [id for (id,) in tx._db.execute("SELECT id FROM jobs ORDER BY number")]


def test_archived_jobs_are_listed_and_counted_as_before(engine: Engine) -> None:
    """Ended jobs go in their order, a few at a time; live ones never do, and neither list nor counts change."""

    async def story(store: Store) -> None:
        await work(store)
        before = await everything(store)

        assert [await archive(store, 1, limit=2) for _ in range(3)] == [2, 2, 0]

        assert await everything(store) == before
        assert {row.id: row.state for row in before[0]} == {**ENDS, **LIVE}
        async with store.begin() as tx:
            assert beside(tx) == sorted(LIVE)
            assert [row.id for row in await tx.jobs(("dead",), 9)] == ["j2"]
            assert [row.id for row in await tx.jobs(("ready", "claimed"), 9)] == sorted(LIVE)
            assert [row.id for row in await tx.jobs(("done", "cancelled"), 2)] == ["j1", "j3"]

    engine.run(story)


def test_the_newest_jobs_stay(engine: Engine) -> None:
    """The newest job is never archived, even if it has ended: the next one gets a number that no job ever had."""

    async def story(store: Store) -> None:
        await work(store)
        assert await archive(store, 3) == 2
        async with store.begin() as tx:
            assert beside(tx) == ["j0", "j3", "j4", "j5"]
            await tx.cancel(["j5"])
        assert await archive(store, 0) == 2
        async with store.begin() as tx:
            assert beside(tx) == ["j0", "j5"]
        await enqueue(store, new_job("j6"))
        assert [row.id for row in (await everything(store))[0]] == ["j0", "j1", "j2", "j3", "j4", "j5", "j6"]

    engine.run(story)


def test_an_archived_job_is_in_the_way_of_its_id_and_not_of_its_key(engine: Engine) -> None:
    """As with every ended job: its id is used for ever, and its key is free."""

    async def story(store: Store) -> None:
        await work(store)
        await archive(store, 1)
        with pytest.raises(IdConflict):
            await enqueue(store, new_job("j1", key="another"))
        await enqueue(store, new_job("new", key="key:j1"))
        assert [row.id for row in (await everything(store))[0] if row.key == "key:j1"] == ["j1", "new"]

    engine.run(story)


def test_no_job_is_deleted_without_being_archived(engine: Engine) -> None:
    """The schema itself sees to that: a deleted row is in the archive, and a live one cannot be deleted at all."""

    async def story(store: Store) -> None:
        await work(store)
        before = await everything(store)
        async with store.begin() as tx:
            assert isinstance(tx, SqliteTx)
            tx._db.execute("DELETE FROM jobs WHERE state = 'done'")
            with pytest.raises(apsw.ConstraintError):
                tx._db.execute("DELETE FROM jobs")
        assert await everything(store) == before

    engine.run(story)


def test_the_last_tasks_are_not_archived(engine: Engine) -> None:
    """Programs list the newest tasks with all that they carried; older ones are archived like jobs."""

    async def story(store: Store) -> None:
        facts: dict[str, Any] = {
            "kind": "task:training",
            "variant": "v",
            "body": b"{}",
            "holder": "n",
            "seconds": 300.0,
        }
        keys = [f"task:{number}" for number in range(TASKS_RETAINED + 3)]
        async with store.begin() as tx:
            for key in keys:
                [fence] = await tx.register_tasks([TaskRequest(key=key, **facts)])
                end = TaskChange(job=f"{key}#{fence}", fence=fence or 0, state="done", body=b"{}")
                assert await tx.change_tasks([end]) == [end.job]
        await enqueue(store, *(new_job(f"j{number}") for number in range(9)))

        assert await archive(store, 1) == 3

        async with store.read() as view:
            assert [row.key for row in await view.last_tasks(TASKS_RETAINED)] == keys[3:]

    engine.run(story)


def test_a_store_of_version_5_is_migrated_with_its_jobs_and_decisions(on_file: Engine) -> None:
    """No job moves by itself; from then on ended ones can be archived, and decisions are found by their model."""
    on_file.path.parent.mkdir()
    db = apsw.Connection(str(on_file.path))
    db.pragma("journal_mode", "wal")
    for number in (4, 5):
        db.execute(dict(_MIGRATIONS)[number])
    for id, state in (("a", "done"), ("b", "claimed"), ("c", "dead"), ("d", "ready")):
        db.execute(
            "INSERT INTO jobs (id, kind, variant, key, body, state, priority, time, holder, fence)"
            " VALUES (?1, 'play', 'v', ?1, x'7b7d', ?2, 40, 1, iif(?2 = 'claimed', 'n', NULL), 3)",
            (id, state),
        )
    db.execute('INSERT INTO records VALUES (\'decision\', \'v:1\', CAST(\'{"variant":"v","model":"m"}\' AS BLOB))')
    db.execute("INSERT INTO record_index VALUES ('decision', 'variant', 'v', 'v:1')")
    db.pragma("user_version", 5)
    db.close()

    async def story(store: Store) -> None:
        rows, counts = await everything(store)
        assert [(row.id, row.state) for row in rows] == [("a", "done"), ("b", "claimed"), ("c", "dead"), ("d", "ready")]
        assert await archive(store, 1) == 2
        assert await everything(store) == (rows, counts)
        async with store.begin() as tx:
            assert beside(tx) == ["b", "d"]
            assert list(await tx.find("decision", "model", ["m"], 9)) == ["v:1"]
            assert list(await tx.find("decision", "variant", ["v"], 9)) == ["v:1"]

    on_file.run(story)
    db = apsw.Connection(str(on_file.path))
    assert db.pragma("user_version") == SCHEMA_LAST > 5
    db.close()
