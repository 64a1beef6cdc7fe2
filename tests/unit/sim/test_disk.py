"""Disk keeps what was synced through any power cut, and really loses the rest."""

import gc
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import apsw
import pytest

from ringrift.sim.disk import _SECTOR_BYTES, Disk

PATH = "/data/coordinator.db"
SEEDS = range(80)
CUTS = 3


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk("disk-under-test", Random(1))
    yield disk
    disk.unregister()


def connect(disk: Disk, *, journal: str = "WAL", synchronous: str = "FULL") -> apsw.Connection:
    connection = apsw.Connection(PATH, vfs=disk.name)
    connection.pragma("locking_mode", "EXCLUSIVE")
    assert connection.pragma("journal_mode", journal) == journal.lower()
    connection.pragma("synchronous", synchronous)
    connection.execute("CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, body BLOB NOT NULL)")
    return connection


def add(connection: apsw.Connection, number: int, size: int = 10) -> None:
    connection.execute("INSERT INTO rows VALUES (?, ?)", (number, bytes(size)))


def numbers(connection: apsw.Connection) -> list[int]:
    return [row[0] for row in connection.execute("SELECT number FROM rows ORDER BY number")]


def let_go(connection: apsw.Connection) -> None:
    """Close a connection whose files are dead: in WAL mode that is silent, else the rollback may fail."""
    with suppress(apsw.Error):
        connection.close(True)


def strike(disk: Disk, connection: apsw.Connection, rng: Random, number: int) -> None:
    """Cut the power at a random moment: at rest, inside a transaction, or inside a commit that a fault interrupts."""
    with suppress(apsw.IOError, apsw.FullError):
        match rng.choice(("rest", "transaction", "sync", "room")):
            case "transaction":
                connection.pragma("cache_size", 2)
                connection.execute("BEGIN")
                for extra in range(number, number + 50):
                    add(connection, extra, _SECTOR_BYTES)
            case "sync":
                disk.fail_sync = rng.randint(1, 3)
                add(connection, number)
            case "room":
                disk.room = rng.randint(0, 400_000)
                add(connection, number, 10 * _SECTOR_BYTES)
    disk.cut()
    disk.room, disk.fail_sync = None, 0


def lost(seed: int, journal: str, synchronous: str) -> set[int]:
    """Commit rows one at a time and cut, several times over; which committed rows are gone in the end?"""
    rng = Random(seed)
    disk = Disk(f"disk-{seed}", Random(rng.getrandbits(64)))
    committed: set[int] = set()
    try:
        for _ in range(CUTS):
            connection = connect(disk, journal=journal, synchronous=synchronous)
            connection.pragma("wal_autocheckpoint", rng.choice((1, 5, 1000)))
            assert connection.pragma("integrity_check") == "ok"
            start = max([*committed, *numbers(connection)], default=0) + 1
            for number in range(start, start + rng.randint(1, 40)):
                add(connection, number, rng.choice((10, 5000)))
                committed.add(number)
            strike(disk, connection, rng, number + 1)
            let_go(connection)
        connection = connect(disk, journal=journal, synchronous=synchronous)
        assert connection.pragma("integrity_check") == "ok"
        return committed - set(numbers(connection))
    finally:
        connection.close(True)
        disk.unregister()


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_a_synced_commit_survives_every_cut(journal: str) -> None:
    """With ``synchronous=FULL`` no committed row is lost, whenever the power goes, and the file is sound."""
    losses = {seed: lost(seed, journal, "FULL") for seed in SEEDS}

    assert {seed: loss for seed, loss in losses.items() if loss} == {}


def test_an_unsynced_commit_may_be_lost() -> None:
    """With ``synchronous=OFF`` rows are lost or the file is broken for some seeds: the disk is really lossy."""
    harmed = 0

    for seed in SEEDS:
        try:
            harmed += bool(lost(seed, "WAL", "OFF"))
        except (apsw.Error, AssertionError):
            harmed += 1

    assert harmed > len(SEEDS) // 4


def test_reads_return_the_written_bytes(disk: Disk) -> None:
    """Before any cut the disk is an ordinary one, also across connections."""
    connection = connect(disk)
    for number in range(100):
        add(connection, number, 1000)
    connection.close()

    again = connect(disk)

    assert numbers(again) == list(range(100))
    again.close()


def test_a_killed_process_loses_no_write(disk: Disk) -> None:
    """When only the processes die, unsynced writes are still in the machine, and the locks of the dead are free."""
    connection = connect(disk, synchronous="OFF")
    add(connection, 1)

    disk.kill()
    again = connect(disk)

    assert numbers(again) == [1]
    let_go(connection)
    again.close()


@pytest.mark.parametrize("ending", ["close", "drop"])
def test_a_connection_from_before_the_cut_is_harmless(disk: Disk, ending: str) -> None:
    """It cannot commit, it ends without an error, and it leaves the files of the next one alone."""
    connection = connect(disk)
    add(connection, 1)
    connection.execute("BEGIN")
    add(connection, 2)
    disk.cut()
    again = connect(disk)
    add(again, 3)

    with pytest.raises(apsw.IOError):
        connection.execute("COMMIT")
    if ending == "close":
        connection.close()
    del connection
    gc.collect()

    disk.kill()
    assert numbers(connect(disk)) == [1, 3]


def test_two_connections_exclude_each_other(disk: Disk) -> None:
    """While one connection holds the file, another gets SQLITE_BUSY."""
    connection = connect(disk)

    with pytest.raises(apsw.BusyError):
        connect(disk)

    connection.close()
    connect(disk).close()


def test_readers_share_and_writers_do_not(disk: Disk) -> None:
    """Without exclusive locking, two connections read at once and write in turn."""
    first, second = (apsw.Connection(PATH, vfs=disk.name) for _ in range(2))
    first.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, body BLOB NOT NULL)")

    with first:
        add(first, 1)
        seen = numbers(second)
        with pytest.raises(apsw.BusyError):
            add(second, 2)
    add(second, 2)

    assert (seen, numbers(first)) == ([], [1, 2])
    first.close()
    second.close()


def test_a_full_disk_refuses_to_grow(disk: Disk) -> None:
    """A write beyond the room fails as "full" and changes nothing; with more room, work goes on."""
    connection = connect(disk)
    add(connection, 1)

    disk.room = 1
    with pytest.raises(apsw.FullError):
        add(connection, 2, 100_000)
    disk.room = None
    add(connection, 3)

    assert numbers(connection) == [1, 3]
    connection.close()


def test_an_armed_sync_fails_once(disk: Disk) -> None:
    """The n-th sync from now fails, and only that one."""
    connection = connect(disk)

    disk.fail_sync = 2
    add(connection, 1)
    with pytest.raises(apsw.IOError):
        add(connection, 2)
    add(connection, 3)

    assert numbers(connection) == [1, 3]
    connection.close()


def test_a_sync_after_a_failed_one_saves_nothing(disk: Disk) -> None:
    """Data of a failed sync is not made durable by the next that succeeds: only writing again does that."""
    file = disk.xOpen("/file", [apsw.SQLITE_OPEN_CREATE, 0])
    file.xWrite(b"first", 0)
    disk.fail_sync = 1
    with pytest.raises(apsw.IOError):
        file.xSync(0)

    file.xSync(0)
    seen = file.xRead(5, 0)
    disk.cut()

    assert seen == b"first"
    assert disk.xOpen("/file", [0, 0]).xFileSize() == 0


def test_a_cut_keeps_a_beginning_and_may_tear_its_end() -> None:
    """After a cut a file holds the first unsynced writes, the last perhaps torn at a multiple of 512, by the seed."""
    written = b"\1" * 1024 + b"\2" * 1024 + b"\3" * 1024

    def left(seed: int) -> bytes:
        disk = Disk("torn", Random(seed))
        file = disk.xOpen("/file", [apsw.SQLITE_OPEN_CREATE, 0])
        for offset in (0, 1024, 2048):
            file.xWrite(written[offset : offset + 1024], offset)
        disk.cut()
        disk.unregister()
        return disk.xOpen("/file", [0, 0]).xRead(4096, 0)

    lefts = [left(seed) for seed in range(200)]

    assert {len(left) for left in lefts} == set(range(0, 3072 + 1, 512))
    assert lefts == [written[: len(left)] for left in lefts] == [left(seed) for seed in range(200)]


def test_a_truncation_is_a_change_like_a_write(disk: Disk) -> None:
    """A file cut short and not synced is whole again after a power cut that forgets it."""
    file = disk.xOpen("/file", [apsw.SQLITE_OPEN_CREATE, 0])
    file.xWrite(b"x" * 1024, 0)
    file.xSync(0)
    sizes = set()

    for _ in range(20):
        file = disk.xOpen("/file", [0, 0])
        file.xTruncate(512)
        disk.cut()
        file = disk.xOpen("/file", [0, 0])
        sizes.add(file.xFileSize())
        file.xWrite(b"x" * 512, 512)
        file.xSync(0)

    assert sizes == {512, 1024}


def test_a_missing_file_cannot_be_opened(disk: Disk) -> None:
    """Opening what is not there fails, unless it may be created."""
    with pytest.raises(apsw.CantOpenError):
        apsw.Connection("/nowhere", vfs=disk.name, flags=apsw.SQLITE_OPEN_READWRITE)


def test_the_disk_counts(disk: Disk) -> None:
    """One small commit in WAL mode is a handful of writes and one sync."""
    connection = connect(disk)
    add(connection, 1)
    writes, syncs = disk.writes, disk.syncs

    add(connection, 2)

    assert 0 < disk.writes - writes < 10
    assert disk.syncs - syncs == 1
    connection.close()


def test_a_closed_disk_is_unknown() -> None:
    """Once it is out of the list no connection can be opened on the name."""
    disk = Disk("gone", Random(1))

    disk.unregister()

    with pytest.raises(apsw.SQLError):
        apsw.Connection(PATH, vfs="gone")
