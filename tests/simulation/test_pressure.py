"""A loop whose export is blocked fills up: self-play slows down, stops, and goes on by itself when export does."""

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from random import Random
from typing import Any

from ringrift.blobs.ports import Blobs
from ringrift.events import catalog
from ringrift.events.pipeline import Opened
from ringrift.events.selfplay import BatchFinished
from ringrift.events.work import PressureChanged
from ringrift.kernel.settings import Settings
from ringrift.kernel.verdict import Verdict
from ringrift.node import Node
from ringrift.pipeline.line import LINES
from ringrift.sim import checks
from ringrift.sim.blobs import MemoryBlobs
from ringrift.sim.disk import Disk
from ringrift.sim.launch import SimLaunch, WorkerBehaviour
from ringrift.sim.loop import SimLoop, run
from ringrift.sim.recorder import RecordingStore, RecordingTx
from ringrift.store.open import open_store
from ringrift.work.limits import VERDICTS
from ringrift.work.pressure import _LEVELS, BOUNDS, PRESSURES, _rank
from ringrift.work.run_states import set_run_state

V = "hex8_2p"
SETTINGS = Settings().overlaid(
    {
        "store.path": "sim.db",
        "blobs.folder": "/blobs",
        "replicas.copies_min": 1,
        "policy.variants": (V,),
        "policy.games_per_batch": 50,
        "policy.games_per_export": 4000,
        "policy.play_jobs_open": 4,
        "policy.gate.blocks_min": 8,
        "policy.gate.blocks_max": 48,
        "work.slots": 4,
        "work.measure_queues_seconds": 2.0,
        "work.drain_window_seconds": 40.0,
        "work.drain_patience": 0.003,  # an export may take 22 s before self-play slows down, and 108 s at the most
    }
)
WELL, BLOCKED, STILL, AGAIN = 300.0, 240.0, 60.0, 300.0
"""Seconds of each part of the story, all of them virtual."""
LOOK_SECONDS, COMMIT_SECONDS = 2.0, 0.002


class Loop:
    """One node in virtual time whose exports can be blocked."""

    def __init__(self, loop: SimLoop, store: RecordingStore, node: Node) -> None:
        self.loop, self.store, self.node = loop, store, node

    async def block(self, state: str) -> None:
        """Let no export start, or let them start again."""
        async with self.store.begin() as tx:
            now = self.node.clock.now()
            await set_run_state(tx, self.node.envelopes, scope="stage:export", state=state, now=now)

    async def batches(self) -> int:
        """Batches played so far."""
        async with self.store.read() as view:
            line = await LINES.get(view, V)
        return 0 if line is None else line.counts.batches

    async def play_jobs(self) -> int:
        """Play jobs that wait or run."""
        async with self.store.read() as view:
            counts = await view.count_jobs(V)
        return sum(counts.get(("play", state), 0) for state in ("ready", "claimed"))

    async def levels(self) -> Mapping[str, str]:
        """The level of every queue."""
        async with self.store.read() as view:
            return {queue: row.level for queue, row in (await PRESSURES.get_many(view, tuple(BOUNDS))).items()}

    async def verdict(self) -> Verdict:
        """The stored verdict of the gate before self-play."""
        async with self.store.read() as view:
            verdict = await VERDICTS.get(view, f"{V}:fill")
        assert verdict is not None
        return verdict

    async def changes(self) -> list[PressureChanged]:
        """Every change of a level so far."""
        async with self.store.read() as view:
            rows = await view.read(0, 10_000, (PressureChanged.name(),))
        events = [catalog.decode(row.name, row.body) for row in rows]
        return [event for event in events if isinstance(event, PressureChanged)]

    async def conserved(self) -> list[str]:
        """Violations of the conservation of jobs and batches."""
        async with self.store.begin() as tx:
            assert isinstance(tx, RecordingTx)
            jobs = checks.work_is_conserved(len(tx.history("enqueued")), tx.job_states(), await tx.count_jobs())
            position = (await tx.positions())["pipeline"]
            played = sum(name == BatchFinished.name() and at <= position for name, at in tx.history("appended"))
            return [*jobs, *checks.batches_are_counted(await LINES.get(tx, V), played)]


async def blocked_and_released(loop: SimLoop) -> tuple[list[PressureChanged], list[int]]:
    """Run a loop that is well, block its exports, let them go on; what changed, and how much was played."""
    disk = Disk("pressure", Random(3))

    async def inline(call: Any, *args: Any) -> Any:
        await asyncio.sleep(COMMIT_SECONDS)
        return call(*args)

    blobs = MemoryBlobs("local")

    async def reach(node: str) -> Blobs:
        return blobs

    clock, rng = loop.clock("local"), Random(5)
    opened = open_store(SETTINGS.store, clock, engine=RecordingStore, offload=inline, vfs=disk.name)
    try:
        async with opened as store:
            launch = SimLaunch(blobs, Random(6), WorkerBehaviour(seconds_max=3.0))
            engines: dict[str, Any] = {"store": store, "blobs": blobs, "reach": reach, "launch": launch}
            async with Node.open(SETTINGS, clock, rng, **engines) as node:
                assert isinstance(store, RecordingStore)
                await node.router.publish(Opened(variant=V, workload="fake"))
                return await _story(Loop(loop, store, node))
    finally:
        disk.unregister()


async def _story(world: Loop) -> tuple[list[PressureChanged], list[int]]:
    played = []
    await asyncio.sleep(WELL)
    played.append(await world.batches())
    assert await world.changes() == [], "a loop whose export keeps up is never slowed down"

    await world.block("paused")
    jobs = set()
    for _ in range(int(BLOCKED / LOOK_SECONDS)):
        await asyncio.sleep(LOOK_SECONDS)
        jobs.add(await world.play_jobs())
    played.append(await world.batches())
    assert jobs >= {4, 3, 2, 1, 0}, "it slows down before it stops"
    assert (await world.levels())["export"] == "stop"
    verdict = await world.verdict()
    assert (verdict.allowed, round(verdict.limit)) == (False, 108)
    assert verdict.rule == "the queue export is at stop, seconds until it is drained"
    await asyncio.sleep(STILL)
    played.append(await world.batches())

    await world.block("running")
    await asyncio.sleep(AGAIN)
    played.append(await world.batches())
    assert set((await world.levels()).values()) == {"none"}
    assert await world.play_jobs() > 0
    assert await world.conserved() == []
    return await world.changes(), played


def test_a_blocked_export_slows_self_play_down_stops_it_and_its_end_starts_it_again() -> None:
    """Nothing more is played while exports are blocked, and the loop goes on as before; levels never flap."""
    changes, played = run(11, blocked_and_released, steps_max=20_000_000)

    well, blocked, still, again = played
    assert blocked - well < well / 2, "less was played while it was blocked"
    assert still == blocked
    assert again - still > well / 2
    for queue in BOUNDS:
        levels = ["none", *(event.level for event in changes if event.queue == queue)]
        assert [event.before for event in changes if event.queue == queue] == levels[:-1]
        turns = [_rank(after) > _rank(before) for before, after in pairwise(levels)]
        assert turns == sorted(turns, reverse=True), f"{queue} goes up once and down once: {levels}"
        assert len(levels) <= 2 * len(_LEVELS)
    crossings = [event.backpressure for event in changes if event.queue == "export" and event.backpressure]
    assert crossings == ["activated", "released"]
