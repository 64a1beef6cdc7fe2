"""A real cluster on a real store detects a node that reports wrong results; it gets no more games until its release."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any

import pytest

from contract.engines import Engine
from job_context import job_context
from ringrift.blobs.ports import Blobs
from ringrift.events import catalog, node
from ringrift.events.base import Event, Unknown
from ringrift.events.pipeline import Opened
from ringrift.events.selfplay import BatchFinished
from ringrift.harness import Member, settings_of
from ringrift.jobs import GAME_KINDS, Match, Play, Sync, Verify
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.kernel.settings import ClusterSettings, Policy, Settings
from ringrift.kernel.transfer_settings import Replicas
from ringrift.node import Node
from ringrift.pipeline.trust import TRUSTS
from ringrift.sim.blobs import MemoryBlobs
from ringrift.store.ports import Store
from ringrift.work.launch.ports import Progress, ReportProgress
from ringrift.workload.api import Block, JobResult, JobSpec
from ringrift.workload.fake import Fake
from unit.cli.command_output import ask

VARIANT = "hex8_2p"
MEMBERS = (Member(id="n1"), Member(id="n2", profile="selfplay"), Member(id="n3", profile="selfplay"))
SETTINGS = Settings(
    cluster=ClusterSettings(beat_seconds=0.2, elect_seconds=0.1, role_seconds=1.0),
    policy=Policy(variants=(VARIANT,), games_per_batch=50, games_per_export=100_000, play_jobs_open=6),
    replicas=Replicas(copies_min=1),
)
BAD = "n3"


class LyingWorker:
    """A worker that plays the fake game at once; while it *lies*, it flips the first game of a canary."""

    memory = 0

    def __init__(self, blobs: MemoryBlobs, pool: "LyingPool") -> None:
        self._blobs, self._pool = blobs, pool

    async def run(self, spec: JobSpec, resume: str | None, report: ReportProgress) -> JobResult:
        await asyncio.sleep(0)
        report(Progress(0.5, {}))
        made = Fake().run(spec, job_context(self._blobs))
        if not self._pool.lies or spec.params.get("candidate") != "greedy":
            return made
        lie = [Block(number=block.number, scores=(1.0 - block.scores[0], *block.scores[1:])) for block in made.blocks]
        return JobResult(metrics=made.metrics, blocks=tuple(lie))

    def ask_to_stop(self) -> None:
        """Nothing to do: its jobs end at once."""

    async def end(self, grace_seconds: float) -> None:
        return


class LyingPool:
    """A worker pool whose workers may report wrong results."""

    def __init__(self, blobs: MemoryBlobs) -> None:
        self.lies, self._blobs = False, blobs

    async def start(self, workload: str) -> LyingWorker:
        """Start another worker."""
        return LyingWorker(self._blobs, self)


@asynccontextmanager
async def fleet(store: Store, bad: str = BAD) -> AsyncIterator[dict[str, LyingPool]]:
    """Three nodes at work on one line; one of them reports wrong canary results."""
    blobs = {member.id: MemoryBlobs(member.id) for member in MEMBERS}
    pools = {name: LyingPool(actual) for name, actual in blobs.items()}
    pools[bad].lies = True

    async def reach(name: str) -> Blobs:
        return blobs[name]

    async with AsyncExitStack() as stack:
        for member in MEMBERS:
            opened = Node.open(
                settings_of(SETTINGS, member),
                SystemClock(),
                Random(member.id),
                store=store,
                blobs=blobs[member.id],
                reach=reach,
                launch=pools[member.id],
            )
            made = await stack.enter_async_context(opened)
            await made.router.publish(Opened(variant=VARIANT, workload="fake"), id="opened")
        yield pools


async def log(store: Store, kind: type[Event], after: int = 0) -> list[Any]:
    """Every event of *kind* after *after*."""
    async with store.read() as view:
        actual = await view.read(after, 10_000, [kind.name()])
    events: list[Event | Unknown] = [catalog.decode(envelope.name, envelope.body) for envelope in actual]
    return events


async def until(store: Store, look: Callable[[], Awaitable[bool]]) -> None:
    """Wait until *look* returns true; the test has a time limit."""
    while not await look():
        await store.wait(None, 0.05)


async def read_by(store: Store, reader: str, position: int) -> bool:
    """Whether *reader* has handled the event at *position*."""
    async with store.read() as view:
        return (await view.positions()).get(reader, 0) >= position


async def batches(store: Store, count: int) -> list[str]:
    """The nodes that play the next *count* batches."""
    start = store.position
    await until(store, lambda: _enough(store, start, count))
    return [event.node for event in await log(store, BatchFinished, start)]


async def _enough(store: Store, start: int, count: int) -> bool:
    return len(await log(store, BatchFinished, start)) >= count


async def answered(store: Store, name: str) -> int:
    """How many canary blocks a node has answered since it began."""
    async with store.read() as view:
        record = await TRUSTS.get(view, name)
    return record.answered if record else 0


async def caught(store: Store) -> node.Quarantined:
    """The first quarantine, once every reader has handled it."""
    await until(store, lambda: _any(store, node.Quarantined))
    async with store.read() as view:
        [first, *_] = await view.read(0, 10_000, [node.Quarantined.name()])
    await until(store, lambda: read_by(store, "trust", first.position))
    actual: node.Quarantined = (await log(store, node.Quarantined))[0]
    return actual


async def _any(store: Store, kind: type[Event]) -> bool:
    return bool(await log(store, kind))


@pytest.mark.parametrize("bad", ["n1", "n3"], ids=["leader", "other"])
def test_a_node_with_wrong_canary_results_gets_no_more_games(engine: Engine, bad: str) -> None:
    """Only that node is quarantined, even if it leads; the others continue, and the command lists it."""

    async def story(store: Store) -> tuple[node.Quarantined, list[str], list[str], list[Any]]:
        async with fleet(store, bad):
            actual = await caught(store)
            later = await batches(store, 20)
            listed = (await ask(store, "quarantine")).value
            return actual, later, [row["node"] for row in listed], await log(store, node.Quarantined)

    actual, later, listed, everyone = engine.run(story)

    assert actual.node == bad
    assert actual.reason.startswith("canary ")
    assert set(later) == {"n1", "n2", "n3"} - {bad}
    assert listed == [bad]
    assert [row.node for row in everyone] == [bad]


def test_a_released_node_plays_and_answers_canaries_again(engine: Engine) -> None:
    """Once repaired it answers canaries and stays; otherwise it would be quarantined again."""

    async def story(store: Store) -> tuple[str, list[str], str]:
        async with fleet(store) as pools:
            await caught(store)
            pools[BAD].lies = False
            text = (await ask(store, "quarantine", "release", BAD)).text
            start = store.position
            await until(store, lambda: _plays(store, start))
            await until(store, lambda: _tried(store))
            again = [event.node for event in await log(store, node.Quarantined, start)]
            return text, again, (await ask(store, "quarantine")).text

    assert engine.run(story) == (
        "node n3 is released: it may play again, and its trust starts anew",
        [],
        "no node is quarantined",
    )


async def _plays(store: Store, start: int) -> bool:
    return BAD in [event.node for event in await log(store, BatchFinished, start)]


async def _tried(store: Store) -> bool:
    return await answered(store, BAD) >= 4


def test_a_node_quarantined_by_hand_returns_its_games(engine: Engine) -> None:
    """The quarantine holds once the command returns; the node's running jobs are taken back and done by others."""

    async def story(store: Store) -> tuple[list[str], list[str], str]:
        async with fleet(store) as pools:
            pools[BAD].lies = False
            await batches(store, 3)
            await ask(store, "quarantine", "add", "n2", "--reason", "its memory is bad")
            await caught(store)
            later = await batches(store, 20)
            async with store.read() as view:
                lease_of = [row.kind for row in await view.jobs(("claimed",), 100, holder="n2")]
            return later, lease_of, (await ask(store, "quarantine")).text

    later, lease_of, listed = engine.run(story)

    assert "n2" not in later
    assert not GAME_KINDS & set(lease_of)
    assert "by hand: its memory is bad" in listed


def test_a_quarantined_node_claims_only_jobs_without_games(engine: Engine) -> None:
    """A claim skips Play and Match, also those pinned to this node, and returns everything else."""
    expected = (
        Play(variant=VARIANT, model="m", games=1),
        Match(variant=VARIANT, candidate="greedy", baseline="random", purpose="canary", first=0, count=1, node="n2"),
        Verify(variant=VARIANT, model="m"),
        Sync(variant=VARIANT, blob="b", kind_of="games", source="n1"),
    )

    async def story(store: Store) -> list[list[str]]:
        async with AsyncExitStack() as stack:
            quiet = settings_of(SETTINGS, Member(id="n2", profile="minimal"))
            blobs = MemoryBlobs("n2")
            opened = Node.open(quiet, SystemClock(), Random(7), store=store, blobs=blobs, launch=LyingPool(blobs))
            made = await stack.enter_async_context(opened)
            await made.desk.enqueue(expected)
            kinds = {job.kind() for job in expected}
            await ask(store, "quarantine", "add", "n2")
            first = [lease.kind for lease in await made.desk.claim(kinds, 10)]
            await ask(store, "quarantine", "release", "n2")
            return [sorted(first), sorted(lease.kind for lease in await made.desk.claim(kinds, 10))]

    assert engine.run(story) == [["sync", "verify"], ["match", "play"]]


def test_invalid_node_names_are_refused(engine: Engine) -> None:
    """Neither an unknown node is quarantined nor a free one released, and an empty name is refused."""

    async def story(store: Store) -> int:
        with pytest.raises(UnknownName, match="unknown node 'n9'"):
            await ask(store, "quarantine", "add", "n9")
        with pytest.raises(UnknownName, match="unknown quarantined node 'n1'"):
            await ask(store, "quarantine", "release", "n1")
        with pytest.raises(InputError, match="name the node"):
            await ask(store, "quarantine", "add")
        return store.position

    assert engine.run(story) == 0
