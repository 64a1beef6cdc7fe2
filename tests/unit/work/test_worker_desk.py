"""The desk of a worker keeps its word over a wire that loses answers: nothing is claimed for nobody, or ended twice."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import msgspec
import pytest

from ringrift.cluster.facts import NodeFacts
from ringrift.cluster.keys import WORKER, StoredKey, store_keys
from ringrift.cluster.remote_roster import Beat, BeatAnswer
from ringrift.cluster.roster import NodeRecord
from ringrift.jobs import Train
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import LeaseLost, NodeAway
from ringrift.kernel.settings import Settings, WorkSettings
from ringrift.node import Node
from ringrift.sim.blobs import MemoryBlobs
from ringrift.store.ports import JobRow, Lease, Renewal
from ringrift.sync.blob_messages import WriteBlob
from ringrift.sync.remote_blobs import BlobCache
from ringrift.threads import beside
from ringrift.work.checkpoints import Checkpoint, decode_checkpoints
from ringrift.work.desk import Done, Fault
from ringrift.work.result_sender import ResultSender
from ringrift.work.run_states import RunState, RunStates
from ringrift.work.spool import Spool
from ringrift.work.worker_connection import WorkerConnection
from ringrift.work.worker_desk import RemoteDesk, RemoteOutcome, WorkNote
from ringrift.workload.api import Artifact, JobResult
from unit.worker_rig import ADDRESS, COMMON, OWN, DirectWire, key_of
from wait import wait_until

KINDS = ("train",)
JOBS = [Train(variant=f"hex8_{number}p", generation=0) for number in (2, 3, 4)]


@dataclass
class World:
    """A coordinator whose daemons rest, and the desk of a worker."""

    node: Node
    wire: DirectWire
    desk: RemoteDesk
    sender: ResultSender
    spool: Spool
    blobs: MemoryBlobs

    async def row(self, lease: Lease) -> JobRow:
        """The job of *lease* as it is stored."""
        async with self.node.store.read() as view:
            [row] = [row for row in await view.jobs(("ready", "claimed", "done"), 100) if row.id == lease.job]
        return row

    def done(self, lease: Lease) -> Done:
        """A result of *lease*."""
        output = Artifact("model", self.blobs.add(lease.job.encode()), len(lease.job), {"generation": 0})
        job = next(job for job in JOBS if job.variant == lease.variant)
        outcome = RemoteOutcome(job=job, result=JobResult((output,)))
        return Done(lease=Renewal(job=lease.job, fence=lease.fence), outcome=outcome)


def run(tmp_path: Path, story: Callable[[World], Awaitable[None]]) -> None:
    """Run *story* in a world with three jobs."""

    async def main() -> None:
        wire, rng = DirectWire(), Random(1)
        settings = Settings.local(tmp_path / "c1", node="c1").overlaid({**COMMON, **OWN})
        async with Node.open(settings, SystemClock(), rng, wire=wire, begin=("wire",)) as node:
            await node.desk.enqueue(JOBS)
            key = StoredKey(node="w1", public=key_of("w1").public, scopes=WORKER, profile="full")
            async with node.store.begin() as tx:
                await store_keys(tx, [key])
            connection = WorkerConnection(SystemClock(), wire, [ADDRESS], key_of("w1"), rng, boot="b1")
            record = NodeRecord(id="w1", profile="full", address="", beat=1, boot="b1", facts=NodeFacts(python="3"))
            await connection.call("beat", Beat(record=record), BeatAnswer)
            blobs, spool = MemoryBlobs("w1"), Spool(tmp_path / "spool", 1 << 20)
            await spool.open()
            cache = BlobCache(connection, blobs, SystemClock())
            sender = ResultSender(connection, spool, cache.upload, rng)
            desk = RemoteDesk(connection, spool, sender, cache.upload, "b1", WorkSettings(lease_seconds=3.0), rng)
            async with beside(sender.run(lambda: None)):
                await story(World(node, wire, desk, sender, spool, blobs))
            await desk.close()

    asyncio.run(main())


def test_a_claim_whose_answer_is_lost_leaves_nothing_leased(tmp_path: Path) -> None:
    """Jobs that were leased to this node and that it never heard of are given back before it claims again."""

    async def story(world: World) -> None:
        [first] = await world.desk.claim(KINDS, 1)
        world.wire.loses_all = {"claim"}
        with pytest.raises(NodeAway):
            await world.desk.claim(KINDS, 2)
        world.wire.loses_all = set()
        leases = await world.desk.claim(KINDS, 2)
        assert len(leases) == 2
        assert [lease.attempts for lease in leases] == [1, 1]  # nobody has tried them
        assert (await world.row(first)).fence == first.fence  # and what it works on is its own

    run(tmp_path, story)


def test_a_result_on_its_way_is_not_lost_by_a_renewal(tmp_path: Path) -> None:
    """The result is stored, the answer still travels: that its lease has ended is no loss; any other lost lease is."""

    async def story(world: World) -> None:
        first, second = await world.desk.claim(KINDS, 2)
        world.wire.loses_all = {"finish"}
        async with beside(world.desk.finish([world.done(first)])) as finishing:
            await wait_until(lambda: world.wire.lost_replies["finish"] > 0)
            await world.desk.renew([Renewal(job=first.job, fence=first.fence)])
            async with world.node.store.begin() as tx:
                rows = await tx.jobs(("claimed",), 10, holder="w1")
                await world.node.desk.revoke(tx, rows, "taken away")
            with pytest.raises(LeaseLost, match=second.job):
                await world.desk.renew([Renewal(job=row.job, fence=row.fence) for row in (first, second)])
            world.wire.loses_all = set()
            await finishing
        assert (await world.row(first)).state == "done"
        assert not world.spool.results

    run(tmp_path, story)


def test_a_checkpoint_is_registered_once_the_coordinator_has_it(tmp_path: Path) -> None:
    """It names the coordinator as its holder; while it cannot be uploaded the lease is renewed without it."""

    async def story(world: World) -> None:
        [lease] = await world.desk.claim(KINDS, 1)
        blob = world.blobs.add(b"weights")
        outputs = msgspec.json.encode([Checkpoint(blob=blob, node="w1")])
        renewal = Renewal(job=lease.job, fence=lease.fence, progress=0.5, outputs=outputs)
        world.wire.loses_all = {"blob.write"}
        await world.desk.renew([renewal])
        assert (await world.row(lease)).progress == 0.5
        world.wire.loses_all = set()

        async def is_registered() -> bool:
            await world.desk.renew([renewal])
            await world.desk.fail([Fault(lease=lease, error="lost power", started=False)])
            [again] = await world.desk.claim(KINDS, 1)
            rows = decode_checkpoints(again.outputs)
            return [(row.blob, row.node) for row in rows] == [(blob, "c1")]

        await wait_until(lambda: blob in world.desk._uploaded)
        assert await is_registered()
        assert await world.node.blobs.have([blob])

    run(tmp_path, story)


def test_a_lease_is_renewed_without_a_checkpoint_that_is_not_there(tmp_path: Path) -> None:
    """While its upload takes longer than a moment the renewal goes without it."""

    async def story(world: World) -> None:
        [lease] = await world.desk.claim(KINDS, 1)
        outputs = msgspec.json.encode([Checkpoint(blob=world.blobs.add(b"weights"), node="w1")])
        renewal = Renewal(job=lease.job, fence=lease.fence, progress=0.5, outputs=outputs)
        world.wire.loses_all = {"blob.write"}
        assert (await world.desk._with_checkpoint(renewal)).outputs is None

    run(tmp_path, story)


def test_the_oldest_result_is_sent_first(tmp_path: Path) -> None:
    """Whoever waited longest is nearest to the end of its lease."""

    async def story(world: World) -> None:
        leases = await world.desk.claim(KINDS, 3)
        world.wire.is_cut = True
        expected = [(await world.desk._put(world.done(lease))).blobs[0] for lease in leases]
        world.wire.is_cut = False
        world.sender.wake()
        await wait_until(lambda: not world.spool.results, 10.0)
        files = [msgspec.msgpack.decode(body, type=WriteBlob).blob for body in world.wire.bodies["blob.write"]]
        assert files == expected

    run(tmp_path, story)


def test_a_job_whose_result_is_in_the_spool_does_not_fail(tmp_path: Path) -> None:
    """A node that stops before the answer comes gives nothing back that it still delivers."""

    async def story(world: World) -> None:
        [lease] = await world.desk.claim(KINDS, 1)
        world.wire.loses_all = {"finish", "blob.write"}
        async with beside(world.desk.finish([world.done(lease)])):
            await wait_until(lambda: bool(world.spool.results))
        assert await world.desk.fail([Fault(lease=lease, error="stopping", started=False)]) == {}
        assert lease.job not in await world.desk.revoke_own("stopping", started=False)
        assert (await world.row(lease)).holder == "w1"
        world.wire.loses_all = set()
        await wait_until(lambda: not world.spool.results, 10.0)
        assert (await world.row(lease)).state == "done"

    run(tmp_path, story)


def test_a_runner_that_waits_is_woken_when_a_result_begins_to_travel_and_when_it_has_arrived(tmp_path: Path) -> None:
    """First a slot is free, then there is room for another result; so it is with a failure."""

    async def story(world: World) -> None:
        first, second = await world.desk.claim(KINDS, 2)
        world.wire.loses_all = {"finish"}
        async with asyncio.timeout(20.0), beside(world.desk.finish([world.done(first)])) as finishing:
            await world.desk.wait(600.0)
            async with beside(world.desk.wait(600.0)) as waiting:
                await wait_until(lambda: world.wire.lost_replies["finish"] > 0)
                assert not waiting.done()
                world.wire.loses_all = set()
                await finishing
                await waiting
            await world.desk.fail([Fault(lease=second, error="e")])
            await world.desk.wait(600.0)

    run(tmp_path, story)


def test_what_an_earlier_process_held_is_given_back_before_the_first_claim(tmp_path: Path) -> None:
    """All of it but what the spool still has to deliver."""

    async def story(world: World) -> None:
        leases = await world.desk.claim(KINDS, 3)
        await world.desk._put(world.done(leases[0]))
        again = RemoteDesk(
            world.desk._connection, world.spool, world.sender, world.desk._upload, "b2", WorkSettings(), Random(2)
        )
        await again.claim(KINDS, 3)  # a try of each was used up, so they wait a moment
        assert [(await world.row(lease)).state for lease in leases] == ["claimed", "ready", "ready"]

    run(tmp_path, story)


def test_nothing_is_claimed_while_the_spool_is_full(tmp_path: Path) -> None:
    """A worker whose results are not accepted takes no more work from others."""

    async def story(world: World) -> None:
        [lease] = await world.desk.claim(KINDS, 1)
        world.wire.loses_all = {"blob.write"}
        world.spool._bytes_max = 1
        await world.desk._put(world.done(lease))
        assert await world.desk.claim(KINDS, 2) == ()
        world.wire.loses_all = set()
        world.sender.wake()
        await wait_until(lambda: not world.spool.results, 10.0)
        assert len(await world.desk.claim(KINDS, 2)) == 2

    run(tmp_path, story)


def test_run_states_come_with_notes(tmp_path: Path) -> None:
    """No request is made for them: the runner asks twice a second."""

    async def story(world: World) -> None:
        calls = sum(world.wire.calls.values())
        states = RunStates(by_scope={"cluster": RunState(scope="cluster", state="emergency")})
        world.desk.update(WorkNote(run_states=states))
        world.desk.update(WorkNote(ready=True))
        assert await world.desk.run_states() == states
        await world.desk.wait(60.0)  # there may be jobs
        assert sum(world.wire.calls.values()) == calls

    run(tmp_path, story)
