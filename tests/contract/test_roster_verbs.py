"""The verbs of membership: a heartbeat says what a worker may say of itself, and brings back what it needs to know."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from contract.coordinator_rig import ADDRESS, Coordinator, tell
from ringrift.cluster.activity import Activity
from ringrift.cluster.facts import NodeFacts
from ringrift.cluster.leadership import Leader
from ringrift.cluster.remote_roster import Beat, BeatAnswer, FindLeader
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.cluster.served import record_served
from ringrift.events import catalog
from ringrift.events.base import Envelope, Event
from ringrift.events.node import Joined
from ringrift.events.work import Progressed
from ringrift.jobs import Play
from ringrift.kernel.errors import InputError
from ringrift.kernel.wire_errors import Forbidden
from ringrift.work.run_states import RunStates, set_run_state
from wait import wait_until

MODEL = "ab" * 32


def test_a_worker_writes_its_own_record_alone(tmp_path: Path) -> None:
    """Whatever it says: not under another name, not as a holder of files, not as one that has left."""

    async def story(c: Coordinator) -> None:
        node = await c.node(beats=False)
        await node.beat(7, id="c", address="/etc", gone=True, boot="one")

        async with c.store.read() as view:
            [record] = await NODES.all(view)
        assert (record.id, record.address, record.gone, record.beat, record.facts.cores) == ("w1", "", False, 7, 2)

    tell(tmp_path, story)


def test_each_process_of_a_node_joins_once(tmp_path: Path) -> None:
    """The first heartbeat of a process is told, later ones are not."""

    async def story(c: Coordinator) -> None:
        node = await c.node(beats=False)
        for beat, boot in enumerate(("one", "one", "two", "two")):
            await node.beat(beat, boot=boot)

        assert [envelope.node for envelope in await c.log(Joined.name())] == ["w1", "w1"]

    tell(tmp_path, story)


def test_heartbeats_that_come_together_are_each_stored_and_told(tmp_path: Path) -> None:
    """They share a transaction; every node has its record, and has joined once."""

    async def story(c: Coordinator) -> None:
        nodes = [await c.node(f"w{number}", beats=False) for number in range(12)]
        await asyncio.gather(*(node.beat(5, boot=node.id) for node in nodes))
        await asyncio.gather(*(node.beat(6, boot=node.id) for node in nodes))

        async with c.store.read() as view:
            assert {record.id: record.beat for record in await NODES.all(view)} == {node.id: 6 for node in nodes}
        assert sorted(envelope.node for envelope in await c.log(Joined.name())) == sorted(node.id for node in nodes)

    tell(tmp_path, story)


@pytest.mark.parametrize(
    "changes",
    [
        {"wall": float("nan")},
        {"facts": NodeFacts(price=float("inf"))},
        {"labels": {"x": "y" * 40_000}},
        {"activity": Activity(), "machine": "m" * 40_000},
    ],
)
def test_a_record_that_could_not_be_read_again_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    """One worker cannot break the survey of all nodes, nor fill the store."""

    async def story(c: Coordinator) -> None:
        node = await c.node()

        with pytest.raises(InputError):
            await node.beat(9, **changes)

        async with c.store.read() as view:
            assert [record.beat for record in await NODES.all(view)] == [1]

    tell(tmp_path, story)


def test_an_answer_has_the_run_states_and_champions_for_islands(tmp_path: Path) -> None:
    """Brakes of an operator reach a worker by its next heartbeat; champions only one that may play."""

    async def story(c: Coordinator) -> None:
        await c.open_line("hex8_2p", MODEL)
        await c.open_line("hex8_3p")
        async with c.store.begin() as tx:
            now = c.parts.clock.now()
            await set_run_state(tx, c.parts.envelopes, now=now, scope="node:w1", state="draining", reason="r", by="op")
        node, trainer = await c.node(), await c.node("t", ("train",))
        record = NodeRecord(id="w1", profile="full", address="", beat=2)

        answer = await node.call("beat", Beat(record=record, island=True), BeatAnswer)

        states = msgspec.msgpack.decode(answer.run_states, type=RunStates)
        assert states.by_scope["node:w1"].state == "draining"
        assert answer.champions == {"hex8_2p": MODEL}
        assert not (await node.call("beat", Beat(record=record), BeatAnswer)).champions
        assert not (await trainer.call("beat", Beat(record=record, island=True), BeatAnswer)).champions

    tell(tmp_path, story)


def test_events_of_its_jobs_are_offered_here_under_its_own_name(tmp_path: Path) -> None:
    """Of jobs that it holds; others, and what is no event of a job, are left out."""
    seen = list[tuple[Event, Envelope]]()

    async def story(c: Coordinator) -> None:
        await c.enqueue(Play(variant="v", model=MODEL, games=2))
        node = await c.node()
        [lease] = await node.claim()
        c.parts.router.subscribe(Progressed, lambda event, envelope: seen.append((event, envelope)))
        shared = {"kind": "play", "variant": "v", "node": "c", "done": 0.5}
        events = [Progressed(job=job, **shared) for job in ("another", lease.job)]
        envelopes = [Envelope(id="", name=event.name(), body=catalog.encode(event)) for event in events]
        joined = catalog.encode(Joined(node="x", profile="full"))
        strange = [Envelope("", "node.joined", joined), Envelope("", "work.progressed", b"{")]
        record = NodeRecord(id="w1", profile="full", address="", beat=2, boot="b")

        await node.call("beat", Beat(record=record, events=(*strange, *envelopes)), BeatAnswer)

        await wait_until(lambda: len(seen) == 1)
        assert isinstance(seen[0][0], Progressed)
        assert (seen[0][0].job, seen[0][0].node) == (lease.job, "w1")
        assert not [envelope for envelope in await c.log(Joined.name()) if envelope.node == "x"]

    tell(tmp_path, story)


def test_any_key_learns_who_leads_and_where(tmp_path: Path) -> None:
    """Nobody, until a node holds the roles; a program's own roles do not count."""

    async def story(c: Coordinator) -> None:
        program = await c.node("p", ("publish",), beats=False)
        assert await program.call("leader", FindLeader(), Leader) == Leader()
        async with c.store.begin() as tx:
            await tx.hold_role("program.lock", "p", 9.0, None)
            assert (await program.call("leader", FindLeader(), Leader)).node == ""
        async with c.store.begin() as tx:
            await tx.hold_role("pipeline", "c", 9.0, None)
        assert await program.call("leader", FindLeader(), Leader) == Leader(node="c")
        await record_served(c.store, "c", ADDRESS)
        assert await program.call("leader", FindLeader(), Leader) == Leader(node="c", addresses=(ADDRESS,))
        with pytest.raises(Forbidden):
            await program.beat()

    tell(tmp_path, story)
