"""What can happen to files beyond the copies of jobs: orphans, packs, backups, disks, links and urgent syncs."""

import os

from compat.embedded import embedded_on
from compat.scene import Scene
from ringrift.blobs.folder import FolderBlobs
from ringrift.daemons.adopt import adopt_left_over
from ringrift.daemons.consolidate import SPEC, consolidate
from ringrift.events.cluster import BackedUp
from ringrift.events.node import DiskPressureChanged
from ringrift.kernel.settings import Settings
from ringrift.kernel.transfer_settings import LinkSettings
from ringrift.work.link_breakers import LinkBreakers
from ringrift_compat.sync import sync_facade
from ringrift_compat.sync.sync_facade import SyncBackend, SyncRequest, SyncResponse
from unit.pipeline.blob_rig import made, write


async def _start(scene: Scene, is_listed: bool) -> None:
    """A node starts with a file in its folder."""
    world, blobs = scene.world, FolderBlobs(scene.folder / "here")
    [blob] = await blobs.put([b"games"])
    if is_listed:
        await world.hold(blob, world.envelopes.node)
    await scene.listen()
    await adopt_left_over(world.store, blobs, world.envelopes, world.clock)


async def orphans_are_adopted(scene: Scene) -> None:
    """A file that no record lists is found, and listed."""
    await _start(scene, is_listed=False)


async def every_file_is_listed(scene: Scene) -> None:
    """A node starts, and there is nothing to adopt."""
    await _start(scene, is_listed=True)


async def _pack(scene: Scene, count: int) -> None:
    world, blobs, settings = scene.world, FolderBlobs(scene.folder / "here"), Settings()
    world.clock.seconds += 1e9  # ahead of the machine's clock
    names = await blobs.put([b"games %d" % number for number in range(count)])
    for name in names:
        os.utime(blobs.folder.path(name), (1.0, 1.0))
    await write(world, *(made(name, "games", 1.0) for name in names))
    await scene.listen()
    assert SPEC.memory is not None
    parts = {"store": world.store, "blobs": blobs, "envelopes": world.envelopes, "clock": world.clock}
    await consolidate(**parts, settings=settings, memory=SPEC.memory())  # type: ignore[arg-type]  # parts of many types


async def small_games_are_packed(scene: Scene) -> None:
    """Enough small files have rested long enough."""
    await _pack(scene, Settings().upkeep.pack_files_min)


async def too_few_games_for_a_pack(scene: Scene) -> None:
    """They stay as they are."""
    await _pack(scene, 1)


async def a_backup_is_made(scene: Scene) -> None:
    """In a folder."""
    await scene.listen()
    await scene.publish(BackedUp(place="/mnt/backups", backup="b1", files=3))


async def a_backup_is_made_in_a_bucket(scene: Scene) -> None:
    """On S3."""
    await scene.listen()
    await scene.publish(BackedUp(place="s3://backups", backup="b1", files=3))


async def a_disk_fills_up(scene: Scene) -> None:
    """Its tier begins."""
    await scene.listen()
    await scene.publish(DiskPressureChanged(node="n1", level="low", before="none", free_bytes=1, total_bytes=10))


async def a_disk_has_room_again(scene: Scene) -> None:
    """Its tier ends."""
    await scene.listen()
    await scene.publish(DiskPressureChanged(node="n1", level="none", before="low", free_bytes=9, total_bytes=10))


async def a_node_cannot_be_reached(scene: Scene) -> None:
    """A transport fails to reach it several times in a row."""
    world, links = scene.world, LinkSettings()
    breakers = LinkBreakers(world.store, world.envelopes, world.clock, links)
    await scene.listen()
    for _ in range(links.failures_max):
        await breakers.report("far", "ssh", "refused")


async def _sync(scene: Scene, response: SyncResponse) -> None:
    """A program has asked for an urgent sync, and it ends with *response*."""
    response.details["reason"] = "recovery"
    async with embedded_on(scene.world.store, scene.world.clock, "n1") as program:
        await scene.listen()
        await sync_facade._report(program, SyncRequest("games", source_node="n2"), response)
        await scene.end_listening()


async def an_urgent_sync_ends_well(scene: Scene) -> None:
    """Every node has the files."""
    await _sync(scene, SyncResponse(True, SyncBackend.CLUSTER_SYNC, 2))


async def an_urgent_sync_fails(scene: Scene) -> None:
    """No node could be reached."""
    await _sync(scene, SyncResponse(False, SyncBackend.CLUSTER_SYNC, errors=["no other node can be reached"]))
