"""The verbs and streams of events: nothing that is said is evidence, and whoever follows the log misses no event."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from contract.coordinator_rig import Coordinator, RemoteNode, take, tell
from ringrift.bus.remote_log import EventsNote, FollowEvents
from ringrift.bus.remote_router import Publish
from ringrift.bus.remote_router import Published as Positions
from ringrift.events import catalog
from ringrift.events.alert import Cleared, Raised
from ringrift.events.base import Envelope, Event
from ringrift.events.custom import Published
from ringrift.events.daemon import Failed
from ringrift.events.node import Joined, Quarantined
from ringrift.events.selfplay import BatchFinished
from ringrift.events.work import Finished, RunStateChanged
from ringrift.jobs import Play, Train
from ringrift.kernel.errors import IdConflict, InputError, RingriftError
from ringrift.kernel.value import changed
from ringrift.kernel.wire_errors import Forbidden
from ringrift.work.remote_desk import WatchWork, WorkNote
from ringrift.work.run_states import set_run_state

PLAYER, PROGRAM, ADMIN = ("play",), ("publish", "read"), ("administer", "publish", "read")
BATCH = BatchFinished(variant="v", batch="ab" * 32, games=9, node="w1", model="cd" * 32)


def envelope(event: Event, id: str = "one", **fields: Any) -> Envelope:
    """The envelope of *event* as somebody sends it."""
    return changed(Envelope(id=id, name=event.name(), body=catalog.encode(event)), **fields)


async def publish(node: RemoteNode, *envelopes: Envelope) -> tuple[int, ...]:
    """Publish *envelopes*; their positions."""
    positions: tuple[int, ...] = (await node.call("publish", Publish(envelopes=envelopes), Positions)).positions
    return positions


def test_an_event_is_stored_as_that_of_the_node_and_once(tmp_path: Path) -> None:
    """Node, time and position are the coordinator's; the same id again is the same event, another body a conflict."""

    async def story(c: Coordinator) -> None:
        node = await c.node("p", PROGRAM, beats=False)
        note = envelope(Published(event="lab.note"), node="c", position=99, time=1.0, depth=-7)

        first = await publish(node, note)

        assert await publish(node, note) == first
        [stored] = await c.log(Published.name())
        assert (stored.node, (stored.position,), stored.depth) == ("p", first, 0)
        assert stored.time > 1.0
        with pytest.raises(IdConflict):
            await publish(node, envelope(Published(event="lab.other")))

    tell(tmp_path, story)


@pytest.mark.parametrize(
    "event",
    [
        BATCH,
        Quarantined(node="w1", reason="r", by="w1"),
        RunStateChanged(scope="cluster", state="paused", before="running"),
        Finished(job="j", kind="play", variant="v", node="w1", seconds=1.0),
    ],
)
def test_nobody_says_what_decisions_rest_on(tmp_path: Path, event: Event) -> None:
    """Not even an administrator: evidence comes from jobs under a lease; memory events are not stored."""

    async def story(c: Coordinator) -> None:
        for id, scopes in (("w1", (*PLAYER, "publish")), ("a", ADMIN)):
            with pytest.raises(InputError, match="cannot be published over the wire"):
                await publish(await c.node(id, scopes, beats=False), envelope(event))
        assert not await c.log(event.name())

    tell(tmp_path, story)


@pytest.mark.parametrize(
    ("event", "who"),
    [
        (Raised(kind="k", subject="w1", level="minor", detail="d"), "worker program admin"),
        (Cleared(kind="k", subject="w1/beat"), "worker program admin"),
        (Cleared(kind="k", subject="w10"), "program admin"),
        (Failed(daemon="beat", node="w1", error="e", times=1, seconds=1.0), "worker program admin"),
        (Failed(daemon="beat", node="c", error="e", times=1, seconds=1.0), "admin"),
        (Published(event="lab.note"), "program admin"),
        (Joined(node="w1", profile="full"), "program admin"),
        (Joined(node="c", profile="full"), "admin"),
    ],
)
def test_each_scope_may_say_so_much(tmp_path: Path, event: Event, who: str) -> None:
    """A worker speaks of itself, a program of anything but other nodes."""
    scopes = {"worker": PLAYER, "program": PROGRAM, "admin": ADMIN, "reader": ("read",)}

    async def story(c: Coordinator) -> None:
        allowed = []
        for name, granted in scopes.items():
            node = await c.node("w1", granted, beats=False)
            try:
                await publish(node, envelope(event, name))
            except Forbidden:
                continue
            allowed.append(name)
        assert allowed == who.split()

    tell(tmp_path, story)


@pytest.mark.parametrize(
    "bad",
    [
        Envelope("i", "lab.unknown", b"{}"),
        Envelope("i", "custom.published", b"{"),
        Envelope("i", "no name\n", b"{}"),
        Envelope("", "custom.published", catalog.encode(Published(event="x"))),
        Envelope("i", "custom.published", b"{" + b" " * catalog.SIZE_MAX + b"}"),
        changed(envelope(Published(event="x")), labels="l" * 5000),
    ],
)
def test_what_no_reader_could_read_is_refused_and_nothing_of_the_batch_is_stored(tmp_path: Path, bad: Envelope) -> None:
    """All or none, and by the rules that hold for everybody."""

    async def story(c: Coordinator) -> None:
        with pytest.raises(RingriftError):
            await publish(await c.node("p", PROGRAM, beats=False), envelope(Published(event="good"), "good"), bad)
        assert not await c.log(Published.name())

    tell(tmp_path, story)


def follow(node: RemoteNode, position: int = -1, *names: str, bodies: bool = True) -> AsyncIterator[EventsNote]:
    """The stream of events."""
    return node.connection.notes("events", FollowEvents(position=position, names=names, bodies=bodies), EventsNote)


async def events(notes: AsyncIterator[EventsNote], count: int) -> list[str]:
    """The names that *count* custom events of the stream were published under."""
    names = list[str]()
    while len(names) < count:
        for row in (await take(notes)).envelopes:
            event = catalog.decode(row.name, row.body)
            assert isinstance(event, Published)
            names.append(event.event)
    return names


def test_the_log_is_followed_from_a_position_on_and_as_it_grows(tmp_path: Path) -> None:
    """In order, by name, from now on if no position is given; a reader that returns goes on behind its last event."""

    async def story(c: Coordinator) -> None:
        node = await c.node("p", ADMIN, beats=False)
        for number in range(3):
            await publish(node, envelope(Published(event=f"n{number}"), str(number)))
        [first, *_] = await c.log(Published.name())
        new, old = follow(node), follow(node, first.position, Published.name())
        assert (await take(new)).position == c.store.position

        assert await events(old, 2) == ["n1", "n2"]
        await publish(node, envelope(Joined(node="x", profile="full"), "j"), envelope(Published(event="n3"), "3"))
        assert await events(old, 1) == ["n3"]
        [joined, note] = (await take(new)).envelopes
        assert (joined.name, note.position) == ("node.joined", c.store.position)

    tell(tmp_path, story)


def test_a_position_that_the_log_has_not_reached_is_refused(tmp_path: Path) -> None:
    """A restored store has an earlier log: whoever waited for more would miss all that comes before that position."""

    async def story(c: Coordinator) -> None:
        node = await c.node("p", PROGRAM, beats=False)
        [newest] = await publish(node, envelope(Published(event="lab.note")))
        assert (await take(follow(node, newest))).position == newest
        with pytest.raises(InputError, match="restored from a backup"):
            await take(follow(node, newest + 1000))

    tell(tmp_path, story)


def test_a_long_log_comes_in_notes_that_a_wire_carries(tmp_path: Path) -> None:
    """Many large events are divided, and none is missing."""

    async def story(c: Coordinator) -> None:
        node = await c.node("p", ADMIN, beats=False)
        large = [envelope(Published(event=f"n{n}", payload={"x": "y" * 60_000}), str(n)) for n in range(20)]
        await publish(node, *large)
        notes = follow(node, 0, Published.name())

        assert await events(notes, 20) == [f"n{n}" for n in range(20)]

    tell(tmp_path, story)


def test_wake_ups_tell_positions_alone(tmp_path: Path) -> None:
    """For programs that read the log in their own time."""

    async def story(c: Coordinator) -> None:
        node = await c.node("p", PROGRAM, beats=False)
        notes = follow(node, bodies=False)
        assert (await take(notes)).position == c.store.position
        [position] = await publish(node, envelope(Published(event="x")))
        note = await take(notes)
        assert (note.position, note.envelopes) == (position, ())

    tell(tmp_path, story)


def test_a_worker_does_not_follow_the_log(tmp_path: Path) -> None:
    """It needs the scope read."""

    async def story(c: Coordinator) -> None:
        with pytest.raises(Forbidden):
            await take(follow(await c.node()))

    tell(tmp_path, story)


def watch(node: RemoteNode, *kinds: str) -> AsyncIterator[WorkNote]:
    """The stream of wake-ups."""
    return node.connection.notes("work", WatchWork(kinds=kinds), WorkNote)


def play(seed: int) -> Play:
    """A job."""
    return Play(variant="v", model="ab" * 32, games=2, seed=seed)


def test_workers_are_woken_for_jobs_of_their_kinds(tmp_path: Path) -> None:
    """The run states come first, then a wake-up for what waits already and for what is new; not for other kinds."""

    async def story(c: Coordinator) -> None:
        await c.enqueue(play(0))
        player = watch(await c.node("p"), "play")
        trainer = watch(await c.node("t"), "train")

        states = [(await take(notes)).run_states for notes in (player, trainer)]
        assert all(row is not None and not row.by_scope for row in states)
        assert await take(player) == WorkNote(ready=True)
        waiting = asyncio.ensure_future(take(trainer, 20.0))
        await c.enqueue(play(1))
        assert (await take(player)).ready
        assert not waiting.done()
        await c.enqueue(Train(variant="v", generation=1))
        async with asyncio.timeout(5.0):
            assert (await waiting).ready

    tell(tmp_path, story)


def test_no_more_workers_are_woken_than_there_are_jobs_and_each_in_its_turn(tmp_path: Path) -> None:
    """One job wakes one of three; the next one another."""

    async def story(c: Coordinator) -> None:
        streams = [watch(await c.node(f"w{number}"), "play") for number in range(3)]
        for notes in streams:
            await take(notes)
        waiting = [asyncio.ensure_future(take(notes, 20.0)) for notes in streams]
        for count in (1, 2, 3):
            await c.enqueue(play(count))
            async with asyncio.timeout(5.0):
                await asyncio.wait([task for task in waiting if not task.done()], return_when=asyncio.FIRST_COMPLETED)
            assert [task.done() for task in waiting].count(True) == count

    tell(tmp_path, story)


def test_a_worker_without_room_is_not_woken_in_place_of_one_that_waits(tmp_path: Path) -> None:
    """Its claim was filled, so the next jobs wake the other one, also when it is not its turn."""

    async def story(c: Coordinator) -> None:
        busy, idle = await c.node("busy"), await c.node("idle")
        streams = [watch(node, "play") for node in (busy, idle)]
        for notes in streams:
            await take(notes)
        await c.enqueue(play(0))
        await take(streams[0])
        assert len(await busy.claim("play", limit=1)) == 1
        waiting = asyncio.ensure_future(take(streams[0], 60.0))
        for number in (1, 2):
            await c.enqueue(play(number))
            assert (await take(streams[1])).ready
            assert len(await idle.claim("play", limit=2)) == 1  # it has room for another
        assert not waiting.done()
        waiting.cancel()

    tell(tmp_path, story)


def test_jobs_that_still_wait_wake_another_worker(tmp_path: Path) -> None:
    """The one that was woken may not be able to do them."""

    async def story(c: Coordinator) -> None:
        streams = [watch(await c.node(f"w{number}"), "play") for number in range(2)]
        for notes in streams:
            await take(notes)
        await c.enqueue(play(0))

        assert (await take(streams[0], 20.0)).ready
        assert (await take(streams[1], 20.0)).ready

    tell(tmp_path, story)


def test_a_change_of_run_states_is_told_at_once(tmp_path: Path) -> None:
    """To every worker."""

    async def story(c: Coordinator) -> None:
        notes = watch(await c.node(), "play")
        await take(notes)
        async with c.store.begin() as tx:
            now = c.parts.clock.now()
            await set_run_state(tx, c.parts.envelopes, now=now, scope="cluster", state="emergency", reason="r", by="op")

        note = await take(notes)

        assert note.run_states is not None
        assert note.run_states.by_scope["cluster"].state == "emergency"

    tell(tmp_path, story)
