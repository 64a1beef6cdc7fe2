"""Ratings are a pure function of the log of blocks: in any order, a real job computes the same bits."""

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
from job_context import job_context
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.daemons.pipeline import pipeline
from ringrift.evaluation.rating import fit, rate
from ringrift.evaluation.tally import Player, Tally, add
from ringrift.events import catalog, node
from ringrift.events.base import Event
from ringrift.events.evaluation import Block, BlocksPlayed, Finished, Rated
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BlobSettings, ClusterSettings, Policy, Settings, WorkSettings
from ringrift.kernel.transfer_settings import Replicas
from ringrift.kernel.verdict import Verdict
from ringrift.node import Node
from ringrift.pipeline import ratings
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.ratings import _ERAS, BLOCKS, MATCHES
from ringrift.pipeline.records import save_line
from ringrift.sim.blobs import MemoryBlobs
from ringrift.store.ports import Reads, Store
from ringrift.work.limits import QUARANTINES
from ringrift.workers import rate as job
from ringrift.workers.rate import _RatingReport
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


async def recount_log(view: Reads, variant: str) -> Tally:
    """All counts of *variant* recomputed from the log of matches, block by block."""
    tally = Tally()
    played = await BLOCKS.all(view)
    for match in [match for match in await MATCHES.all(view) if match.variant == variant]:
        blocks = [block for block in played if block.match == match.id]
        nodes = sorted({block.node for block in blocks})
        quarantined = await QUARANTINES.get_many(view, nodes)
        eras = {node: await _ERAS.get(view, node) or 0 for node in nodes if node not in quarantined}
        tally = add(tally, ratings._compare(match, [block for block in blocks if eras.get(block.node) == block.era]))
    return tally


def played() -> list[BlocksPlayed]:
    """Blocks of four players on three nodes, a few at a time, from a fixed random seed."""
    rng, actual = Random(5), []
    meetings = ((ONE, START, 2), (TWO, ONE, 3), (TWO, "greedy", 3), (ONE, "greedy", 2))
    for candidate, opponent, weight in meetings:
        for first in range(0, 24, 4):
            blocks = tuple(
                Block(
                    number=first + n,
                    scores=(0.0, 0.5, 1.0),
                    ranks=tuple(rng.choices(RANKS, (1, 1, 1, weight, 2))[0] for _ in range(3)),
                )
                for n in range(4)
            )
            actual.append(
                BlocksPlayed(
                    variant=VARIANT,
                    candidate=candidate,
                    champion=opponent,
                    blocks=blocks,
                    settings="sims=16",
                    seed=3,
                    node=rng.choice(("n1", "n2", "n3")),
                )
            )
    return actual


def shuffled(seed: int) -> list[BlocksPlayed]:
    """The same blocks in another order and other pieces, some of them twice."""
    rng = Random(seed)
    single = [msgspec.structs.replace(event, blocks=(block,)) for event in played() for block in event.blocks]
    again = rng.sample(single, 10)
    return rng.sample([*single, *again], len(single) + len(again))


ORDERS = {"as played": played(), "backwards": played()[::-1], "in pieces": shuffled(1), "in other pieces": shuffled(2)}


def envelopes() -> EnvelopeFactory:
    """A factory of envelopes for the log."""
    clock = SystemClock()
    return EnvelopeFactory("n1", clock, Ids(clock, Random(7)))


async def begin(store: Store) -> None:
    """An idle line whose generation 0 is known."""
    line = Line(variant=VARIANT, workload="fake", players=3, stage=Stage.RESTING, champion=TWO, generation=2)
    first = ratings.with_champion(ratings.LineRatings(variant=VARIANT), START, 0, 1.0)
    async with store.begin() as tx:
        await save_line(tx, line)
        await ratings.RATINGS.put(tx, [first])


async def take(store: Store, *events: Event) -> None:
    """Deliver *events* to the loop one after the other, as its reader does."""
    factory = envelopes()
    for event in events:
        envelope = factory.make(event, source="test")
        async with store.begin() as tx:
            await pipeline(event, envelope, tx, policy=SETTINGS.policy, envelopes=factory)


@asynccontextmanager
async def at_work(store: Store, folder: Path) -> AsyncIterator[Node]:
    """A node with real worker processes."""
    settings = msgspec.structs.replace(SETTINGS, blobs=BlobSettings(folder=str(folder)))
    async with Node.open(settings, SystemClock(), Random(3), store=store) as opened:
        yield opened


async def until(store: Store, look: Callable[[], Awaitable[bool]]) -> None:
    """Wait until *look* returns true; the test has a time limit."""
    while not await look():
        await store.wait(None, 0.05)


async def rated(store: Store, folder: Path, events: Sequence[BlocksPlayed]) -> tuple[Rated, _RatingReport]:
    """The result of a real job once the loop has handled *events* from the log."""
    async with at_work(store, folder) as here:
        async with store.begin() as tx:
            [*_, last] = await tx.append([here.envelopes.make(event, source="desk") for event in events])

        async def is_read() -> bool:
            async with store.read() as view:
                return (await view.positions()).get("pipeline", 0) >= last.position

        await until(store, is_read)
        decided = Finished(variant=VARIANT, candidate=TWO, champion=ONE, blocks=24, score=0.6, elo=7.0, promoted=True)
        await here.router.publish(decided, source="test")
        actual: list[Rated] = []

        async def is_rated() -> bool:
            async with store.read() as view:
                output = [
                    catalog.decode(envelope.name, envelope.body)
                    for envelope in await view.read(0, 10_000, [Rated.name()])
                ]
            actual[:] = [event for event in output if isinstance(event, Rated)]
            return bool(actual)

        await until(store, is_rated)
        body = b"".join([chunk async for chunk in here.blobs.read(actual[0].report)])
        return actual[0], msgspec.json.decode(body, type=_RatingReport)


def bits(report: _RatingReport) -> list[tuple[Player, str, str, str]]:
    """Every float of *report* to its last bit."""
    return [
        (rating.player, rating.elo.value.hex(), rating.elo.lower.hex(), rating.elo.upper.hex())
        for rating in report.ratings
    ]


def test_ratings_are_the_same_bits_in_any_order(tmp_path: Path) -> None:
    """Four stores receive the same blocks in other orders and pieces; real jobs compute one identical report."""
    actual = {}
    for number, (name, events) in enumerate(ORDERS.items()):

        async def story(
            store: Store, folder: Path = tmp_path / str(number), events: Sequence[BlocksPlayed] = events
        ) -> tuple[Rated, _RatingReport, tuple[str, ...]]:
            await begin(store)
            output, report = await rated(store, folder, events)
            async with store.read() as view:
                tally = await recount_log(view, VARIANT)
            again = rate(fit(tally, {Player(weights=START, settings="sims=16"): 0.0}))
            return output, report, tuple(rating.elo.value.hex() for rating in again)

        actual[name] = Engine(tmp_path / f"{number}.db").run(story)

    reports = {output.report for output, _, _ in actual.values()}
    assert len(reports) == 1
    assert len({output.tally for output, _, _ in actual.values()}) == 1
    assert len({repr(bits(report)) for _, report, _ in actual.values()}) == 1
    output, report, again = actual["as played"]
    assert tuple(rating.elo.value.hex() for rating in report.ratings) == again
    assert (output.summary.players, output.summary.blocks) == (4, 96)
    start = next(rating for rating in report.ratings if rating.player.weights == START)
    assert (start.elo.lower, start.elo.value, start.elo.upper) == (0.0, 0.0, 0.0)
    assert all(
        rating.elo.lower < rating.elo.value < rating.elo.upper for rating in report.ratings if rating is not start
    )


def test_counts_agree_with_the_log(engine: Engine) -> None:
    """Counting block by block as they arrive, and once more from the records, gives equal tallies, in any order."""

    async def story(store: Store) -> None:
        await begin(store)
        await take(store, *shuffled(3))
        async with store.read() as view:
            counted = await ratings._tally_of(view, VARIANT)
            assert counted == await recount_log(view, VARIANT)
        assert sum(times for meeting in counted.meetings for _, _, times in meeting.outcomes) == 96
        assert len(counted.meetings) == 4

    engine.run(story)


def test_blocks_of_a_quarantined_node_do_not_count(engine: Engine) -> None:
    """Its blocks no longer count, not even after its release; those it plays from then on count again."""
    blocks_of_n2 = [event for event in played() if event.node == "n2"]
    others = [event for event in played() if event.node != "n2"]
    assert blocks_of_n2
    why = Verdict(gate="trust", allowed=False, rule="lies", value=1, limit=0)

    async def tallies(store: Store) -> list[object]:
        async with store.read() as view:
            return [await ratings._tally_of(view, VARIANT), await recount_log(view, VARIANT)]

    async def story(store: Store) -> None:
        await begin(store)
        await take(store, *others)
        [honest, _] = await tallies(store)
        await take(store, *blocks_of_n2[:-1])
        assert honest not in await tallies(store)

        async with store.begin() as tx:
            await QUARANTINES.put_at(tx, {"n2": why})
        await take(store, node.Quarantined(node="n2", reason="lies", by="n1"))
        assert await tallies(store) == [honest, honest]

        await take(store, msgspec.structs.replace(blocks_of_n2[-1], seed=4))
        assert await tallies(store) == [honest, honest]

        async with store.begin() as tx:
            await QUARANTINES.delete(tx, ["n2"])
        await take(store, node.Released(node="n2", by="n1"))
        assert await tallies(store) == [honest, honest]

        await take(store, msgspec.structs.replace(blocks_of_n2[-1], seed=5))
        [counted, recount] = await tallies(store)
        assert counted == recount
        assert counted != honest

    engine.run(story)


def test_a_blob_without_counts_is_refused() -> None:
    """The job fails for good, because no retry could help."""
    blobs = MemoryBlobs("n1")
    blob = blobs.add(b"{}")

    with pytest.raises(Refused) as refused:
        job.run(JobSpec(job="j", stage="rate", variant=VARIANT, seed=0, inputs={"tally": (blob,)}), job_context(blobs))

    assert refused.value.blob == blob


def test_the_control_process_never_loads_the_solver() -> None:
    """A node with all its daemons is built without the modules that compute ratings: only its children have them."""
    program = (
        "import sys, ringrift.node, ringrift.cli.commands.run;"
        "print([n for n in ('solve', 'spread', 'rating', 'pairing') if f'ringrift.evaluation.{n}' in sys.modules])"
    )

    actual = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert actual.strip() == "[]"
