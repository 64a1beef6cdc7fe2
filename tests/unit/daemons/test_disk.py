"""Before a disk is full, room is made in tiers; nothing goes that is needed, unless enough others provably hold it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ringrift.cluster import alerts
from ringrift.daemons.disk import _AGAIN_SECONDS, SPEC, disk
from ringrift.events.data import Removed
from ringrift.events.node import DiskPressureChanged
from ringrift.jobs import Export, Play, Sync
from ringrift.kernel.settings import Settings, SweepSettings
from ringrift.kernel.transfer_settings import Replicas, UpkeepSettings
from ringrift.kernel.value import changed
from ringrift.pipeline.line import Batch
from ringrift.store.ports import Origin
from ringrift.sync.receipts import Receipt, record
from ringrift.work.disk_pressure import judge_disk, shorten
from unit.daemons.disks import Disks
from unit.pipeline.blob_rig import DAY, SWEEP, collecting, write
from unit.pipeline.story import VARIANT
from unit.work.world import World, play

GB = 10**9
TIERS = UpkeepSettings(disk_low=0.2, disk_high=0.1, disk_critical=0.05)


@pytest.mark.parametrize(
    ("free", "before", "level"),
    [
        (20, "none", "none"),
        (19, "none", "low"),
        (9, "none", "high"),
        (4, "none", "critical"),
        (0, "none", "critical"),
        (23, "low", "low"),
        (24, "low", "none"),
        (11, "high", "high"),
        (12, "high", "low"),
        (5, "critical", "critical"),
        (7, "critical", "high"),
        (50, "critical", "none"),
        (11, "low", "low"),
    ],
)
def test_a_tier_begins_at_its_bound_and_ends_a_little_above_it(free: int, before: str, level: str) -> None:
    """A disk whose free space moves around a bound does not change its tier with every look."""
    assert judge_disk(free, 100, before, TIERS) == level


def test_times_are_cut_but_never_below_an_hour_nor_prolonged() -> None:
    """In the lowest tier they are as usual."""
    usual = SweepSettings(retention_seconds=40 * DAY, grace_seconds=7200.0, newest_min=100)

    assert shorten(usual, "low") == usual
    high, critical = shorten(usual, "high"), shorten(usual, "critical")

    assert (high.retention_seconds, high.grace_seconds, high.newest_min) == (10 * DAY, 3600.0, 25)
    assert (critical.retention_seconds, critical.grace_seconds, critical.newest_min) == (2 * DAY, 3600.0, 5)
    short = SweepSettings(retention_seconds=60.0, grace_seconds=60.0)
    assert shorten(short, "critical").retention_seconds == 60.0


class Rig:
    """Nodes with disks, and the daemon of the one that runs full."""

    def __init__(self, world: World, copies_min: int = 1) -> None:
        self.world, self.disks, self.copies_min = world, Disks(world), copies_min
        for node in ("here", "there", "third", "rented"):
            self.disks[node]._now = world.clock.now
        assert SPEC.memory is not None
        self.memory = SPEC.memory()
        self.here = self.disks["here"]

    async def present(self) -> None:
        """Let every node send heartbeats, as an observer sees them."""
        for _ in range(2):
            for node in ("here", "there", "third"):
                await self.world.beat(node)
            await self.world.beat("rented", ephemeral=True)
            await self.world.roster.present()

    async def look(self, free: float) -> str:
        """Look once, with *free* GB of 100 left."""
        await self.present()
        self.here.disk = (int(free * GB), 100 * GB)
        world = self.world
        return await disk(
            store=world.store,
            blobs=self.here,
            roster=world.roster,
            transfer=self.disks.transfer,
            envelopes=world.envelopes,
            clock=world.clock,
            settings=changed(Settings(), replicas=Replicas(copies_min=self.copies_min), sweep=SWEEP, upkeep=TIERS),
            memory=self.memory,
        )

    async def put(self, *names: str) -> list[str]:
        """Store files here, listed, of no known origin."""
        blobs = list(await self.here.put([name.encode() for name in names]))
        for blob in blobs:
            await self.world.hold(blob, "here")
        return blobs

    async def batch(
        self, name: str, copies: Sequence[str] = (), receipts: Sequence[str] = (), kind: str = "games"
    ) -> str:
        """Games that a line needs, made here; *copies* are on other nodes, of which *receipts* tell."""
        [blob] = await self.put(name)
        await self.world.keep(collecting("c" * 64, window=(Batch(blob=blob, games=3),)))
        await write(self.world, Origin(blob=blob, node="here", kind=kind, variant=VARIANT, time=self.world.clock.now()))
        for node in copies:
            self.disks[node].add(name.encode())
            await self.world.hold(blob, node)
        async with self.world.store.begin() as tx:
            for node in receipts:
                facts = {"source": "here", "transport": "folder", "size": 1, "seconds": 1.0, "time": 0.0}
                await record(tx, Receipt(blob=blob, node=node, **facts))
        self.world.clock.seconds += 60.0
        return blob


def test_a_change_of_tier_is_published_once_and_raises_an_alert(tmp_path: Path) -> None:
    """From high on people are told; when there is room again, the alert is closed."""

    async def story(world: World) -> None:
        rig = Rig(world)
        levels = [await rig.look(free) for free in (50, 15, 15, 8, 4, 4, 60)]

        events = [event for event in await world.events(DiskPressureChanged) if isinstance(event, DiskPressureChanged)]
        assert levels == ["none", "low", "low", "high", "critical", "critical", "none"]
        assert [(event.before, event.level) for event in events] == [
            ("none", "low"),
            ("low", "high"),
            ("high", "critical"),
            ("critical", "none"),
        ]
        changes = [alerts._RULES[DiskPressureChanged](event) for event in events]
        assert changes[0] == changes[3] == [("disk", "here")]
        assert [row.level for row in (*changes[1], *changes[2]) if isinstance(row, alerts.Alert)] == [
            "warning",
            "severe",
        ]

    play(tmp_path, story)


def test_a_low_disk_is_swept_at_once_and_again_after_a_while(tmp_path: Path) -> None:
    """With the usual times: what is young stays.  A look in between deletes nothing."""

    async def story(world: World) -> None:
        rig = Rig(world)
        [old] = await rig.put("old")
        world.clock.seconds += 6 * DAY
        [young] = await rig.put("young")

        await rig.look(50)
        assert set(rig.here.files) == {old, young}
        await rig.look(15)
        assert set(rig.here.files) == {young}
        world.clock.seconds += 6 * DAY - _AGAIN_SECONDS
        rig.memory.tick = world.clock.tick()
        await rig.look(15)
        assert set(rig.here.files) == {young}
        world.clock.seconds += _AGAIN_SECONDS
        await rig.look(15)
        assert set(rig.here.files) == set()

    play(tmp_path, story)


def test_a_fuller_disk_keeps_unneeded_files_for_a_shorter_time(tmp_path: Path) -> None:
    """A quarter of the usual time; what a line needs stays, however full the disk is."""

    async def story(world: World) -> None:
        rig = Rig(world)
        needed = await rig.batch("needed")
        [leftover] = await rig.put("leftover")
        world.clock.seconds += 1.3 * DAY  # of 5

        await rig.look(15)
        assert set(rig.here.files) == {needed, leftover}
        await rig.look(8)
        assert set(rig.here.files) == {needed}
        await rig.look(1)
        assert set(rig.here.files) == {needed}

    play(tmp_path, story)


def test_games_go_that_enough_others_provably_hold(tmp_path: Path) -> None:
    """The records say so before the file goes, the others stay holders, and the event names what went."""

    async def story(world: World) -> None:
        rig = Rig(world, copies_min=2)
        blob = await rig.batch("spare", copies=("there", "third"), receipts=("there", "third"))

        await rig.look(15)
        assert blob in rig.here.files, "a low disk deletes nothing that is needed"
        await rig.look(8)

        assert blob not in rig.here.files
        assert sorted(await world.holders(blob)) == ["there", "third"]
        assert await world.events(Removed) == [Removed(node="here", blobs=(blob,), count=1, bytes=5)]

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("copies", "receipts", "copies_min"),
    [
        (("there", "third"), ("there",), 2),  # one of them has only a row in the ledger
        (("there",), ("there",), 2),  # one copy is not enough
        (("there", "rented"), ("there", "rented"), 2),  # a rented machine may vanish
        ((), ("there",), 1),  # a receipt of a copy that is not there any more
        ((), (), 1),
    ],
)
def test_games_stay_that_too_few_others_provably_hold(
    tmp_path: Path, copies: Sequence[str], receipts: Sequence[str], copies_min: int
) -> None:
    """However full the disk is: a receipt, a durable node and its answer are needed for every copy that counts."""

    async def story(world: World) -> None:
        rig = Rig(world, copies_min)
        blob = await rig.batch("only", copies, receipts)

        await rig.look(1)

        assert blob in rig.here.files
        assert "here" in await world.holders(blob)

    play(tmp_path, story)


@pytest.mark.parametrize("trouble", ["away", "without it"])
def test_a_holder_is_asked_before_a_copy_goes(tmp_path: Path, trouble: str) -> None:
    """A receipt says that the copy was there once; the node itself says whether it is."""

    async def story(world: World) -> None:
        rig = Rig(world)
        blob = await rig.batch("asked", copies=("there",), receipts=("there",))
        rig.disks["there"].away = trouble == "away"
        if trouble == "without it":
            rig.disks["there"].files.clear()

        await rig.look(1)

        assert blob in rig.here.files

    play(tmp_path, story)


@pytest.mark.parametrize("reason", ["job", "kind"])
def test_what_is_worked_on_and_models_stay(tmp_path: Path, reason: str) -> None:
    """An open job may be about to read the games here; and whatever is no game stays."""

    async def story(world: World) -> None:
        rig = Rig(world)
        kind = "samples" if reason == "kind" else "games"
        blob = await rig.batch("busy", copies=("there",), receipts=("there",), kind=kind)
        if reason == "job":
            await world.desk().enqueue([Export(variant=VARIANT, batches=(blob,))])

        await rig.look(1)

        assert blob in rig.here.files

    play(tmp_path, story)


def test_a_node_with_a_full_disk_takes_only_jobs_that_move_files(tmp_path: Path) -> None:
    """Whatever else is ready stays for others, with the reason; when there is room, it takes jobs again."""

    async def story(world: World) -> None:
        rig, desk = Rig(world), world.desk()
        await desk.enqueue([Play(variant=VARIANT, model="m" * 64, games=1, seed=1)])
        await desk.enqueue([Sync(variant=VARIANT, blob="a" * 64, kind_of="games", source="there")])
        kinds = [Play.kind(), Sync.kind()]
        await rig.look(4)

        assert [lease.kind for lease in await desk.claim(kinds, 9)] == [Sync.kind()]
        await rig.look(50)
        assert [lease.kind for lease in await desk.claim(kinds, 9)] == [Play.kind()]

    play(tmp_path, story)
