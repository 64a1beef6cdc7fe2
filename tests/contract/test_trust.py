"""A node that lies is found by a real cluster on a real store, gets no more games, and plays again once released."""

import asyncio
import json
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest

from contract.engines import Engine
from ringrift.blobs.ports import Blobs
from ringrift.cli import quarantine as command
from ringrift.events import catalog, node
from ringrift.events.base import Event, Unknown
from ringrift.events.pipeline import Opened
from ringrift.events.selfplay import BatchFinished
from ringrift.harness import Member, settings_of
from ringrift.jobs import Match, Play, Sync, Verify
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.kernel.settings import ClusterSettings, Policy, Replicas, Settings
from ringrift.node import Node
from ringrift.pipeline.trust import KIND, Trust
from ringrift.sim.blobs import MemoryBlobs
from ringrift.sim.launch import Context
from ringrift.store.ports import Store
from ringrift.work import quarantine
from ringrift.work.launch.ports import Report, Word
from ringrift.workload.api import Block, JobResult, JobSpec
from ringrift.workload.fake import Fake

VARIANT = "hex8_2p"
MEMBERS = (Member(id="n1"), Member(id="n2", profile="selfplay"), Member(id="n3", profile="selfplay"))
SETTINGS = Settings(
    cluster=ClusterSettings(beat_seconds=0.2, elect_seconds=0.1, role_seconds=1.0),
    policy=Policy(variants=(VARIANT,), games_per_batch=50, games_per_export=100_000, play_jobs_open=6),
    replicas=Replicas(copies_min=1),
)
BAD = "n3"


class Hand:
    """A worker that plays the fake game at once; while it *lies*, it turns the first game of a canary round."""

    memory = 0

    def __init__(self, blobs: MemoryBlobs, truth: "Truth") -> None:
        self._blobs, self._truth = blobs, truth

    async def run(self, spec: JobSpec, resume: str | None, report: Report) -> JobResult:
        await asyncio.sleep(0)
        report(Word(0.5, {}))
        made = Fake().run(spec, Context(self._blobs))
        if not self._truth.lies or spec.params.get("candidate") != "greedy":
            return made
        lie = [Block(number=one.number, scores=(1.0 - one.scores[0], *one.scores[1:])) for one in made.blocks]
        return JobResult(metrics=made.metrics, blocks=tuple(lie))

    def ask_to_stop(self) -> None:
        """Its jobs end at once anyway."""

    async def end(self, grace_seconds: float) -> None:
        return


class Truth:
    """Whether the hands of a node lie."""

    def __init__(self, blobs: MemoryBlobs) -> None:
        self.lies, self._blobs = False, blobs

    async def start(self, workload: str) -> Hand:
        """Another hand."""
        return Hand(self._blobs, self)


@asynccontextmanager
async def fleet(store: Store, bad: str = BAD) -> AsyncIterator[dict[str, Truth]]:
    """Three nodes at work on one line; one of them lies about canaries."""
    blobs = {member.id: MemoryBlobs(member.id) for member in MEMBERS}
    hands = {name: Truth(found) for name, found in blobs.items()}
    hands[bad].lies = True

    async def reach(name: str) -> Blobs:
        return blobs[name]

    async with AsyncExitStack() as stack:
        for member in MEMBERS:
            opened = Node.open(
                settings_of(SETTINGS, member), SystemClock(), Random(member.id), store=store, blobs=blobs[member.id],
                reach=reach, launch=hands[member.id],
            )  # fmt: skip
            made = await stack.enter_async_context(opened)
            await made.router.publish(Opened(variant=VARIANT, workload="fake"), id="opened")
        yield hands


async def told(store: Store, kind: type[Event], after: int = 0) -> list[Any]:
    """Every event of *kind* behind *after*."""
    async with store.read() as view:
        found = await view.read(after, 10_000, [kind.name()])
    events: list[Event | Unknown] = [catalog.decode(one.name, one.body) for one in found]
    return events


async def until(store: Store, look: Callable[[], Awaitable[bool]]) -> None:
    """Wait until *look* says yes; the story has a time limit."""
    while not await look():
        await store.wait(None, 0.05)


async def read_by(store: Store, reader: str, position: int) -> bool:
    """Whether *reader* has taken in what lies at *position*."""
    async with store.read() as view:
        return (await view.places()).get(reader, 0) >= position


async def batches(store: Store, count: int) -> list[str]:
    """Who plays the next *count* batches."""
    start = store.position
    await until(store, lambda: _enough(store, start, count))
    return [event.node for event in await told(store, BatchFinished, start)]


async def _enough(store: Store, start: int, count: int) -> bool:
    return len(await told(store, BatchFinished, start)) >= count


async def answered(store: Store, name: str) -> int:
    """How many canary blocks a node has answered since it began."""
    async with store.read() as view:
        body = (await view.get(KIND, [name])).get(name)
    return msgspec.json.decode(body, type=Trust).answered if body else 0


def options(verb: str, **given: Any) -> Namespace:
    """What the command line gives."""
    return Namespace(**{"verb": verb, "node": None, "reason": "its memory is bad", "json": False} | given)


async def caught(store: Store) -> node.Quarantined:
    """The first quarantine, once everybody has heard of it."""
    await until(store, lambda: _any(store, node.Quarantined))
    async with store.read() as view:
        [first, *_] = await view.read(0, 10_000, [node.Quarantined.name()])
    await until(store, lambda: read_by(store, "trust", first.position))
    found: node.Quarantined = (await told(store, node.Quarantined))[0]
    return found


async def _any(store: Store, kind: type[Event]) -> bool:
    return bool(await told(store, kind))


@pytest.mark.parametrize("bad", ["n1", "n3"], ids=["leader", "other"])
def test_who_lies_about_a_canary_gets_no_more_games(engine: Engine, bad: str) -> None:
    """The liar and nobody else is quarantined, be it the leader; the others go on, and the command lists it."""

    async def story(store: Store) -> tuple[node.Quarantined, list[str], str, list[Any]]:
        async with fleet(store, bad):
            found = await caught(store)
            later = await batches(store, 20)
            listed = await command.do(store, options("list", json=True), "here")
            return found, later, listed, await told(store, node.Quarantined)

    found, later, listed, everyone = engine.run(story)

    assert found.node == bad
    assert found.reason.startswith("canary ")
    assert set(later) == {"n1", "n2", "n3"} - {bad}
    assert [one["node"] for one in json.loads(listed)] == [bad]
    assert [one.node for one in everyone] == [bad]


def test_a_released_node_plays_and_is_tried_again(engine: Engine) -> None:
    """Once mended it answers canaries and stays; without that it would be shut out again."""

    async def story(store: Store) -> tuple[str, list[str], str]:
        async with fleet(store) as hands:
            await caught(store)
            hands[BAD].lies = False
            text = await command.do(store, options("release", node=BAD), "here")
            start = store.position
            await until(store, lambda: _plays(store, start))
            await until(store, lambda: _tried(store))
            again = [event.node for event in await told(store, node.Quarantined, start)]
            return text, again, await command.do(store, options("list"), "here")

    assert engine.run(story) == (
        "n3 may play again; it is tried anew from its first game on", [], "no node is quarantined",
    )  # fmt: skip


async def _plays(store: Store, start: int) -> bool:
    return BAD in [event.node for event in await told(store, BatchFinished, start)]


async def _tried(store: Store) -> bool:
    return await answered(store, BAD) >= 4


def test_a_person_shuts_a_node_out_and_it_gives_its_games_back(engine: Engine) -> None:
    """In force with the command itself; what the node has under way is taken away and done by others."""

    async def story(store: Store) -> tuple[list[str], list[str], str]:
        async with fleet(store) as hands:
            hands[BAD].lies = False
            await batches(store, 3)
            await command.do(store, options("add", node="n2"), "here")
            await caught(store)
            later = await batches(store, 20)
            async with store.read() as view:
                held = [row.kind for row in await view.jobs(("claimed",), 100, holder="n2")]
            return later, held, await command.do(store, options("list"), "here")

    later, held, listed = engine.run(story)

    assert "n2" not in later
    assert not quarantine.REFUSED & set(held)
    assert "by hand: its memory is bad" in listed


def test_only_games_are_kept_from_a_quarantined_node(engine: Engine) -> None:
    """A claim passes over Play and Match, also those for this node alone, and gives everything else."""
    wanted = (
        Play(variant=VARIANT, model="m", games=1),
        Match(variant=VARIANT, candidate="greedy", baseline="random", purpose="canary", first=0, count=1, node="n2"),
        Verify(variant=VARIANT, model="m"),
        Sync(variant=VARIANT, blob="b", kind_of="games", source="n1"),
    )

    async def story(store: Store) -> list[list[str]]:
        async with AsyncExitStack() as stack:
            quiet = settings_of(SETTINGS, Member(id="n2", profile="minimal"))
            blobs = MemoryBlobs("n2")
            opened = Node.open(quiet, SystemClock(), Random(7), store=store, blobs=blobs, launch=Truth(blobs))
            made = await stack.enter_async_context(opened)
            await made.desk.ask(wanted)
            kinds = {job.kind() for job in wanted}
            await command.add(store, "n2", "why not", "here", 5.0)
            first = [lease.kind for lease in await made.desk.claim(kinds, 10)]
            await command.release(store, "n2", "here")
            return [sorted(first), sorted(lease.kind for lease in await made.desk.claim(kinds, 10))]

    assert engine.run(story) == [["sync", "verify"], ["match", "play"]]


def test_wrong_names_are_answered(engine: Engine) -> None:
    """Nobody unknown is shut out, nobody free released, and no name at all is asked for."""

    async def story(store: Store) -> int:
        with pytest.raises(UnknownName, match="unknown node 'n9'"):
            await command.do(store, options("add", node="n9"), "here")
        with pytest.raises(UnknownName, match="unknown quarantined node 'n1'"):
            await command.do(store, options("release", node="n1"), "here")
        with pytest.raises(InputError, match="which node"):
            await command.do(store, options("add"), "here")
        return store.position

    assert engine.run(story) == 0
