"""Backups and the mirror by settings: made when due, tried again when their place is away, and alerts tell."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import apsw
import pytest

from contract.backup_rig import Rig
from contract.engines import ManualClock
from ringrift.blobs.folder import FolderBlobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.roster import NODES, Roster
from ringrift.daemons import backup as backup_daemon
from ringrift.daemons import mirror as mirror_daemon
from ringrift.events import catalog
from ringrift.events.alert import Cleared, Raised
from ringrift.events.cluster import BackedUp
from ringrift.kernel.errors import NodeAway, SettingsError
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import Settings
from ringrift.store.ports import Store
from ringrift.sync import ledger
from ringrift.sync.receipts import receipts_of
from ringrift.sync.transfer import Transfer

GAMES, MODEL = b"some games", b"a model" * 1000
DAY_SECONDS = 86_400.0


class Daemons:
    """The two daemons of a node, called one look at a time."""

    def __init__(self, rig: Rig, store: Store, tmp_path: Path, **changes: object) -> None:
        self.rig, self.store, self.clock = rig, store, ManualClock()
        own = {"backup.place": rig.address, "backup.mirror": str(tmp_path / "mirror"), **changes}
        self.settings = Settings().overlaid({"store.path": rig.settings.path, **own})
        self.ids = Ids(self.clock, Random(7))
        self.envelopes = EnvelopeFactory("a", self.clock, self.ids)
        roster = Roster(store, self.clock, 5.0)

        async def reach(node: str) -> FolderBlobs:
            addresses = {record.id: record.address for record in await roster.all_nodes()}
            if node not in addresses:
                raise NodeAway(node)
            return FolderBlobs(addresses[node], node)

        self.transfer = Transfer("a", store, rig.folder("a"), reach, self.envelopes, clock=rig.clock)
        self.memories = [backup_daemon.SPEC.memory(), mirror_daemon.SPEC.memory()]  # type: ignore[misc] # both have one

    async def look(self, *, restarted: bool = False) -> None:
        """Let each daemon look once."""
        if restarted:
            self.memories = [type(memory)() for memory in self.memories]
        parts = {"store": self.store, "settings": self.settings, "clock": self.clock, "envelopes": self.envelopes}
        own = {"blobs": self.rig.folder("a"), "transfer": self.transfer}
        await backup_daemon.backup(**parts, **own, rng=Random(7), memory=self.memories[0])
        await mirror_daemon.mirror(**parts, transfer=self.transfer, ids=self.ids, memory=self.memories[1])

    async def alerts(self, kind: str) -> list[bool]:
        """For each alert of *kind* that was published: whether it was raised."""
        async with self.store.read() as view:
            rows = await view.read(0, 1000, [Raised.name(), Cleared.name()])
        events = [catalog.decode(row.name, row.body) for row in rows]
        return [isinstance(e, Raised) for e in events if isinstance(e, Raised | Cleared) and e.kind == kind]

    async def listed(self) -> set[str]:
        """What the ledger lists for the mirror."""
        async with self.store.read() as view:
            return await ledger.held_by(view, "mirror")


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    """Run a story on daemons of a home."""

    def run(story: Callable[[Daemons], Awaitable[None]], **changes: object) -> None:
        rig = Rig(tmp_path / "home", str(tmp_path / "place"))
        rig.run(lambda store: story(Daemons(rig, store, tmp_path, **changes)))

    return run


def notes(tmp_path: Path) -> int:
    """How many backups there are."""
    return len(list(tmp_path.glob("place/backups/*.json")))


def test_without_settings_nothing_is_written(play: Callable[..., None], tmp_path: Path) -> None:
    """Neither a backup nor a mirror, and no event."""

    async def story(daemons: Daemons) -> None:
        await daemons.rig.add(daemons.store, "a", GAMES)
        await daemons.look()

        assert daemons.store.position == 0
        assert not (tmp_path / "place").exists()
        assert not (tmp_path / "mirror").exists()

    play(story, **{"backup.place": "", "backup.mirror": ""})


def test_a_backup_is_made_when_it_is_due(play: Callable[..., None], tmp_path: Path) -> None:
    """Once a day also if the node was started again; the newest stay."""

    async def story(daemons: Daemons) -> None:
        await daemons.rig.add(daemons.store, "a", GAMES)
        for seconds, restarted, count in (
            (0.0, False, 1),
            (DAY_SECONDS - 60, False, 1),
            (30.0, True, 1),
            (60.0, False, 2),
            (DAY_SECONDS + 1, False, 2),
        ):
            daemons.clock.seconds += seconds
            await daemons.look(restarted=restarted)
            assert notes(tmp_path) == count
        assert True not in await daemons.alerts("backup")
        async with daemons.store.read() as view:
            events = await view.last(None, 10, [BackedUp.name()])
        assert len(events) == 3

    play(story, **{"backup.keep": 2})


def test_a_place_that_is_away_is_tried_again(play: Callable[..., None], tmp_path: Path) -> None:
    """After a minute and then less often, with an alert until it succeeds."""

    async def story(daemons: Daemons) -> None:
        await daemons.look()
        (tmp_path / "place").rename(tmp_path / "drive")
        daemons.clock.seconds += DAY_SECONDS + 1
        await daemons.look()
        await daemons.look()
        assert await daemons.alerts("backup") == [False, True]
        daemons.clock.seconds += 120.0
        await daemons.look()
        assert await daemons.alerts("backup") == [False, True, True]

        (tmp_path / "drive").rename(tmp_path / "place")
        await daemons.look()
        assert notes(tmp_path) == 1, "not yet"
        daemons.clock.seconds += 300.0
        await daemons.look()

        assert notes(tmp_path) == 2
        assert await daemons.alerts("backup") == [False, True, True, False]

    play(story)


def test_a_backup_without_some_files_raises_an_alert(play: Callable[..., None]) -> None:
    """It is one all the same."""

    async def story(daemons: Daemons) -> None:
        [games] = await daemons.rig.add(daemons.store, "a", GAMES)
        daemons.rig.folder("a").folder.path(games).unlink()
        await daemons.look()

        assert await daemons.alerts("backup") == [True]

    play(story)


def test_the_mirror_has_every_file_with_a_receipt(play: Callable[..., None], tmp_path: Path) -> None:
    """Of all nodes; the next file comes with the next look, and nothing is sent twice."""

    async def story(daemons: Daemons) -> None:
        names = [
            *await daemons.rig.add(daemons.store, "a", GAMES),
            *await daemons.rig.add(daemons.store, "b", MODEL),
        ]
        await daemons.look()
        for name, data in zip(names, (GAMES, MODEL), strict=True):
            assert (tmp_path / "mirror" / name[:2] / name).read_bytes() == data
        async with daemons.store.read() as view:
            receipts = [row.node for name in names for row in await receipts_of(view, name)]
        assert receipts == ["mirror", "mirror"]
        [more] = await daemons.rig.add(daemons.store, "a", b"more")
        await daemons.look()

        assert await daemons.listed() == {*names, more}
        assert await daemons.alerts("mirror") == [False]

    play(story)


def test_a_file_that_is_lost_elsewhere_comes_from_the_mirror(play: Callable[..., None]) -> None:
    """A node fetches it as from any other holder."""

    async def story(daemons: Daemons) -> None:
        [games] = await daemons.rig.add(daemons.store, "a", GAMES)
        await daemons.look()
        daemons.rig.folder("a").folder.path(games).unlink()

        await daemons.transfer.fetch([games])

        assert daemons.rig.folder("a").folder.open(games).read_bytes() == GAMES

    play(story)


def test_damage_on_the_mirror_is_noticed_and_mended(play: Callable[..., None], tmp_path: Path) -> None:
    """Every file there is read and hashed from time to time; what is damaged is set aside and brought again."""

    async def story(daemons: Daemons) -> None:
        [games] = await daemons.rig.add(daemons.store, "a", GAMES)
        await daemons.look()
        path = tmp_path / "mirror" / games[:2] / games
        path.write_bytes(b"damaged!!!")
        daemons.clock.seconds += daemons.settings.sweep.every_seconds
        await daemons.look()

        assert path.read_bytes() == GAMES
        assert (tmp_path / "mirror" / "bad" / games).read_bytes() == b"damaged!!!"

    play(story)


def test_a_drive_that_is_away_keeps_its_files_in_the_ledger(play: Callable[..., None], tmp_path: Path) -> None:
    """Nothing is written below its mount point; when it is back, it gets what came meanwhile."""

    async def story(daemons: Daemons) -> None:
        [games] = await daemons.rig.add(daemons.store, "a", GAMES)
        await daemons.look()
        (tmp_path / "mirror").rename(tmp_path / "drive")
        (tmp_path / "mirror").mkdir()
        [model] = await daemons.rig.add(daemons.store, "a", MODEL)
        await daemons.look()
        await daemons.look()
        assert list((tmp_path / "mirror").iterdir()) == []
        assert await daemons.listed() == {games}
        assert await daemons.alerts("mirror") == [False, True]

        (tmp_path / "mirror").rmdir()
        (tmp_path / "drive").rename(tmp_path / "mirror")
        await daemons.look()
        assert await daemons.listed() == {games, model}
        assert await daemons.alerts("mirror") == [False, True, False]

    play(story)


def test_the_mirror_is_no_node(play: Callable[..., None]) -> None:
    """Nothing waits for it, and its name is its own."""

    async def story(daemons: Daemons) -> None:
        await daemons.rig.add(daemons.store, "a", GAMES)
        await daemons.look()
        roster = Roster(daemons.store, daemons.clock, 5.0)
        assert [node.id for node in await roster.present()] == ["a"]
        await daemons.rig.add(daemons.store, "mirror", MODEL)
        await daemons.look()
        assert await daemons.alerts("mirror") == [False, True]

    play(story)


def test_nothing_changed_costs_no_look_at_files(play: Callable[..., None], tmp_path: Path) -> None:
    """With the same digests of all nodes the list of files is not read."""

    async def story(daemons: Daemons) -> None:
        [games] = await daemons.rig.add(daemons.store, "a", GAMES)
        await daemons.look()
        db = apsw.Connection(daemons.rig.settings.path)
        db.execute("DELETE FROM records WHERE kind = 'holding' AND id = ?", (f"{games}@mirror",))
        db.close()
        async with daemons.store.read() as view:
            assert [node.id for node in await NODES.all(view)] == ["a", "mirror"]
        await daemons.look()

        assert await daemons.listed() == set(), "what no digest shows was not looked for"

    play(story)


def test_a_bucket_is_no_mirror() -> None:
    """The setting says what to do instead."""
    with pytest.raises(SettingsError, match=r"backup\.place"):
        Settings().overlaid({"backup.mirror": "s3://bucket/x"})
