"""Rig: the blobs of one node in a world, the facts about them, and a sweep over them."""

from collections.abc import Sequence
from typing import Any

from ringrift.daemons.sweep import sweep
from ringrift.kernel.settings import Settings, SweepSettings
from ringrift.kernel.value import changed
from ringrift.pipeline.line import Line, Stage
from ringrift.sim.blobs import MemoryBlobs
from ringrift.store.ports import Origin
from unit.pipeline.story import VARIANT
from unit.work.world import World

DAY = 86_400.0
SWEEP = SweepSettings(retention_seconds=10 * DAY, grace_seconds=5 * DAY, newest_min=0)
OTHER = "square8_2p"
LINE = Line(variant=VARIANT, workload="fake", players=2)


def collecting(champion: str, **fields: Any) -> Line:
    """A line with a champion."""
    return changed(LINE, stage=Stage.COLLECTING, champion=champion, generation=1, **fields)


def made(name: str, kind: str, time: float, **fields: Any) -> Origin:
    """How the blob *name* was made."""
    return Origin(blob=name, node="here", kind=kind, variant=VARIANT, time=time, **fields)


class Shelf:
    """The blobs of one node in a world, all stored long ago."""

    def __init__(self, world: World) -> None:
        self.world, self.blobs = world, MemoryBlobs("here", world.clock.now)

    async def put(self, *names: str) -> list[str]:
        """Store a blob for each of *names* now, and list it in the ledger."""
        blobs = list(await self.blobs.put([name.encode() for name in names]))
        for name in blobs:
            await self.world.hold(name, "here")
        return blobs

    async def sweep(self, limits: SweepSettings = SWEEP, blobs: MemoryBlobs | None = None) -> set[str]:
        """What is left after one sweep."""
        parts = {"store": self.world.store, "envelopes": self.world.envelopes, "clock": self.world.clock}
        await sweep(blobs=blobs or self.blobs, settings=changed(Settings(), sweep=limits), **parts)
        return set(self.blobs.files)


async def write(world: World, *origins: Origin, links: Sequence[tuple[str, str]] = ()) -> None:
    """Write how blobs were made."""
    async with world.store.begin() as tx:
        await tx.put_origins(origins)
        await tx.link(links)
