"""The sweep archives ended jobs, as many as there are, and leaves the newest where they are."""

from pathlib import Path

from ringrift.blobs.folder import FolderBlobs
from ringrift.daemons.sweep import _ARCHIVED_AT_ONCE, sweep
from ringrift.jobs import Play
from ringrift.kernel.settings import Settings, StoreSettings
from ringrift.kernel.value import changed
from ringrift.store.sqlite.tx import SqliteTx
from unit.pipeline.story import blob
from unit.work.world import World, play

MODEL = blob("model")


async def sweep_once(world: World, folder: Path, jobs_max: int) -> int:
    """Sweep once; how many jobs are not archived."""
    blobs, settings = FolderBlobs(folder / "blobs"), StoreSettings(jobs_max=jobs_max)
    parts = {"store": world.store, "blobs": blobs, "envelopes": world.envelopes, "clock": world.clock}
    await sweep(settings=changed(Settings(), store=settings), **parts)
    async with world.store.begin() as tx:
        assert isinstance(tx, SqliteTx)
        [(count,)] = tx._db.execute("SELECT count(*) FROM jobs")
        return int(count)


async def cancel_all(world: World, count: int) -> None:
    """Enqueue *count* jobs and cancel all but the last."""
    jobs = [Play(variant="hex8_2p", model=MODEL, games=1, seed=seed) for seed in range(count)]
    ids = await world.desk().enqueue(jobs)
    async with world.store.begin() as tx:
        await tx.cancel(ids[:-1])


def test_a_sweep_archives_ended_jobs(tmp_path: Path) -> None:
    """All that ended before the newest ones are archived, however many transactions that takes; each still counts."""

    async def story(world: World) -> None:
        await cancel_all(world, 2 * _ARCHIVED_AT_ONCE + 30)

        assert await sweep_once(world, tmp_path, jobs_max=20) == 20

        async with world.store.read() as view:
            counts = await view.count_jobs()
        assert counts == {("play", "cancelled"): 2 * _ARCHIVED_AT_ONCE + 29, ("play", "ready"): 1}
        assert len(await world.jobs("cancelled", "ready")) == 2 * _ARCHIVED_AT_ONCE + 30

    play(tmp_path, story)


def test_few_jobs_stay_where_they_are(tmp_path: Path) -> None:
    """As long as there are no more jobs than the setting allows, none is archived."""

    async def story(world: World) -> None:
        await cancel_all(world, 20)
        assert await sweep_once(world, tmp_path, jobs_max=20) == 20

    play(tmp_path, story)
