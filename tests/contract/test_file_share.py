"""Workers have a model before a job names it, from each other where they serve, and it shows who has it when."""

import asyncio
import os
from pathlib import Path

from ringrift.cluster.peers import PEERS
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.transfer_settings import BandwidthSettings
from ringrift.kernel.value import changed
from ringrift.node import Node
from ringrift.pipeline.line import LINES, Candidate, Line, Stage
from ringrift.pipeline.metrics import line_metrics
from ringrift.pipeline.models import MODELS, Model, State
from ringrift.pipeline.prefetch import champion_spread
from ringrift.sync.shaper import Shaper
from ringrift.wire.ports import CHUNK_BYTES
from ringrift.worker import Worker
from unit.cli.command_output import ask
from unit.sync.peer_rig import DATA, Fleet, tell
from unit.worker_rig import DirectWire, coordinator, worker
from wait import wait_until

SECONDS = 20.0
VARIANT = "hex8_2p"
SERVE = {"node.serve": "127.0.0.1:0"}
QUIET = {"node.disabled_daemons": ("fill", "pipeline")}


async def promote(node: Node, model: str, state: State = State.CHAMPION) -> None:
    """Make *model* the champion, or a candidate, as the loop would write it."""
    async with node.store.begin() as tx:
        line = await LINES.get(tx, VARIANT) or Line(variant=VARIANT, workload="fake", players=2)
        if state is State.CHAMPION:
            line = changed(line, champion=model, generation=line.generation + 1, stage=Stage.COLLECTING, candidate=None)
        else:
            line = changed(line, candidate=Candidate(model=model, generation=1), stage=Stage.EVALUATING)
        await LINES.put(tx, [line])
        now = node.clock.now()
        await MODELS.put(tx, [Model(variant=VARIANT, model=model, generation=1, state=state, since=now)])


async def have(workers: list[Worker], blob: str) -> bool:
    """Whether all *workers* have *blob*."""
    return all([await own.blobs.have([blob]) for own in workers])


def test_a_candidate_is_with_the_workers_before_it_is_promoted(tmp_path: Path) -> None:
    """It leaves the coordinator about once; when it becomes champion, 95 % of the fleet have it at once."""

    async def story() -> None:
        wire, data = DirectWire(), os.urandom(1024) * (3 * CHUNK_BYTES // 1024)
        old, new = b"old" + data, b"new" + data
        async with (
            coordinator(tmp_path, wire, "w1", "w2", **QUIET) as node,
            worker(tmp_path, wire, "w1", **SERVE) as one,
            worker(tmp_path, wire, "w2", **SERVE) as two,
        ):
            [champion, candidate] = await node.blobs.put([old, new])
            await promote(node, champion)
            await wait_until(lambda: have([one, two], champion), SECONDS)
            await promote(node, candidate, State.CANDIDATE)
            await wait_until(lambda: have([one, two], candidate), SECONDS)
            assert one.file_share.service.bytes_sent + two.file_share.service.bytes_sent >= len(data)

            async def is_reported() -> bool:
                async with node.store.read() as view:
                    rows = await PEERS.get_many(view, ["w1", "w2"])
                return len(rows) == 2 and all(candidate in row.ready and row.address for row in rows.values())

            await wait_until(is_reported, SECONDS)
            await promote(node, candidate)
            async with node.store.read() as view:
                line = await LINES.get(view, VARIANT)
                assert line is not None
                spread, metrics = await champion_spread(view, line), await line_metrics(view, VARIANT, node.clock.now())
            assert spread is not None
            assert (spread.nodes, spread.ready, spread.p95_seconds) == (2, 2, 0.0)
            assert metrics.spread == spread
            assert "2 of 2 nodes have it, 95 % after 0.0 s" in (await ask(node.store, "status")).text

    asyncio.run(story())


def test_a_rollback_counts_those_again_who_have_that_model(tmp_path: Path) -> None:
    """Who has the model that is champion now is what is counted, from when it became champion."""

    async def story() -> None:
        wire = DirectWire()
        async with coordinator(tmp_path, wire, "w1", "w2", **QUIET) as node, worker(tmp_path, wire, "w1"):
            [first, second] = await node.blobs.put([b"first", b"second"])

            async def spread_is(ready: int, *, measured: bool) -> bool:
                async with node.store.read() as view:
                    line = await LINES.get(view, VARIANT)
                    spread = None if line is None else await champion_spread(view, line)
                return spread is not None and (spread.ready, spread.p95_seconds is not None) == (ready, measured)

            await promote(node, first)
            await wait_until(lambda: spread_is(1, measured=True), SECONDS)
            async with worker(tmp_path, wire, "w2", **{"node.profile": "minimal"}):
                await promote(node, second)
                await wait_until(
                    lambda: spread_is(1, measured=True), SECONDS
                )  # one that does not play is not waited for
                wire.is_cut = True
                await promote(node, "ab" * 32)
                assert await spread_is(0, measured=False)
                await promote(node, first)  # rolled back: it was there all the time
                assert await spread_is(1, measured=True)
                wire.is_cut = False

    asyncio.run(story())


def test_what_a_peer_serves_is_within_its_rate(tmp_path: Path) -> None:
    """By its own settings: those who ask know nothing of them."""

    async def story(fleet: Fleet) -> None:
        one, two, blob = await fleet.add("w1"), await fleet.add("w2"), await fleet.put()
        await one.cache.fetch([blob])
        await one.file_share.report()
        settings, begin = BandwidthSettings(bytes_per_second=2 * len(DATA)), asyncio.get_running_loop().time()
        one.file_share.service._shaper = Shaper(settings, SystemClock())
        await two.cache.fetch([blob])
        assert one.sent == len(DATA)
        assert asyncio.get_running_loop().time() - begin >= 0.3

    tell(tmp_path, story)
