"""The file below a store: its schema, where it may lie, and which users may read it."""

import asyncio
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from contract.engines import EVERY_STATE, Engine, append, logged
from contract.stage import Stage
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import SchemaTooNew, SchemaTooOld, StoreError
from ringrift.kernel.settings import StoreSettings
from ringrift.store.open import only_coordinator, open_store
from ringrift.store.ports import Renewal, Store
from ringrift.store.sqlite.connect import _MIGRATIONS, SCHEMA_FIRST, SCHEMA_LAST, connect
from ringrift.store.sqlite.files import _NETWORK_FILESYSTEMS, _filesystem


def schema(engine: Engine) -> tuple[int, list[tuple[str, str, str]]]:
    """The version and every table, index and trigger of a store that is closed."""
    db = apsw.Connection(str(engine.path), vfs=engine.disk.name if engine.disk else None)
    if engine.disk is not None:
        db.pragma("locking_mode", "exclusive")
    result = list(db.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_schema ORDER BY type, name"))
    version = db.pragma("user_version")
    db.close()
    return version, result


async def nothing(store: Store) -> None:
    """Only open and close."""


def digest(path: Path) -> str:
    """The digest of the file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_opening_again_changes_no_schema(engine: Engine) -> None:
    """A fresh store and one that was opened again have the same schema, of the newest version."""
    engine.run(nothing)
    fresh = schema(engine)

    for _ in range(2):
        engine.run(nothing)

    assert schema(engine) == fresh
    assert fresh[0] == SCHEMA_LAST


def test_opening_again_keeps_the_data(engine: Engine) -> None:
    """Migrations that have run do not run again over the data."""

    async def story(store: Store) -> list[str]:
        await append(store, str(store.position))
        return await logged(store)

    assert [engine.run(story) for _ in range(3)] == [["0"], ["0", "1"], ["0", "1", "2"]]


def test_a_newer_file_is_refused_with_both_numbers(on_file: Engine, stage: Stage) -> None:
    """A file with a newer schema than this version knows is refused; the error names the path and both versions."""
    on_file.run(nothing)
    assert stage.enter("age", on_file.path, 99, "wal").rest() == ["aged"]

    with pytest.raises(SchemaTooNew) as refused:
        on_file.run(nothing)

    assert (refused.value.schema, refused.value.schema_max) == (99, SCHEMA_LAST)
    assert str(on_file.path) in str(refused.value)


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_newer_file_is_left_alone(on_file: Engine, stage: Stage, mode: str) -> None:
    """Being refused changes not a byte of a newer file, in either journal mode, and leaves nothing beside it."""
    on_file.run(nothing)
    assert stage.enter("age", on_file.path, 99, mode).rest() == ["aged"]
    before = digest(on_file.path)

    with pytest.raises(SchemaTooNew):
        on_file.run(nothing)

    assert digest(on_file.path) == before
    assert [path.name for path in on_file.path.parent.iterdir()] == [on_file.path.name]


def test_a_store_of_version_4_is_migrated_with_its_jobs(on_file: Engine) -> None:
    """Every job keeps its state and its holder, the counters are counted anew, and work goes on."""
    on_file.path.parent.mkdir()
    db = apsw.Connection(str(on_file.path))
    db.pragma("journal_mode", "wal")
    db.execute(dict(_MIGRATIONS)[4])
    rows = [("a", "ready", None), ("b", "claimed", "n"), ("c", "done", None), ("d", "claimed", "m")]
    for id, state, holder in rows:
        db.execute(
            "INSERT INTO jobs (id, kind, variant, key, body, state, priority, time, holder, fence)"
            " VALUES (?1, 'play', 'v', ?1, x'7b7d', ?2, 40, 1, ?3, 3)",
            (id, state, holder),
        )
    db.pragma("user_version", 4)
    db.close()

    async def story(store: Store) -> None:
        async with store.begin() as tx:
            assert [(row.id, row.state, row.holder) for row in await tx.jobs(EVERY_STATE, 9)] == rows
            assert await tx.count_jobs() == {("play", "ready"): 1, ("play", "claimed"): 2, ("play", "done"): 1}
            counters = await tx.job_counters("claimed", ["play"])
            assert [(counter.holder, counter.count) for counter in counters] == [("m", 1), ("n", 1)]
            await tx.finish([Renewal(job="b", fence=3)])
            [lease] = await tx.claim(("play",), "m", 30.0, 9)
            assert (lease.job, lease.fence) == ("a", 4)
            [counter] = await tx.job_counters("claimed", ["play"])
            assert (counter.holder, counter.count) == ("m", 2)

    on_file.run(story)
    assert schema(on_file)[0] == SCHEMA_LAST > 4


@pytest.mark.parametrize("version", range(1, SCHEMA_FIRST))
def test_a_store_of_an_earlier_format_is_refused(on_file: Engine, version: int) -> None:
    """A store of an earlier format is refused with instructions, and not a byte of its folder changes."""
    on_file.path.parent.mkdir()
    db = apsw.Connection(str(on_file.path))
    db.pragma("journal_mode", "wal")
    db.execute("CREATE TABLE log (position INTEGER PRIMARY KEY, id TEXT NOT NULL, origin TEXT NOT NULL)")
    db.execute("INSERT INTO log VALUES (1, 'e1', 'log')")
    db.pragma("user_version", version)
    db.close()
    before = digest(on_file.path)

    with pytest.raises(SchemaTooOld) as refused:
        on_file.run(nothing)

    assert (refused.value.schema, refused.value.schema_min) == (version, SCHEMA_FIRST)
    assert str(refused.value) == (
        f"{on_file.path} has schema {version}, but this version reads {SCHEMA_FIRST} and later: "
        "keep this folder for the version that wrote it, and set RINGRIFT_HOME to a new one"
    )
    assert digest(on_file.path) == before
    assert [path.name for path in on_file.path.parent.iterdir()] == [on_file.path.name]


def test_only_the_owner_can_read_the_files(on_file: Engine) -> None:
    """The database and SQLite's files beside it are readable by their owner alone, from the first start on."""

    async def story(store: Store) -> dict[str, str]:
        await append(store, "a")
        await logged(store)
        return {path.name: oct(path.stat().st_mode & 0o777) for path in sorted(on_file.path.parent.iterdir())}

    assert on_file.run(story) == {"store.db": "0o600", "store.db-shm": "0o600", "store.db-wal": "0o600"}


def test_folders_that_a_store_creates_are_closed_to_others(tmp_path: Path) -> None:
    """However the umask is set, and whichever of lock and database comes first."""
    path = tmp_path / "data" / "coordination" / "store.db"
    umask = os.umask(0)
    try:
        with only_coordinator(StoreSettings(path=str(path)), "n1"):
            Engine(path).run(nothing)
    finally:
        os.umask(umask)

    modes = {entry.name: oct(entry.stat().st_mode & 0o777) for entry in sorted((tmp_path / "data").rglob("*"))}
    assert modes == {"coordination": "0o700", "coordinator.lock": "0o600", "store.db": "0o600"}
    assert oct((tmp_path / "data").stat().st_mode & 0o777) == "0o700"


MOUNTS = """\
/dev/root / ext4 rw,relatime 0 0
proc /proc proc rw 0 0
server:/export /mnt/share nfs4 rw,vers=4.2 0 0
/dev/sdb /mnt/share/local xfs rw 0 0
user@host:/ /home/me/my\\040files fuse.sshfs rw,nosuid 0 0
host /mnt/nine 9p rw,trans=virtio 0 0
tmpfs /mnt/covered tmpfs rw 0 0
//server/share /mnt/covered cifs rw 0 0
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/data", "ext4"),
        ("/", "ext4"),
        ("/mnt/share", "nfs4"),
        ("/mnt/share/ringrift/data", "nfs4"),
        ("/mnt/share/local/data", "xfs"),
        ("/mnt/shared/data", "ext4"),
        ("/home/me/my files/data", "fuse.sshfs"),
        ("/home/me/my", "ext4"),
        ("/mnt/nine/x", "9p"),
        ("/mnt/covered/x", "cifs"),
    ],
)
def test_a_path_lies_on_its_nearest_mount(path: str, kind: str) -> None:
    """The filesystem of a path is that of the innermost mount above it, and of the last one mounted there."""
    assert _filesystem(Path(path), MOUNTS) == kind


@pytest.mark.parametrize("name", ["tab\tname", "back\\040slash"], ids=["tab", "backslash"])
def test_mount_points_are_unescaped(name: str) -> None:
    """Mount points with tabs and backslashes are recognised under their real names."""
    written = name.replace("\\", "\\134").replace("\t", "\\011")
    mounts = f"/dev/root / ext4 rw 0 0\nserver:/x /mnt/{written} nfs rw 0 0\n"

    assert _filesystem(Path(f"/mnt/{name}/data"), mounts) == "nfs"


@pytest.mark.parametrize("mounts", ["", "\n", "nothing here\n"])
def test_a_list_of_mounts_without_the_path_yields_no_filesystem(mounts: str) -> None:
    """Where the list does not name a filesystem, the result is empty."""
    assert _filesystem(Path("/data"), mounts) == ""


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "9p", "cifs", "smb3", "ceph", "lustre", "fuse.sshfs", "fuse.rclone"])
def test_network_filesystems_are_known_by_name(kind: str) -> None:
    """Every filesystem across which SQLite's locks cannot be trusted is on the list."""
    mounts = f"/dev/root / ext4 rw 0 0\nserver:/x /mnt/share {kind} rw 0 0\n"

    assert _filesystem(Path("/mnt/share/store"), mounts) in _NETWORK_FILESYSTEMS
    assert _filesystem(Path("/srv"), mounts) not in _NETWORK_FILESYSTEMS


@pytest.mark.parametrize("below", ["", "not/yet/made"])
def test_a_store_on_a_network_disk_is_refused(
    tmp_path: Path, stage: Stage, other_mounts: Callable[[str], list[str]], below: str
) -> None:
    """A store is not made on a network filesystem, whether its folder exists already or has still to be made."""
    share = tmp_path / "share"
    share.mkdir()
    under = other_mounts(f"/dev/root / ext4 rw 0 0\nserver:/x {share} nfs4 rw 0 0\n")

    [reported] = stage.enter("visit", share / below / "store.db", under=under).rest()

    assert reported.startswith("UnsafeFilesystem")
    assert "nfs4" in reported
    assert list(share.iterdir()) == []


def test_a_store_opens_while_another_process_recovers_its_log(tmp_path: Path) -> None:
    """During the recovery the first page names pages that are not in the file yet: the store is whole nevertheless."""
    whole, caught = tmp_path / "whole.db", tmp_path / "caught.db"
    writer = connect(whole)
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    writer.execute("INSERT INTO records (kind, id, body) VALUES ('a', 'b', zeroblob(100000))")
    body = bytearray(whole.read_bytes())
    assert body[24:28] == body[92:96], "the number of pages counts"
    body[28:32] = (int.from_bytes(body[28:32], "big") + 10).to_bytes(4, "big")
    caught.write_bytes(body)
    shutil.copy(f"{whole}-wal", f"{caught}-wal")

    result = connect(caught)
    assert result.execute("SELECT length(body) FROM records WHERE kind = 'a'").fetchall() == [(100_000,)]
    result.close()
    writer.close()


def test_a_look_creates_nothing(tmp_path: Path) -> None:
    """Where there is no store, opening an existing one leaves no file and no folder."""
    with pytest.raises(StoreError):
        asyncio.run(look(tmp_path / "home" / "store.db"))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", [False, True])
def test_a_look_does_not_migrate(on_file: Engine, write: bool) -> None:
    """A command on a store of an earlier version is refused, and says who migrates it; the file stays as it was."""
    on_file.path.parent.mkdir()
    db = apsw.Connection(str(on_file.path))
    db.pragma("journal_mode", "wal")
    db.execute(dict(_MIGRATIONS)[SCHEMA_FIRST])
    db.pragma("user_version", SCHEMA_FIRST)
    db.close()
    before = schema(on_file)

    with pytest.raises(SchemaTooOld, match="ringrift run"):
        asyncio.run(look(on_file.path, write))

    assert schema(on_file) == before


def test_a_look_reads_and_writes_a_store_of_this_version(on_file: Engine) -> None:
    """It sees what is there; the connection for writing is opened when it is used."""
    on_file.run(lambda store: append(store, "a"))

    assert asyncio.run(look(on_file.path)) == ["a"]
    assert asyncio.run(look(on_file.path, write=True)) == ["a", "look"]


async def look(path: Path, write: bool = False) -> list[str]:
    """The events of the store at *path*, opened by a command of the operator."""
    async with open_store(StoreSettings(path=str(path)), SystemClock(), existing=True) as store:
        if write:
            await append(store, "look")
        return await logged(store)
