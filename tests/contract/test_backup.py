"""A backup has the store of one moment and every file that it lists; what cannot be restored is never taken for one."""

import asyncio
import hashlib
from pathlib import Path

import apsw
import pytest

from contract.backup_rig import Rig, epoch_of, files_at, holders
from contract.engines import claim, enqueue, new_job, put, recorded, run
from ringrift.blobs.folder import Folder
from ringrift.blobs.ports import Blobs
from ringrift.cluster.keys import JoinToken, store_token
from ringrift.cluster.roster import NODES
from ringrift.events.cluster import Restored
from ringrift.kernel.errors import Corrupt, InputError, NoRoute, NotLeader, UnknownName
from ringrift.kernel.transfer_settings import BandwidthSettings
from ringrift.kernel.wire_errors import PlaceAway
from ringrift.store.open import only_backup
from ringrift.store.ports import Store
from ringrift.sync import ledger
from ringrift.sync.backup import BACKUPS
from ringrift.sync.shaper import Shaper
from s3_server import S3Server
from wait import wait_until

GAMES, MODEL = b"some games", b"a model" * 1000


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """A home, and a folder for its backups."""
    return Rig(tmp_path / "home", str(tmp_path / "place"))


@pytest.fixture(params=["folder", "s3"])
def any_rig(request: pytest.FixtureRequest, tmp_path: Path) -> Rig:
    """The same with each engine of places."""
    if request.param == "folder":
        return Rig(tmp_path / "home", str(tmp_path / "place"))
    server: S3Server = request.getfixturevalue("s3")
    return Rig(tmp_path / "home", server.address)


def test_what_was_backed_up_comes_back_in_an_empty_home(any_rig: Rig, tmp_path: Path) -> None:
    """Records, jobs and files of all nodes; the ledger lists what the one node has now."""
    rig = any_rig

    async def before(store: Store) -> list[str]:
        names = [*await rig.add(store, "a", GAMES), *await rig.add(store, "b", MODEL)]
        await put(store, "thing", "one")
        await enqueue(store, new_job("j"))
        await claim(store)
        await rig.back_up(store)
        await put(store, "thing", "two")
        return names

    names = rig.run(before)
    result = run(rig.restore(tmp_path / "other"))

    async def after(store: Store) -> None:
        assert await recorded(store, "thing") == ["one"]
        assert await holders(store, *names) == [["a"], ["a"]]
        [lease] = await claim(store)
        assert lease.fence > 2 << 32
        async with store.read() as view:
            assert await NODES.scan(view) == {}, "a node that starts is new here"
            [envelope] = await view.read(0, 10, [Restored.name()])
        assert envelope.source == "restore"

    rig.run(after, tmp_path / "other")
    assert (result.backup.files, result.epoch, result.is_noted) == (2, 2, True)
    for name, data in zip(names, (GAMES, MODEL), strict=True):
        assert Folder(tmp_path / "other" / "blobs" / "a").open(name).read_bytes() == data


def test_only_what_is_new_is_sent(any_rig: Rig) -> None:
    """A second backup sends the pieces of the store that changed, and no file again."""
    rig = any_rig

    async def story(store: Store) -> None:
        await rig.add(store, "a", MODEL, GAMES)
        for number in range(24):  # several pieces of the store
            await put(store, "ballast", str(number), bytes([number]) * 1_000_000)
        first, sent = await rig.back_up(store)
        await put(store, "thing", "one")
        second, sent_again = await rig.back_up(store)

        assert len(first.pieces) >= 3
        assert len(set(second.pieces) - set(first.pieces)) < len(first.pieces)
        assert sent > first.store_bytes
        assert sent_again < sent - 4_000_000

    rig.run(story)


def test_a_file_that_no_node_can_send_is_named(rig: Rig, tmp_path: Path) -> None:
    """A backup without it is still one; a file with one good copy is taken from there."""

    async def story(store: Store) -> None:
        [games, lost] = await rig.add(store, "a", GAMES, b"lost")
        await rig.add(store, "b", GAMES)
        for name in (games, lost):
            rig.folder("a").folder.path(name).write_bytes(b"damaged")

        backup, _ = await rig.back_up(store)

        assert (backup.missing, backup.missing_count, backup.files) == ((lost,), 1, 1)
        assert games in files_at(tmp_path / "place")
        assert lost not in files_at(tmp_path / "place")

    rig.run(story)
    assert run(rig.restore(tmp_path / "other")).backup.files == 1


def test_a_file_that_lies_in_no_folder_is_fetched_first(rig: Rig, tmp_path: Path) -> None:
    """One that only a machine without a folder here holds is missing, unless it can be brought."""

    async def story(store: Store) -> None:
        await rig.add(store, "a", GAMES)
        name = hashlib.sha256(MODEL).hexdigest()
        async with store.begin() as tx:
            await ledger.add(tx, [(name, "hub", len(MODEL))])

        async def fail(blob: str) -> Blobs:
            raise NoRoute(blob, ["hub"])

        async def fetch(blob: str) -> Blobs:
            assert list(await rig.folder("a").put([MODEL])) == [blob]
            return rig.folder("a")

        for way in (None, fail):
            backup, _ = await rig.back_up(store, fetch=way)
            assert backup.missing == (name,)
        backup, _ = await rig.back_up(store, fetch=fetch)
        assert (backup.missing, backup.files) == ((), 2)

    rig.run(story)
    assert run(rig.restore(tmp_path / "other")).backup.files == 2


def test_a_file_that_retention_deleted_meanwhile_is_not_missing(rig: Rig, tmp_path: Path) -> None:
    """The store of the backup lists it, but nothing needs it."""

    async def story(store: Store) -> None:
        [_, old] = await rig.add(store, "a", GAMES, b"old")

        def delete(*_: object) -> None:
            """The store has been copied when its first piece is sent."""
            db = apsw.Connection(rig.settings.path)
            for table in ("records", "record_index"):
                db.execute(f"DELETE FROM {table} WHERE kind = 'holding' AND id = ?", (f"{old}@a",))
            db.close()
            rig.folder("a").folder.path(old).unlink(missing_ok=True)

        backup, _ = await rig.back_up(store, on_progress=delete)

        assert (backup.missing_count, backup.files) == (0, 1)

    rig.run(story)
    assert run(rig.restore(tmp_path / "other")).backup.files == 1


def test_old_backups_go_with_what_only_they_need(any_rig: Rig, tmp_path: Path) -> None:
    """The newest stay whole: each of them can be restored."""
    rig = any_rig

    async def story(store: Store) -> tuple[str, list[str]]:
        [old] = await rig.add(store, "a", b"old")
        first, _ = await rig.back_up(store)
        rig.folder("a").folder.path(old).unlink()
        await rig.add(store, "a", GAMES)
        await rig.back_up(store)
        await put(store, "thing", "one")
        last, _ = await rig.back_up(store, keep=2)
        names = [name async for page in rig.place().names() for name in page]
        assert not {old, *first.lists} & set(names)
        return first.id, [row[-24:] for row in (last.id,)]

    first, [last] = rig.run(story)

    with pytest.raises(UnknownName):
        run(rig.restore(tmp_path / "gone", first))
    assert run(rig.restore(tmp_path / "other", last)).backup.files == 1
    assert run(rig.restore(tmp_path / "third")).backup.id == last


def test_a_damaged_backup_hinders_no_other(rig: Rig, tmp_path: Path) -> None:
    """The next one is made; but while nobody knows what the damaged one needs, no file goes."""

    async def story(store: Store) -> None:
        await rig.add(store, "a", GAMES)
        first, _ = await rig.back_up(store)
        (tmp_path / "place" / "blobs" / first.lists[0][:2] / first.lists[0]).unlink()
        await rig.add(store, "a", MODEL)
        before = files_at(tmp_path / "place")
        second, _ = await rig.back_up(store, keep=2)
        assert before < files_at(tmp_path / "place")
        await rig.back_up(store, keep=1)
        assert not set(first.pieces) - set(second.pieces) <= files_at(tmp_path / "place")

    rig.run(story)


def test_a_backup_waits_for_its_turn_on_the_network(rig: Rig) -> None:
    """It is sent within the limits of bandwidth."""

    async def story(store: Store) -> None:
        shaper = Shaper(BandwidthSettings(transfers_max=1), rig.clock)
        async with shaper.place("elsewhere", "urgent"):
            backup = asyncio.create_task(rig.back_up(store, shaper=shaper))
            await wait_until(lambda: len(shaper._waiting) == 1)
            assert not await rig.place().notes("backups")
        await backup
        assert len(await rig.place().notes("backups")) == 1

    rig.run(story)


@pytest.mark.parametrize("what", ["store", "file", "list", "gone"])
def test_a_damaged_backup_restores_nothing(rig: Rig, tmp_path: Path, what: str) -> None:
    """A piece of the store, a file or a list that is not what it was: no store appears in the home."""

    async def story(store: Store) -> str:
        [games] = await rig.add(store, "a", GAMES)
        backup, _ = await rig.back_up(store)
        return {"store": backup.pieces[0], "file": games, "list": backup.lists[0], "gone": games}[what]

    blob = rig.run(story)
    path = tmp_path / "place" / "blobs" / blob[:2] / blob
    path.write_bytes(b"damaged")
    if what == "gone":
        path.unlink()

    with pytest.raises(NoRoute if what == "gone" else Corrupt):
        run(rig.restore(tmp_path / "other"))

    assert not (tmp_path / "other" / "coordination" / "coordinator.db").exists()


def test_pieces_in_the_wrong_order_are_no_store(rig: Rig, tmp_path: Path) -> None:
    """Each is what its name says, and the whole is not."""

    async def story(store: Store) -> None:
        for number in range(9):
            await put(store, "ballast", str(number), bytes([number]) * 1_000_000)
        await rig.back_up(store)

    rig.run(story)
    [note] = (tmp_path / "place" / "backups").iterdir()
    pieces = note.read_text().partition('"pieces":["')[2].partition('"]')[0].split('","')
    note.write_text(note.read_text().replace('","'.join(pieces), '","'.join(reversed(pieces))))

    with pytest.raises(Corrupt):
        run(rig.restore(tmp_path / "other"))


def test_a_home_with_a_store_is_not_restored_over(rig: Rig) -> None:
    """Whatever it is: a person moves it away first."""
    rig.run(rig.back_up)

    with pytest.raises(InputError, match="move it away"):
        run(rig.restore(rig.home))


def test_an_interrupted_restoration_goes_on(rig: Rig, tmp_path: Path) -> None:
    """What has arrived is hashed and not fetched again; what is damaged is."""

    async def story(store: Store) -> list[str]:
        names = await rig.add(store, "a", GAMES, MODEL)
        await rig.back_up(store)
        return names

    games, model = rig.run(story)
    folder = Folder(tmp_path / "other" / "blobs" / "a")
    run(rig.restore(tmp_path / "other"))
    (tmp_path / "other" / "coordination" / "coordinator.db").unlink()
    folder.open(games).write_bytes(b"damaged")
    (tmp_path / "place" / "blobs" / model[:2] / model).unlink()

    run(rig.restore(tmp_path / "other"))

    assert folder.open(games).read_bytes() == GAMES
    assert folder.open(model).read_bytes() == MODEL


def test_every_restoration_begins_an_epoch_of_its_own(any_rig: Rig, tmp_path: Path) -> None:
    """Also a second one of the same backup; a drill counts for nothing."""
    rig = any_rig
    rig.run(rig.back_up)

    epochs = [
        run(rig.restore(tmp_path / f"home-{n}", drill=drill)).epoch for n, drill in enumerate([True, False, False])
    ]

    assert epochs == [2, 2, 3]
    restored = rig.run(epoch_of, tmp_path / "home-2")
    assert restored is not None
    assert (restored.number, restored.store) == (3, rig.run(epoch_of).store)  # type: ignore[union-attr] # it has one


def test_the_store_that_was_replaced_backs_up_no_more(rig: Rig, tmp_path: Path) -> None:
    """Its backups would be the newest ones, and what the restored one has done would be lost with them."""
    rig.run(rig.back_up)
    run(rig.restore(tmp_path / "other"))

    with pytest.raises(InputError, match="epoch 2"):
        rig.run(rig.back_up)

    other = Rig(tmp_path / "other", rig.address)
    assert other.run(other.back_up)[0].epoch == 2
    assert run(rig.restore(tmp_path / "third")).epoch == 3


def test_tokens_of_before_are_void(rig: Rig, tmp_path: Path) -> None:
    """A token may have been used since the backup."""

    async def story(store: Store) -> None:
        terms = JoinToken(id="", digest=b"", scopes=(), expires=9e9)
        async with store.begin() as tx:
            await store_token(tx, f"rr-{'0' * 8}-{'0' * 40}", terms, 1.0)
        await rig.back_up(store)

    rig.run(story)
    run(rig.restore(tmp_path / "other"))

    assert rig.run(lambda store: recorded(store, "join_token"), tmp_path / "other") == []


def test_a_drive_that_is_not_mounted_gets_no_backup(rig: Rig, tmp_path: Path) -> None:
    """The folder below its mount point stays empty, and the backups on the drive are the newest still."""
    rig.run(rig.back_up)
    (tmp_path / "place").rename(tmp_path / "drive")
    (tmp_path / "place").mkdir()

    with pytest.raises(PlaceAway, match="mount its drive"):
        rig.run(rig.back_up)

    assert list((tmp_path / "place").iterdir()) == []
    (tmp_path / "place").rmdir()
    (tmp_path / "drive").rename(tmp_path / "place")
    rig.run(rig.back_up)
    assert len(list((tmp_path / "place" / "backups").iterdir())) == 2


def test_two_backups_at_once_are_refused(rig: Rig) -> None:
    """One would delete what the other counts on."""

    async def story(store: Store) -> None:
        with only_backup(rig.settings, "another"), pytest.raises(NotLeader):
            await rig.back_up(store)
        await rig.back_up(store)
        async with store.read() as view:
            [record] = await BACKUPS.all(view)
        assert (record.place, bool(record.backup)) == (rig.address, True)

    rig.run(story)


def test_a_source_that_is_away_is_no_fault_of_the_place(rig: Rig, tmp_path: Path) -> None:
    """Files on a disk that is not there are named as missing, and the backup is made."""

    async def story(store: Store) -> None:
        [away] = await rig.add(store, "b", MODEL)
        [here] = await rig.add(store, "a", GAMES)
        (rig.home / "blobs" / "b").rename(tmp_path / "unmounted")

        backup, _ = await rig.back_up(store)

        assert backup.missing == (away,)
        assert here in files_at(tmp_path / "place")

    rig.run(story)


def test_a_place_that_goes_away_leaves_no_backup(rig: Rig, tmp_path: Path) -> None:
    """The error is that of the place, and no note was written."""

    def vanish(*_: object) -> None:
        marker = tmp_path / "place" / "blobs" / "node"
        marker.unlink(missing_ok=True)

    async def story(store: Store) -> None:
        await rig.add(store, "a", GAMES)
        with pytest.raises(PlaceAway):
            await rig.back_up(store, on_progress=vanish)

    rig.run(story)
    assert not list((tmp_path / "place").glob("backups/*"))
    assert not list((rig.home / "coordination").glob("backup.tmp*"))


def test_a_place_without_backups_says_so(rig: Rig, tmp_path: Path) -> None:
    """Before anything is written."""
    with pytest.raises(InputError, match="no backup"):
        run(rig.restore(tmp_path / "other"))

    assert not (tmp_path / "other").exists()
