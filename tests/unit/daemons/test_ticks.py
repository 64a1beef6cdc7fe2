"""Daemons that tick, called as the plain functions that they are."""

from pathlib import Path
from random import Random

import msgspec
import pytest

from ringrift.blobs.folder import FolderBlobs
from ringrift.cluster.activity import ActivityTracker
from ringrift.cluster.facts import FactsMeter
from ringrift.cluster.leadership import Roles
from ringrift.cluster.roster import NodeRecord
from ringrift.daemons.beat import _ClockWatch, beat
from ringrift.daemons.elect import elect
from ringrift.daemons.sweep import sweep
from ringrift.events.data import Corrupted
from ringrift.events.node import Left
from ringrift.events.work import Enqueued
from ringrift.jobs import STAGE, Sync
from ringrift.kernel.settings import Settings, StoreSettings
from ringrift.kernel.value import changed
from ringrift.pipeline.line import Stage
from unit.daemons.disks import Disks
from unit.pipeline.story import VARIANT, at
from unit.supervision.watched import supervisor
from unit.work.world import World, play


def test_a_beat_shows_that_the_node_lives(tmp_path: Path) -> None:
    """Each beat writes the node's record with another number."""

    async def story(world: World) -> None:
        facts = FactsMeter("", {}, None)
        record = NodeRecord(id="here", profile="full", address="/blobs", beat=0, ephemeral=True, facts=facts.facts)
        beats = []
        for _ in range(3):
            world.clock.seconds += 5.0
            await beat(
                roster=world.roster,
                record=record,
                clock=world.clock,
                activity=ActivityTracker("here"),
                supervisor=supervisor(world),
                router=world.router,
                facts=facts,
                memory=_ClockWatch(),
            )
            [actual] = await world.roster.all_nodes()
            beats.append(actual.beat)

        assert len(set(beats)) == 3
        assert msgspec.structs.replace(actual, beat=0, wall=0.0) == record

    play(tmp_path, story)


def test_an_election_acquires_free_roles(tmp_path: Path) -> None:
    """One tick of the daemon is one election of the node's roles."""

    async def story(world: World) -> None:
        roles = Roles("here", world.store, world.clock, ("fill",), 15.0, envelopes=world.envelopes)

        await elect(roles=roles)

        assert roles.holds("fill")

    play(tmp_path, story)


async def replicated(world: World, roles: Roles) -> list[Sync]:
    """Return the enqueued copies after one more tick of the daemon."""
    await Disks(world).replicate(roles)
    return [msgspec.json.decode(row.body, type=Sync) for row in await world.jobs("ready")]


def test_missing_copies_are_enqueued(tmp_path: Path) -> None:
    """A champion with one copy gets a Sync from its holder; while that is alive, another tick enqueues the same one."""

    async def story(world: World) -> None:
        line = at(Stage.COLLECTING, rounds=0).line
        assert line.champion is not None
        await world.keep(line)
        for node in ("a", "b"):
            await world.beat(node)
        await world.hold(line.champion, "a")

        roles = await world.roles()

        expected = [Sync(variant=VARIANT, blob=line.champion, kind_of="model", source="a", repair=True, priority=STAGE)]
        assert await replicated(world, roles) == expected
        assert await replicated(world, roles) == expected

    play(tmp_path, story)


def test_samples_are_copied_too(tmp_path: Path) -> None:
    """The samples that a line trains on get a second copy like its models."""

    async def story(world: World) -> None:
        line = at(Stage.TRAINING).line
        assert line.samples is not None
        await world.keep(line)
        for node in ("a", "b"):
            await world.beat(node)
        await world.hold(line.samples, "a")

        copies = await replicated(world, await world.roles())

        assert [(sync.blob, sync.kind_of, sync.source) for sync in copies] == [(line.samples, "samples", "a")]

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("holders", "present"), [(("a", "b"), ("a", "b", "c")), ((), ("a", "b")), (("a",), ("a",))], ids=str
)
def test_enough_copies_enqueue_nothing(tmp_path: Path, holders: tuple[str, ...], present: tuple[str, ...]) -> None:
    """Enough copies, no copy at all, or no second node for one: nothing is enqueued."""

    async def story(world: World) -> None:
        line = at(Stage.COLLECTING, rounds=0).line
        assert line.champion is not None
        await world.keep(line)
        for node in present:
            await world.beat(node)
        await world.hold(line.champion, *holders)

        assert await replicated(world, await world.roles()) == []

    play(tmp_path, story)


def test_a_copy_on_a_silent_node_does_not_count(tmp_path: Path) -> None:
    """When a machine is gone for good, its blobs are copied again from the remaining holders."""

    async def story(world: World) -> None:
        line = at(Stage.COLLECTING, rounds=0).line
        assert line.champion is not None
        await world.keep(line)
        for node in ("a", "b", "c"):
            await world.beat(node)
        await world.hold(line.champion, "a", "b")
        roles = await world.roles()
        assert await replicated(world, roles) == []
        world.clock.seconds += 100.0
        for node in ("b", "c"):
            await world.beat(node)

        expected = await replicated(world, roles)

        assert [(sync.blob, sync.source) for sync in expected] == [(line.champion, "b")]

    play(tmp_path, story)


async def swept(world: World, blobs: FolderBlobs, settings: StoreSettings) -> None:
    """Sweep once on the node of *world*."""
    parts = {"store": world.store, "blobs": blobs, "envelopes": world.envelopes, "clock": world.clock}
    await sweep(settings=changed(Settings(), store=settings), **parts)


def test_a_sweep_drops_old_events_and_corrupt_files(tmp_path: Path) -> None:
    """The log keeps its last events; a file that does not hash to its name is set aside, removed from the ledger and
    published."""

    async def story(world: World) -> None:
        blobs = FolderBlobs(tmp_path / "blobs")
        good, bad = await blobs.put([b"good", b"bad"])
        for blob in (good, bad):
            await world.hold(blob, "here", "far")
        blobs.folder.path(bad).write_bytes(Random(7).randbytes(3))
        await world.router.publish_many([Left(node=str(number)) for number in range(150)])
        settings = StoreSettings(log_events_max=100)

        await swept(world, blobs, settings)

        assert [event.node for event in await world.events(Left)] == [str(number) for number in range(50, 150)]
        assert await world.events(Corrupted) == [Corrupted(blob=bad, node="here")]
        assert [stored.blob for stored in await blobs.page("", 9)] == [good]
        assert await world.holders(good) == ["far", "here"]
        assert await world.holders(bad) == ["far"]

    play(tmp_path, story)


def test_a_sweep_drops_details_first(tmp_path: Path) -> None:
    """Detail events have a shorter retention than the others, and the last ones of them stay too."""

    async def story(world: World) -> None:
        enqueued = [Enqueued(variant=VARIANT, kind="play", jobs=(str(number),)) for number in range(150)]
        await world.router.publish_many([event for detail in enqueued for event in (detail, Left(node=detail.jobs[0]))])
        settings = StoreSettings(log_events_max=250, detail_events_max=100)

        await swept(world, FolderBlobs(tmp_path / "blobs"), settings)

        assert [event.jobs for event in await world.events(Enqueued)] == [(str(number),) for number in range(100, 150)]
        assert [event.node for event in await world.events(Left)] == [str(number) for number in range(25, 150)]

    play(tmp_path, story)


def test_a_sweep_spares_unread_events(tmp_path: Path) -> None:
    """However old, an event stays until every durable reader has consumed it."""

    async def story(world: World) -> None:
        await world.router.publish_many([Left(node=str(number)) for number in range(150)])
        async with world.store.begin() as tx:
            await tx.register_reader("slow", 10)

        await swept(world, FolderBlobs(tmp_path / "blobs"), StoreSettings(log_events_max=100))

        assert len(await world.events()) == 140

    play(tmp_path, story)
