"""Power cuts: what was acknowledged is there afterwards, in the store and among the files; nothing else has a name.

These cuts lose every page that no process had asked to be written.  They do not lose the cache of the disk itself.
"""

import asyncio
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import apsw
import pytest

from e2e.power import Disk, make_disk
from e2e.power_writer import BLOBS, GAMES, STORE
from ringrift.blobs.folder import Folder
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.settings import StoreSettings
from ringrift.store.open import open_store

STEPS = ("blobs.before_fsync", "blobs.before_rename", "blobs.before_folder_fsync", "blobs.after_write")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk that can lose its power."""
    with make_disk(tmp_path) as made:
        yield made


def missing_files(folder: Path, acknowledged: list[str]) -> list[str]:
    """The acknowledged lines whose file is not there; every file that has a name must be what the name says."""
    files = [path for path in (folder / BLOBS).glob("??/*") if len(path.name) == len(sha256().hexdigest())]
    assert [path.name for path in files if sha256(path.read_bytes()).hexdigest() != path.name] == []
    return [line for line in acknowledged if line.split()[1] not in {path.name for path in files}]


def missing_blobs(folder: Path, acknowledged: list[str]) -> list[str]:
    """The acknowledged lines whose blob is neither a file nor in a pack, whole."""
    blobs = Folder(folder / BLOBS)
    here = {row.blob for row in blobs.page("", 10_000) if not blobs.is_corrupt(row.blob)}
    return [line for line in acknowledged if line.split()[1] not in here]


def missing_events(folder: Path, acknowledged: list[str]) -> list[str]:
    """The acknowledged lines whose event or row is not in the store; the store must be sound."""
    db = apsw.Connection(str(folder / STORE))
    [(verdict,)] = db.execute("PRAGMA integrity_check").fetchall()
    assert verdict == "ok"
    ids = {id for (id,) in db.execute("SELECT id FROM log")}
    db.close()
    rows = asyncio.run(_rows(folder))
    fields = [line.split() for line in acknowledged]
    return [" ".join(words) for words in fields if words[0] not in ids or rows.get(words[0], "") != "".join(words[1:])]


async def _rows(folder: Path) -> dict[str, str]:
    async with open_store(StoreSettings(path=str(folder / STORE)), SystemClock()) as store, store.read() as view:
        return await GAMES.scan(view)


def test_the_last_acknowledged_event_survives(disk: Disk) -> None:
    """The power fails right after an event was acknowledged, when nothing later has flushed the disk."""
    for number in range(3):
        writer = disk.start("events", f"e{number}", "step")
        assert all(writer.step() for _ in range(3))
        with disk.after_power_cut(writer) as folder:
            assert missing_events(folder, writer.acknowledged) == []


def test_the_last_acknowledged_file_survives(disk: Disk) -> None:
    """The power fails right after a file was acknowledged: content and name are on the disk."""
    for number in range(3):
        writer = disk.start("files", f"f{number}", "step")
        assert all(writer.step() for _ in range(2 + number))
        with disk.after_power_cut(writer) as folder:
            assert missing_files(folder, writer.acknowledged) == []


@pytest.mark.parametrize("step", STEPS)
def test_a_file_never_has_its_name_before_its_content(disk: Disk, step: str) -> None:
    """A process dies at a step of a file, another one flushes the disk, the power fails: no name without content."""
    first = disk.start("files", "before", "step")
    assert first.step()
    writer = disk.start("files", "dies", step)
    assert writer.read() == ""
    disk.commit()

    with disk.after_power_cut(first) as folder:
        assert missing_files(folder, first.acknowledged) == []


def test_a_file_of_a_dead_writer_is_flushed_before_it_is_acknowledged_again(disk: Disk) -> None:
    """A writer dies before it has flushed the folder; another stores the same file: then it is there for good."""
    dead = disk.start("files", "same", "blobs.before_folder_fsync")
    assert dead.read() == ""
    writer = disk.start("files", "same", "step")
    assert writer.step()

    with disk.after_power_cut(writer) as folder:
        assert missing_files(folder, writer.acknowledged) == []


def test_acknowledged_batches_of_busy_writers_survive(disk: Disk) -> None:
    """Two processes store files with their rows as fast as they can; the power fails in the middle, again and again."""
    for number in range(5):
        writers = [disk.start("batches", f"{name}{number}", "free") for name in "ab"]
        for writer in writers:
            assert all(writer.read() for _ in range(10 + 7 * number))
        with disk.after_power_cut(*writers) as folder:
            acknowledged = [line for writer in writers for line in writer.acknowledged]
            assert missing_files(folder, acknowledged) == []
            assert missing_events(folder, acknowledged) == []


@pytest.mark.parametrize("step", [*STEPS, "packs.before_unlink", "packs.before_replace"])
def test_a_file_goes_only_when_its_pack_is_on_the_disk(disk: Disk, step: str) -> None:
    """A process dies at a step of consolidation, another one flushes the disk, the power fails: every blob is there."""
    first = disk.start("files", "before", "step")
    assert all(first.step() for _ in range(4))
    packer = disk.start("packs", "dies", step)
    assert packer.read() == ""
    disk.commit()

    with disk.after_power_cut(first) as folder:
        assert missing_blobs(folder, first.acknowledged) == []


def test_acknowledged_blobs_survive_while_they_are_packed(disk: Disk) -> None:
    """Files are stored and packed as fast as can be; the power fails in the middle, again and again."""
    for number in range(8):
        writer = disk.start("packs", f"p{number}", "free")
        assert all(writer.read() for _ in range(3 + 2 * number))
        with disk.after_power_cut(writer) as folder:
            assert missing_blobs(folder, writer.acknowledged) == []
