"""A worker without a store does the jobs of a coordinator, and loses no result when it is cut off or ends."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ringrift.cluster.keys import revoke_key
from ringrift.cluster.roster import NODES
from ringrift.events.evaluation import BlocksPlayed
from ringrift.events.node import Joined, Left
from ringrift.events.selfplay import BatchFinished
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import NodeAway
from ringrift.kernel.wire_errors import KeyRefused
from ringrift.node import Node
from ringrift.sim.blobs import MemoryBlobs
from ringrift.store.ports import Reads
from ringrift.work.run_states import set_run_state
from ringrift.work.spool import Spool
from ringrift.worker import Worker
from unit.worker_rig import ADDRESS, DirectWire, coordinator, log, worker
from wait import wait_until

SECONDS = 15.0


async def batches(node: Node, of: str = "") -> list[BatchFinished]:
    """The batches that the log counts, of one node or of all."""
    events = [event for event in await log(node.store, BatchFinished) if isinstance(event, BatchFinished)]
    return [event for event in events if of in ("", event.node)]


async def island_keys(view: Reads) -> set[str]:
    """The keys of the batches that came in without a lease."""
    return {row.key for row in await view.jobs(("done",), 1000) if row.key.startswith("island:")}


def running(own: Worker) -> list[str]:
    """The kinds of the jobs that its workers run."""
    return [job.lease.kind for job in own.runner._jobs.values() if job.phase == "running"]


def is_idle(own: Worker) -> bool:
    """Whether it does nothing but wait for results to be acknowledged."""
    return all(job.phase == "delivering" for job in own.runner._jobs.values())


def test_a_worker_closes_the_loop_without_a_store(tmp_path: Path) -> None:
    """It plays, exports, trains and evaluates until a candidate is measured; it joins, leaves, and has no database."""

    async def story() -> None:
        wire = DirectWire()
        async with coordinator(tmp_path, wire, "w1") as node:
            async with worker(tmp_path, wire) as own:

                async def is_judged() -> bool:
                    return len(await log(node.store, BlocksPlayed)) >= 3

                await wait_until(is_judged, SECONDS)
                joined = [event.node for event in await log(node.store, Joined) if isinstance(event, Joined)]
                assert joined.count("w1") == 1
            async with node.store.read() as view:
                record = await NODES.get(view, "w1")
            assert record is not None
            assert record.gone
            assert record.address == ""
            assert [event.node for event in await log(node.store, Left) if isinstance(event, Left)] == ["w1"]
            assert not own.spool.results
            counts = Counter(event.batch for event in await batches(node))
            assert set(counts.values()) == {1}
        assert not [path for path in (tmp_path / "w1").rglob("*") if ".db" in path.name]

    asyncio.run(story())


def test_a_batch_that_is_acknowledged_is_with_the_coordinator(tmp_path: Path) -> None:
    """When the log says that a batch is there, its file is on the coordinator's disk: its maker may vanish."""

    async def story() -> None:
        wire = DirectWire()
        async with coordinator(tmp_path, wire, "w1") as node, worker(tmp_path, wire, **{"node.ephemeral": True}):

            async def has_played() -> bool:
                return len(await batches(node)) >= 3

            await wait_until(has_played, SECONDS)
            wire.is_cut = True  # 0 ms after the acknowledgement
            names = {event.batch for event in await batches(node)}
            assert await node.blobs.have(names) == names
            assert not await node.blobs.verify(names)

    asyncio.run(story())


def test_a_lost_reply_counts_once(tmp_path: Path) -> None:
    """Half of all replies get lost: the same request is sent again, and each batch is counted once."""

    async def story() -> None:
        wire = DirectWire()
        async with coordinator(tmp_path, wire, "w1") as node, worker(tmp_path, wire):
            wire.loses = {"claim", "finish", "blob.write", "renew", "fail", "give_back"}

            async def has_played() -> bool:
                return len(await batches(node)) >= 6 and wire.lost_replies["finish"] >= 6

            await wait_until(has_played, SECONDS)
            wire.loses.clear()
            counts = Counter(event.batch for event in await batches(node))
            assert set(counts.values()) == {1}
            async with node.store.read() as view:
                assert not await island_keys(view)  # none was taken for an island's

    asyncio.run(story())


def test_a_reply_that_is_lost_with_the_coordinator_counts_once(tmp_path: Path) -> None:
    """The coordinator ends after it has stored a result and before its answer arrives; its successor knows it."""

    async def story() -> None:
        wire = DirectWire()
        async with AsyncExitStack() as first, AsyncExitStack() as stack:
            node = await first.enter_async_context(coordinator(tmp_path, wire, "w1"))
            own = await stack.enter_async_context(worker(tmp_path, wire))

            async def has_played() -> bool:
                return len(await batches(node)) >= 1

            await wait_until(has_played, SECONDS)
            wire.loses = {"finish"}
            await wait_until(lambda: wire.lost_replies["finish"] > 0, SECONDS)
            wire.is_cut = True  # the one that was lost last stays lost
            await first.aclose()
            node = await first.enter_async_context(coordinator(tmp_path, wire, "w1"))
            wire.loses.clear()
            wire.is_cut = False

            async def is_delivered() -> bool:
                return not own.spool.results and len(await batches(node)) >= 3

            await wait_until(is_delivered, SECONDS)
            counts = Counter(event.batch for event in await batches(node))
            assert set(counts.values()) == {1}

    asyncio.run(story())


def test_a_result_waits_while_the_coordinator_is_away_and_survives_a_restart(tmp_path: Path) -> None:
    """Cut off, the worker finishes what it holds and ends; the next process of this node delivers it as the job's."""

    async def story() -> None:
        wire = DirectWire()
        blobs = MemoryBlobs("w1")
        async with coordinator(tmp_path, wire, "w1", **{"work.lease_seconds": 60.0}) as node:
            async with worker(tmp_path, wire, blobs=blobs, seconds=1.0) as own:
                await wait_until(lambda: "play" in running(own), SECONDS)
                wire.is_cut = True
                await wait_until(lambda: bool(own.spool.results), SECONDS)
                before = len(await batches(node))
            spool = Spool(tmp_path / "w1" / "blobs" / "spool", 1 << 20)
            await spool.open()
            waiting = [row.lease.job for row in spool.results if row.lease is not None]
            assert waiting
            wire.is_cut = False
            async with worker(tmp_path, wire, blobs=blobs) as own:

                async def is_delivered() -> bool:
                    return not own.spool.results and len(await batches(node)) > before

                await wait_until(is_delivered, SECONDS)
                async with node.store.read() as view:
                    assert not await island_keys(view)  # its lease was still its own
                    done = {row.id for row in await view.jobs(("done",), 1000)}
                assert set(waiting) <= done

    asyncio.run(story())


def test_a_worker_knows_several_addresses_and_fails_over(tmp_path: Path) -> None:
    """Nobody is at the first; when the coordinator returns at another one, the worker finds it there."""

    async def story() -> None:
        wire = DirectWire()
        addresses = ("http://192.0.2.1:8770", "http://192.0.2.2:8770", ADDRESS)
        opened = worker(tmp_path, wire, **{"node.coordinators": addresses})
        async with coordinator(tmp_path, wire, "w1") as node, opened as own:

            async def has_played() -> bool:
                return len(await batches(node)) >= 1

            await wait_until(has_played, SECONDS)
            assert own.connection.address == ADDRESS
            wire.services[addresses[0]] = wire.services.pop(ADDRESS)
            before = wire.calls["finish"]
            await wait_until(lambda: wire.calls["finish"] > before + 2, SECONDS)
            assert own.connection.address == addresses[0]
            wire.services[ADDRESS] = wire.services[addresses[0]]

    asyncio.run(story())


def test_a_revoked_key_ends_the_worker(tmp_path: Path) -> None:
    """Its next request is refused, and whoever runs the worker learns why."""

    async def story() -> None:
        wire = DirectWire()
        async with coordinator(tmp_path, wire, "w1") as node, worker(tmp_path, wire) as own:
            await wait_until(lambda: wire.calls["beat"] >= 2, SECONDS)
            async with node.store.begin() as tx:
                await revoke_key(tx, "w1", "it was stolen")
            await wait_until(own.ended.done, SECONDS)
            with pytest.raises(KeyRefused, match="revoked"):
                own.ended.result()

    asyncio.run(story())


def test_a_result_behind_its_fence_comes_in_as_an_island_batch(tmp_path: Path) -> None:
    """Its lease expires while it is cut off: the games are counted under their own key, and the job is not done."""

    async def story() -> None:
        wire, short = DirectWire(), {"work.lease_seconds": 1.0}
        world = coordinator(tmp_path, wire, "w1", **short)
        async with world as node, worker(tmp_path, wire, seconds=1.0, **short) as own:
            await wait_until(lambda: "play" in running(own), SECONDS)
            wire.is_cut = True
            await wait_until(lambda: any(row.kind == "play" for row in own.spool.results), SECONDS)
            [row] = [row for row in own.spool.results if row.kind == "play"][:1]
            assert row.lease is not None
            job = row.lease.job
            async with node.store.begin() as tx:
                await set_run_state(tx, node.envelopes, now=node.clock.now(), scope="cluster", state="paused")

            async def has_expired() -> bool:
                async with node.store.read() as view:
                    return job in {row.id for row in await view.jobs(("ready",), 100)}

            await wait_until(has_expired, SECONDS)
            wire.is_cut = False
            await wait_until(lambda: not own.spool.results, SECONDS)
            assert await has_expired()  # it is still to be done
            async with node.store.read() as view:
                assert f"island:w1:{row.key}" in await island_keys(view)
            assert [event.node for event in await batches(node) if event.batch in row.blobs] == ["w1"]

    asyncio.run(story())


def test_a_job_that_passed_to_another_worker_counts_once(tmp_path: Path) -> None:
    """Both make the same file of it: what the second to deliver brings is there already."""

    async def story() -> None:
        wire, other, short = DirectWire(), DirectWire(), {"work.lease_seconds": 1.0}
        async with coordinator(tmp_path, wire, "w1", "w2", **short) as node:
            other.services = wire.services
            async with worker(tmp_path, wire, seconds=1.0, **short) as own:
                await wait_until(lambda: "play" in running(own), SECONDS)
                wire.is_cut = True
                await wait_until(lambda: any(row.kind == "play" for row in own.spool.results), SECONDS)
                jobs = [row.lease.job for row in own.spool.results if row.lease is not None and row.kind == "play"]
                async with worker(tmp_path, other, "w2"):

                    async def is_done_by_other() -> bool:
                        async with node.store.read() as view:
                            return set(jobs) <= {row.id for row in await view.jobs(("done",), 1000)}

                    await wait_until(is_done_by_other, SECONDS)
                    wire.is_cut = False
                    await wait_until(lambda: not own.spool.results, SECONDS)
                counts = Counter(event.batch for event in await batches(node))
                assert set(counts.values()) == {1}

    asyncio.run(story())


def test_an_island_plays_on_from_its_last_champion(tmp_path: Path) -> None:
    """Its only slot is free while a result waits; on return each batch is counted once, as ingested."""

    async def story() -> None:
        wire = DirectWire()
        own_settings = {"node.island": True, "work.lease_seconds": 1.0, "work.slots": 1}
        async with coordinator(tmp_path, wire, "w1") as node, worker(tmp_path, wire, **own_settings) as own:
            await wait_until(lambda: "play" in running(own), SECONDS)
            wire.is_cut = True
            await wait_until(lambda: sum(row.lease is None for row in own.spool.results) >= 3, SECONDS)
            assert any(row.lease is not None for row in own.spool.results)
            islands = {row.blobs[0]: row.key for row in own.spool.results if row.lease is None}
            assert len(islands) == sum(row.lease is None for row in own.spool.results)
            wire.is_cut = False
            await wait_until(lambda: not own.spool.results, SECONDS)
            async with node.store.read() as view:
                assert {f"island:w1:{key}" for key in islands.values()} <= await island_keys(view)
            counts = Counter(event.batch for event in await batches(node))
            assert all(counts[batch] == 1 for batch in islands)
            assert {event.node for event in await batches(node) if event.batch in islands} == {"w1"}

    asyncio.run(story())


def test_an_island_waits_while_it_trusts_its_leases(tmp_path: Path) -> None:
    """A coordinator that is away for a moment is no reason to play alone."""

    async def story() -> None:
        wire = DirectWire()
        own_settings = {"node.island": True, "work.lease_seconds": 9.0}
        async with coordinator(tmp_path, wire, "w1"), worker(tmp_path, wire, **own_settings) as own:
            await wait_until(lambda: "play" in running(own), SECONDS)
            wire.is_cut = True
            with pytest.raises(NodeAway):
                await own.desk.claim(["play"], 1)
            assert not [row for row in own.spool.results if row.lease is None]

    asyncio.run(story())


def test_a_worker_that_is_no_island_idles_while_it_is_cut_off(tmp_path: Path) -> None:
    """It finishes what it holds and starts nothing."""

    async def story() -> None:
        wire = DirectWire()
        trust = {"work.lease_seconds": 0.5}
        async with coordinator(tmp_path, wire, "w1") as node, worker(tmp_path, wire, **trust) as own:

            async def has_played() -> bool:
                return len(await batches(node)) >= 1

            await wait_until(has_played, SECONDS)
            wire.is_cut = True
            await wait_until(lambda: own.connection.is_silent(2.0), SECONDS)
            assert is_idle(own)
            assert all(row.lease is not None for row in own.spool.results)

    asyncio.run(story())


def test_a_full_spool_takes_what_is_done_and_nothing_new(tmp_path: Path) -> None:
    """A bounded spool keeps an island from playing on; everything it has comes in on return."""

    async def story() -> None:
        wire = DirectWire()
        own_settings = {"node.island": True, "work.lease_seconds": 0.5, "cluster.spool_bytes_max": 1024}
        async with coordinator(tmp_path, wire, "w1") as node, worker(tmp_path, wire, **own_settings) as own:

            async def has_played() -> bool:
                return len(await batches(node)) >= 1

            await wait_until(has_played, SECONDS)
            wire.is_cut = True
            await wait_until(lambda: own.spool.is_full and is_idle(own), SECONDS)
            number = len(own.spool.results)
            assert sum(row.size for row in own.spool.results) < 1024 + 2 * own.settings.work.slots * 1024
            end = own.clock.tick() + 3.0  # several times as long as a batch and a claim take
            await wait_until(lambda: own.clock.tick() > end)
            assert len(own.spool.results) <= number + own.settings.work.slots  # at most what was under way
            wire.is_cut = False
            await wait_until(lambda: not own.spool.results, SECONDS)

    asyncio.run(story())


def test_a_worker_that_stops_does_not_wait_for_a_coordinator_that_is_away(tmp_path: Path) -> None:
    """What it has done stays in its spool; the grace period is for its jobs, not for the wire."""

    async def story() -> None:
        wire, clock = DirectWire(), SystemClock()
        async with coordinator(tmp_path, wire, "w1"):
            async with worker(tmp_path, wire, seconds=1.0, **{"work.grace_seconds": 60.0}) as own:
                await wait_until(lambda: "play" in running(own), SECONDS)
                wire.is_cut = True
                await wait_until(lambda: wire.refused > 2, SECONDS)
                start = clock.tick()
            assert clock.tick() - start < SECONDS
            assert own.spool.results

    asyncio.run(story())
