"""The spool: what is put is on the disk, over restarts, in order, and bounded."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from ringrift import jobs
from ringrift.jobs import Play
from ringrift.kernel.errors import NoRoom
from ringrift.store.ports import Renewal
from ringrift.work.spool import Spool, SpooledResult
from ringrift.workload.api import Artifact, JobResult

PLAY = Play(variant="hex8_2p", model="a" * 64, games=4)


def make(job: str = "j1", size: int = 10) -> SpooledResult:
    """A result of *size* bytes, under the lease of *job*."""
    result, body = JobResult((Artifact("games", "b" * 64, size, {"games": 4}),)), jobs.encode(PLAY)
    lease = Renewal(job=job, fence=7)
    return SpooledResult(epoch="e1", number=0, kind="play", variant=PLAY.variant, body=body, result=result, lease=lease)


def test_results_survive_a_restart_oldest_first(tmp_path: Path) -> None:
    """Another process finds them as they were put, and numbers go on behind them."""

    async def story() -> None:
        spool = Spool(tmp_path / "spool", 1000)
        await spool.open()
        for name in ("j1", "j2", "j3"):
            await spool.put(make(name))
        await spool.remove(spool.results[0])

        again = Spool(tmp_path / "spool", 1000)
        await again.open()
        assert msgspec.json.encode(again.results) == msgspec.json.encode(spool.results)
        assert [row.lease.job for row in again.results if row.lease] == ["j2", "j3"]
        assert (await again.put(make("j4"))).number == 4
        assert again.find(Renewal(job="j3", fence=7)) == again.results[1]
        assert again.find(Renewal(job="j3", fence=8)) is None

    asyncio.run(story())


def test_half_a_file_is_none_and_what_cannot_be_read_is_set_aside(tmp_path: Path) -> None:
    """A process that was killed while it wrote leaves nothing; a damaged file does not stop the others."""

    async def story() -> None:
        folder = tmp_path / "spool"
        spool = Spool(folder, 1000)
        await spool.open()
        await spool.put(make("j1"))
        (folder / "000000000002.part").write_bytes(b"half")
        (folder / "000000000003.result").write_bytes(msgspec.msgpack.encode({"no": "result"}))

        again = Spool(folder, 1000)
        await again.open()
        assert [row.number for row in again.results] == [1]
        assert sorted(os.listdir(folder)) == ["000000000001.result", "000000000003.bad"]

    asyncio.run(story())


def test_it_is_full_by_bytes_and_still_accepts(tmp_path: Path) -> None:
    """What was begun before it was full comes in; only new work has to wait."""

    async def story() -> None:
        spool = Spool(tmp_path / "spool", 25)
        await spool.open()
        await spool.put(make("j1"))
        await spool.put(make("j2"))
        assert not spool.is_full
        await spool.put(make("j3"))
        assert spool.is_full
        await spool.put(make("j4"))
        await spool.remove(spool.results[0])
        await spool.remove(spool.results[0])
        assert not spool.is_full

    asyncio.run(story())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    """It is the transient error, and nothing is left behind."""

    async def story() -> None:
        folder = tmp_path / "spool"
        spool = Spool(folder, 1000)
        await spool.open()
        (folder / "000000000001.part").symlink_to("/dev/full")
        with pytest.raises(NoRoom):
            await spool.put(make("j1"))
        assert not spool.results
        assert not os.listdir(folder)
        await spool.put(make("j1"))
        assert len(spool.results) == 1

    asyncio.run(story())


def test_one_that_is_cancelled_meanwhile_is_spooled_all_the_same(tmp_path: Path) -> None:
    """The thread that writes cannot be stopped: what it wrote is known to this process too."""

    async def story() -> None:
        spool = Spool(tmp_path / "spool", 1000)
        await spool.open()
        task = asyncio.get_running_loop().create_task(spool.put(make("j1")))
        asyncio.get_running_loop().call_soon(task.cancel)
        await asyncio.wait((task,))
        assert task.cancelled()
        assert len(spool.results) == len(os.listdir(tmp_path / "spool")) == 1

    asyncio.run(story())
