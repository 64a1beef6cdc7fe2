"""The gate of a coordinator: what is answered once, who is told apart, and what goes first under load."""

import asyncio
import hashlib
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from contract.coordinator_rig import ADDRESS, KINDS, Coordinator, DirectWire, RemoteNode, batch, take, tell
from contract.gate_rig import Count, Ledger, caller, reason, refused
from ringrift.cluster.keys import KEYS, revoke_key
from ringrift.coordinator.sessions import REPEAT_SECONDS_MAX
from ringrift.coordinator.verbs import Parts, Peer, Verb
from ringrift.events.node import KeyShared
from ringrift.jobs import Play
from ringrift.kernel.errors import Busy, LeaseLost, NodeAway, RingriftError
from ringrift.kernel.value import changed
from ringrift.kernel.wire_errors import KeyRefused
from ringrift.wire.connection import Connection, Leave, Nothing
from ringrift.wire.keys import NO_SESSION, REPLAYED
from ringrift.wire.ports import Reply, Request
from ringrift.work.remote_desk import Claim, Claimed
from unit.kernel.manual_clock import ManualClock
from wait import wait_until

PLAY = Play(variant="square8_2p", model="a" * 64, games=2, seed=1)


def test_a_write_is_done_once_however_often_it_is_sent(tmp_path: Path) -> None:
    """The same number gets the same reply, also while the first one is still under way."""

    async def story(coordinator: Coordinator) -> None:
        ledger = Ledger()
        node = await caller(coordinator, ledger)
        ledger.go.clear()
        twins = [asyncio.ensure_future(node.ask("write", 1)) for _ in range(3)]
        await wait_until(lambda: ledger.runs == [1])
        ledger.go.set()
        replies = [*await asyncio.gather(*twins), await node.ask("write", 1)]

        assert ledger.runs == [1]
        assert len({reply.body for reply in replies}) == 1

    tell(tmp_path, story)


def test_long_replies_are_remembered_up_to_a_limit(tmp_path: Path) -> None:
    """A batch of leases is repeated as it was; of more than a megabyte in all the oldest are made again."""

    async def story(coordinator: Coordinator) -> None:
        ledger = Ledger()
        node = await caller(coordinator, ledger)
        bodies = {number: Count(number=number, text="x" * 300_000) for number in range(1, 5)}
        for number, body in bodies.items():
            await node.ask("write", number, body)
        for number in (4, 3, 2):
            await node.ask("write", number, bodies[number])
        assert ledger.runs == [1, 2, 3, 4]
        await node.ask("write", 1, bodies[1])
        assert ledger.runs == [1, 2, 3, 4, 1]

    tell(tmp_path, story)


def test_an_error_is_repeated_and_a_passing_one_is_tried_again(tmp_path: Path) -> None:
    """Busy changed nothing: the same number is carried out when it comes again.  Another error is the answer."""

    async def story(coordinator: Coordinator) -> None:
        ledger = Ledger()
        node = await caller(coordinator, ledger)
        ledger.error = Busy("the store", "it rests")
        reply = await node.ask("write", 1)
        assert isinstance(refused(reply), Busy)
        assert reply.wait_seconds > 0
        ledger.error = LeaseLost(["j1"])
        assert isinstance(refused(await node.ask("write", 1)), LeaseLost)
        ledger.error = None
        assert isinstance(refused(await node.ask("write", 1)), LeaseLost)
        assert ledger.runs == [1, 1]

    tell(tmp_path, story)


def test_a_verb_that_breaks_is_a_reply_without_its_details(tmp_path: Path) -> None:
    """What went wrong inside is for the log of the coordinator."""

    async def story(coordinator: Coordinator) -> None:
        ledger = Ledger()
        node = await caller(coordinator, ledger)
        ledger.error = ZeroDivisionError("/secret/path")
        reply = await node.ask("read", 1)
        assert reply.error == "WireError"
        assert "/secret/path" not in reply.text

    tell(tmp_path, story)


def test_old_numbers_are_not_answered_again(tmp_path: Path) -> None:
    """A number below all that are remembered may have been answered: it is refused, and so is a late repeat."""

    async def story(coordinator: Coordinator) -> None:
        ledger, clock = Ledger(), coordinator.parts.clock
        assert isinstance(clock, ManualClock)
        node = await caller(coordinator, ledger)
        assert not (await node.ask("read", 1)).error
        assert not (await node.ask("read", 1)).error, "its reply may have been lost"
        clock.seconds += REPEAT_SECONDS_MAX + 1
        assert reason(await node.ask("read", 1)) == REPLAYED
        for number in range(2, 60):
            await node.ask("write", number)
        count = len(ledger.runs)
        for number in (0, -1, 1, 2):
            assert reason(await node.ask("write", number)) == REPLAYED
        assert len(ledger.runs) == count

    tell(tmp_path, story, ManualClock())


def test_a_hello_of_a_new_process_ends_the_session_of_the_old_one(tmp_path: Path) -> None:
    """A restarted worker is back at once; nothing is wrong with its key."""

    async def story(coordinator: Coordinator) -> None:
        ledger = Ledger()
        old = await caller(coordinator, ledger)
        wire = DirectWire(coordinator.gate)
        new = Connection(wire, [ADDRESS], old.key, Random(2), boot="b2")
        await new.call("write", Count(), Count)
        assert reason(await old.ask("write", 1)) == NO_SESSION
        assert not await coordinator.log(KeyShared.name())
        await new.call("write", Count(), Count)

    tell(tmp_path, story)


def test_two_processes_with_one_key_are_found_and_get_no_work(tmp_path: Path) -> None:
    """The one that was ended says hello again: both are named, neither claims, both deliver, until it is rotated."""

    async def story(coordinator: Coordinator) -> None:
        first = await coordinator.node("w1")
        await coordinator.enqueue(PLAY)
        [lease] = await first.claim()
        key, wire = first.connection._key, DirectWire(coordinator.gate)
        twin = Connection(wire, [ADDRESS], key, Random(2), boot="twin", machine="m2")
        await twin.call("leader", Nothing(), Nothing)
        assert not await coordinator.log(KeyShared.name()), "so far it may be a restart"

        blob = await _upload(first)
        assert not (await first.finish((lease, batch(blob)))).lost, "its result counts"
        [envelope] = await coordinator.log(KeyShared.name())
        processes = msgspec.json.decode(envelope.body)["processes"]
        assert "twin on m2" in processes
        assert "of w1" in processes
        await coordinator.enqueue(changed(PLAY, seed=2))
        for process in (first.connection, twin):
            with pytest.raises(Busy, match="two processes"):
                await _claim(process)
            await process.call("leader", Nothing(), Nothing)

        await twin._rotate(5.0)
        with pytest.raises(KeyRefused):
            await _claim(first.connection)
        answer = await _claim(twin)
        assert len(answer["leases"]) == 1

    tell(tmp_path, story)


async def _claim(connection: Connection) -> Any:
    answer = await connection.call("claim", Claim(kinds=KINDS, limit=1), Claimed, seconds_max=0.2)
    return msgspec.to_builtins(answer)


async def _upload(node: RemoteNode) -> str:
    data = b"games of w1"
    blob = hashlib.sha256(data).hexdigest()
    await node.upload(blob, data)
    return blob


def test_a_copy_of_a_process_is_found_by_its_numbers(tmp_path: Path) -> None:
    """A copied machine goes on in the same session: two requests under one number give it away."""

    async def story(coordinator: Coordinator) -> None:
        ledger = Ledger()
        node = await caller(coordinator, ledger)
        await node.ask("write", 1, Count(number=1))
        assert reason(await node.ask("write", 1, Count(number=2))) == NO_SESSION
        assert ledger.runs == [1]
        async with coordinator.store.read() as view:
            key = await KEYS.get(view, "w1")
        assert key is not None
        assert "copy" in key.shared

    tell(tmp_path, story)


def test_a_late_hello_of_a_dead_process_is_no_sign_of_life(tmp_path: Path) -> None:
    """A hello that was signed before the newer process came may arrive after it: nobody is accused."""

    async def story(coordinator: Coordinator) -> None:
        node = await coordinator.node("w1")
        hellos: list[Request] = []

        class Late(DirectWire):
            async def request(self, address: str, request: Request, seconds_max: float) -> Reply:
                if request.verb == "hello":
                    hellos.append(request)
                    raise NodeAway("late")
                return await super().request(address, request, seconds_max)

        key = node.connection._key
        with pytest.raises(NodeAway):
            await Connection(Late(coordinator.gate), [ADDRESS], key, Random(1), boot="boot of w1").call(
                "leader", Nothing(), Nothing, seconds_max=0.1
            )
        new = Connection(DirectWire(coordinator.gate), [ADDRESS], key, Random(1), boot="b2")
        await new.call("leader", Nothing(), Nothing)
        await coordinator.gate.answer(hellos[0])
        assert not await coordinator.log(KeyShared.name())

    tell(tmp_path, story)


def test_the_same_hello_twice_is_one_session(tmp_path: Path) -> None:
    """A hello that a network doubles does not end the session that it opened; replayed later it opens none."""

    async def story(coordinator: Coordinator) -> None:
        hellos: list[Request] = []

        class Doubling(DirectWire):
            async def request(self, address: str, request: Request, seconds_max: float) -> Reply:
                reply = await super().request(address, request, seconds_max)
                if request.verb == "hello":
                    hellos.append(request)
                    assert await super().request(address, request, seconds_max) == reply
                return reply

        ledger = Ledger()
        node = await caller(coordinator, ledger)
        connection = Connection(Doubling(coordinator.gate), [ADDRESS], node.key, Random(1), boot="b1")
        await connection.call("write", Count(), Count)
        await connection.call("leave", Leave(), Nothing)
        assert reason(await coordinator.gate.answer(hellos[0])) == "challenge too old"

    tell(tmp_path, story)


def test_a_revoked_key_is_refused_within_a_second_and_its_streams_end(tmp_path: Path) -> None:
    """The row is changed by another process: this one looks at most a second later."""

    async def story(coordinator: Coordinator) -> None:
        ledger = Ledger()
        node = await caller(coordinator, ledger)
        notes = coordinator.gate.notes(node.request("numbers", 1))
        await take(notes)
        async with coordinator.store.begin() as tx:
            await revoke_key(tx, "w1", "lost")
        begun = asyncio.get_running_loop().time()
        with pytest.raises(KeyRefused):
            await take(notes)
        assert asyncio.get_running_loop().time() - begun < 4.0
        assert reason(await node.ask("read", 2)) == "revoked"
        assert ledger.streams == 0
        assert coordinator.gate._watcher is None

    tell(tmp_path, story)


def test_a_stream_is_opened_once_by_one_request(tmp_path: Path) -> None:
    """Who records the request of a stream cannot open it again, and nobody opens streams without limit."""

    async def story(coordinator: Coordinator) -> None:
        ledger = Ledger()
        node = await caller(coordinator, ledger)
        notes = coordinator.gate.notes(node.request("numbers", 1))
        await take(notes)
        with pytest.raises(KeyRefused) as caught:
            await take(coordinator.gate.notes(node.request("numbers", 1)))
        assert caught.value.reason == REPLAYED
        more = [coordinator.gate.notes(node.request("numbers", number)) for number in range(2, 9)]
        for stream in more:
            await take(stream)
        with pytest.raises(RingriftError, match="full"):
            await take(coordinator.gate.notes(node.request("numbers", 9)))
        for stream in (notes, *more):
            await stream.aclose()  # type: ignore[attr-defined]  # it is a generator
        assert ledger.streams == 0

    tell(tmp_path, story)


def test_the_trace_of_the_caller_goes_on_in_the_verb(tmp_path: Path) -> None:
    """Events of a verb have the trace of the request; a header that is none is left out."""

    async def story(coordinator: Coordinator) -> None:
        ledger = Ledger()
        seen: list[str] = []
        node = await caller(coordinator, ledger)

        async def look(peer: Peer, body: Count, parts: Parts) -> Count:
            seen.append(parts.envelopes.make(KeyShared(node="x", processes="y")).trace)
            return body

        coordinator.gate._verbs = {**coordinator.gate._verbs, "look": Verb("look", Count, Count, "", look)}
        trace = "0af7651916cd43dd8448eb211c80319c"
        for number, header in ((1, f"00-{trace}-b7ad6b7169203331-01"), (2, "nonsense")):
            await coordinator.gate.answer(changed(node.request("look", number), trace=header))
        assert seen[0] == trace
        assert seen[1] != trace

    tell(tmp_path, story)
