"""A node that starts again has nothing to do with the leases of its earlier process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from contract.engines import Engine, renewal
from contract.test_breaker_cluster import SETTINGS, BrokenLaunch
from ringrift.blobs.ports import Blobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.node import Left
from ringrift.harness import Member, settings_of
from ringrift.jobs import Play
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import LeaseLost
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import WorkSettings
from ringrift.node import Node
from ringrift.sim.blobs import MemoryBlobs
from ringrift.store.ports import JobRow, Lease, Store
from ringrift.work.desk import Done, JobOutcome, StoreDesk

LEASE_SECONDS = 3600.0  # no observer ends such a lease within a test


async def claim_as(store: Store, node: str) -> tuple[StoreDesk, Lease]:
    """A lease of a process of *node*, which is gone, and the desk that a worker of it may still use."""
    clock = SystemClock()
    envelopes = EnvelopeFactory(node, clock, Ids(clock, Random(1)))
    desk = StoreDesk(store, clock, envelopes, WorkSettings(lease_seconds=LEASE_SECONDS))
    await desk.enqueue([Play(variant="hex8_2p", model="m", games=2)])
    [lease] = await desk.claim({"play"}, 1)
    return desk, lease


@asynccontextmanager
async def restarted(store: Store) -> AsyncIterator[None]:
    """The node n1 while it runs, without any of its work."""
    settings = SETTINGS.overlaid({"work.retry.tries": 4})
    own, blobs = settings_of(settings, Member(id="n1")), MemoryBlobs("n1")

    async def reach(name: str) -> Blobs:
        return blobs

    engines = {"store": store, "blobs": blobs, "reach": reach, "launch": BrokenLaunch(blobs)}
    async with Node.open(own, SystemClock(), Random(2), begin=("beat",), **engines):
        yield


async def job(store: Store) -> JobRow:
    """The only job."""
    async with store.read() as view:
        [row] = await view.jobs(("ready", "claimed", "done"), 9)
    return row


def test_the_leases_of_an_earlier_life_are_revoked_at_the_start(engine: Engine) -> None:
    """Its job is ready at once, and a worker that outlived the old process cannot hand in its result."""

    async def story(store: Store) -> None:
        earlier, old = await claim_as(store, "n1")
        async with restarted(store):
            row = await job(store)
            assert (row.state, row.attempts, row.error) == ("ready", 1, "node n1 started again")
            with pytest.raises(LeaseLost):
                await earlier.finish([Done(lease=renewal(old), outcome=JobOutcome(events=(Left(node="old"),)))])
            with pytest.raises(LeaseLost):
                await earlier.renew([renewal(old)])
            assert await job(store) == row

    engine.run(story)


def test_the_leases_of_other_nodes_stay(engine: Engine) -> None:
    """A node that starts says nothing about the work of others."""

    async def story(store: Store) -> None:
        other, lease = await claim_as(store, "n2")
        async with restarted(store):
            await other.finish([Done(lease=renewal(lease))])
            assert (await job(store)).state == "done"

    engine.run(story)
