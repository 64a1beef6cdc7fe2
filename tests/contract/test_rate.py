"""Ratings are a pure function of the log of blocks: whatever came first, a real job computes the same bits."""

import hashlib
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import msgspec
import pytest

from contract.engines import Engine
from ringrift.bus.scribe import Scribe
from ringrift.daemons.pipeline import pipeline
from ringrift.evaluation.rating import rate
from ringrift.evaluation.tally import Player
from ringrift.events import catalog, node
from ringrift.events.base import Event
from ringrift.events.evaluation import BlocksPlayed, Finished, Played, Rated
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BlobSettings, ClusterSettings, Policy, Replicas, Settings, WorkSettings
from ringrift.kernel.verdict import Verdict
from ringrift.node import Node
from ringrift.pipeline import standing
from ringrift.pipeline.line import DECISION, Decision, Line, Stage
from ringrift.pipeline.records import save
from ringrift.sim.blobs import MemoryBlobs
from ringrift.sim.launch import Context
from ringrift.store.ports import Put, Store
from ringrift.work import quarantine
from ringrift.workers import rate as job
from ringrift.workers.rate import Report
from ringrift.workload.api import JobSpec, Refused

VARIANT = "hex8_3p"
START, ONE, TWO = (hashlib.sha256(name.encode()).hexdigest() for name in ("start", "one", "two"))
SETTINGS = Settings(
    cluster=ClusterSettings(beat_seconds=0.2, elect_seconds=0.1, role_seconds=1.0),
    policy=Policy(variants=(VARIANT,), rate_seconds=0.05),
    replicas=Replicas(copies_min=1),
    work=WorkSettings(slots=1, grace_seconds=1.0),
)
RANKS = (0.0, 0.25, 0.5, 0.75, 1.0)


def played() -> list[BlocksPlayed]:
    """Blocks of four players on three nodes, a few at a time, by chance that is always the same."""
    rng, found = Random(5), []
    meetings = ((ONE, START, 2), (TWO, ONE, 3), (TWO, "greedy", 3), (ONE, "greedy", 2))
    for candidate, opponent, weight in meetings:
        for first in range(0, 24, 4):
            blocks = tuple(
                Played(number=first + n, scores=(0.0, 0.5, 1.0), ranks=tuple(rng.choices(RANKS, (1, 1, 1, weight, 2))[0]
                                                                           for _ in range(3)))
                for n in range(4)
            )  # fmt: skip
            found.append(
                BlocksPlayed(
                    variant=VARIANT, candidate=candidate, champion=opponent, blocks=blocks, settings="sims=16", seed=3,
                    node=rng.choice(("n1", "n2", "n3")),
                )
            )  # fmt: skip
    return found


def shuffled(seed: int) -> list[BlocksPlayed]:
    """The same in another order, other pieces, and some of them twice."""
    rng = Random(seed)
    single = [msgspec.structs.replace(event, blocks=(block,)) for event in played() for block in event.blocks]
    again = rng.sample(single, 10)
    return rng.sample([*single, *again], len(single) + len(again))


ORDERS = {"as played": played(), "backwards": played()[::-1], "in pieces": shuffled(1), "in other pieces": shuffled(2)}


def scribe() -> Scribe:
    """Who writes events into the log."""
    clock = SystemClock()
    return Scribe("n1", clock, Ids(clock, Random(7)))


async def begin(store: Store) -> None:
    """A line at rest whose generation 0 is known."""
    line = Line(variant=VARIANT, workload="fake", players=3, stage=Stage.RESTING, champion=TWO, generation=2)
    first = Decision(
        variant=VARIANT, model=START, promoted=True, reason="generation 0", generation=0, time=1.0, id="first"
    )
    async with store.begin() as tx:
        await save(tx, line)
        await tx.put([Put(kind=DECISION, id="first", body=msgspec.json.encode(first), index={"variant": VARIANT})])


async def take(store: Store, *events: Event) -> None:
    """Let the loop take in *events* one after the other, as its reader does."""
    hand = scribe()
    for event in events:
        async with store.begin() as tx:
            await pipeline(
                event, hand.wrap(event, source="test"), tx, policy=SETTINGS.policy, ids=Ids(SystemClock(), Random(1)),
                scribe=hand,
            )  # fmt: skip


@asynccontextmanager
async def at_work(store: Store, folder: Path) -> AsyncIterator[Node]:
    """A node with real worker processes."""
    settings = msgspec.structs.replace(SETTINGS, blobs=BlobSettings(folder=str(folder)))
    async with Node.open(settings, SystemClock(), Random(3), store=store) as opened:
        yield opened


async def until(store: Store, look: Callable[[], Awaitable[bool]]) -> None:
    """Wait until *look* says yes; the story has a time limit."""
    while not await look():
        await store.wait(None, 0.05)


async def rated(store: Store, folder: Path, events: Sequence[BlocksPlayed]) -> tuple[Rated, Report]:
    """What a real job computes once the loop has taken in *events* from the log."""
    async with at_work(store, folder) as here:
        async with store.begin() as tx:
            [*_, last] = await tx.append([here.scribe.wrap(event, source="desk") for event in events])

        async def is_read() -> bool:
            async with store.read() as view:
                return (await view.places()).get("pipeline", 0) >= last.position

        await until(store, is_read)
        decided = Finished(variant=VARIANT, candidate=TWO, champion=ONE, blocks=24, score=0.6, elo=7.0, promoted=True)
        await here.router.publish(decided, source="test")
        found: list[Rated] = []

        async def is_rated() -> bool:
            async with store.read() as view:
                said = [catalog.decode(one.name, one.body) for one in await view.read(0, 10_000, [Rated.name()])]
            found[:] = [one for one in said if isinstance(one, Rated)]
            return bool(found)

        await until(store, is_rated)
        body = b"".join([chunk async for chunk in here.blobs.read(found[0].report)])
        return found[0], msgspec.json.decode(body, type=Report)


def bits(report: Report) -> list[tuple[Player, str, str, str]]:
    """Every float of *report* to its last bit."""
    return [(one.player, one.elo.value.hex(), one.elo.lower.hex(), one.elo.upper.hex()) for one in report.ratings]


def test_ratings_are_the_same_bits_whatever_came_first(tmp_path: Path) -> None:
    """Four stores hear the same blocks in other orders and pieces; real jobs make one and the same report of them."""
    found = {}
    for number, (name, events) in enumerate(ORDERS.items()):

        async def story(store: Store, folder: Path = tmp_path / str(number), events: Sequence[BlocksPlayed] = events
                        ) -> tuple[Rated, Report, tuple[str, ...]]:  # fmt: skip
            await begin(store)
            said, report = await rated(store, folder, events)
            async with store.read() as view:
                tally = await standing.recounted(view, VARIANT)
            again = rate(tally, {Player(weights=START, settings="sims=16"): 0.0})
            return said, report, tuple(one.elo.value.hex() for one in again)

        found[name] = Engine(tmp_path / f"{number}.db").run(story)

    reports = {said.report for said, _, _ in found.values()}
    assert len(reports) == 1
    assert len({said.tally for said, _, _ in found.values()}) == 1
    assert len({repr(bits(report)) for _, report, _ in found.values()}) == 1
    said, report, again = found["as played"]
    assert tuple(one.elo.value.hex() for one in report.ratings) == again
    assert (said.summary.players, said.summary.blocks) == (4, 96)
    start = next(one for one in report.ratings if one.player.weights == START)
    assert (start.elo.lower, start.elo.value, start.elo.upper) == (0.0, 0.0, 0.0)
    assert all(one.elo.lower < one.elo.value < one.elo.upper for one in report.ratings if one is not start)


def test_what_was_counted_is_what_the_log_says(engine: Engine) -> None:
    """Counting block by block as they come, and once more from the records, gives equal tallies, in any order."""

    async def story(store: Store) -> None:
        await begin(store)
        await take(store, *shuffled(3))
        async with store.read() as view:
            counted = await standing.tally_of(view, VARIANT)
            assert counted == await standing.recounted(view, VARIANT)
        assert sum(times for one in counted.meetings for _, _, times in one.outcomes) == 96
        assert len(counted.meetings) == 4

    engine.run(story)


def test_a_node_that_is_shut_out_takes_its_blocks_with_it(engine: Engine) -> None:
    """Its blocks count no more, not even after its release; those it plays from then on count again."""
    mine = [event for event in played() if event.node == "n2"]
    others = [event for event in played() if event.node != "n2"]
    assert mine
    why = Verdict(gate="trust", allowed=False, rule="lies", value=1, limit=0)

    async def tallies(store: Store) -> list[object]:
        async with store.read() as view:
            return [await standing.tally_of(view, VARIANT), await standing.recounted(view, VARIANT)]

    async def story(store: Store) -> None:
        await begin(store)
        await take(store, *others)
        [honest, _] = await tallies(store)
        await take(store, *mine[:-1])
        assert honest not in await tallies(store)

        async with store.begin() as tx:
            await quarantine.shut_out(tx, "n2", why)
        await take(store, node.Quarantined(node="n2", reason="lies", by="n1"))
        assert await tallies(store) == [honest, honest]

        await take(store, msgspec.structs.replace(mine[-1], seed=4))
        assert await tallies(store) == [honest, honest]

        async with store.begin() as tx:
            await quarantine.release(tx, "n2")
        await take(store, node.Released(node="n2", by="n1"))
        assert await tallies(store) == [honest, honest]

        await take(store, msgspec.structs.replace(mine[-1], seed=5))
        [counted, recounted] = await tallies(store)
        assert counted == recounted
        assert counted != honest

    engine.run(story)


def test_a_blob_without_counts_is_refused() -> None:
    """No further try could make anything of it."""
    blobs = MemoryBlobs("n1")
    blob = blobs.keep(b"{}")

    with pytest.raises(Refused) as refused:
        job.run(JobSpec(job="j", stage="rate", variant=VARIANT, seed=0, inputs={"tally": (blob,)}), Context(blobs))

    assert refused.value.blob == blob


def test_the_control_process_never_loads_the_solver() -> None:
    """A node with all its daemons is built without the modules that compute ratings: only its children have them."""
    program = (
        "import sys, ringrift.node, ringrift.cli.run;"
        "print([n for n in ('solve', 'spread', 'rating', 'pairing') if f'ringrift.evaluation.{n}' in sys.modules])"
    )

    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert found.strip() == "[]"
