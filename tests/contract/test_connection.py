"""The client side of the wire: another address, another key, and what becomes of a lost answer."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from contract.coordinator_rig import ADDRESS, Coordinator, DirectWire, tell
from contract.gate_rig import Count, Ledger, caller
from contract.join_rig import ACT, OPERATOR, connect, joined, token_of
from ringrift.cluster.keys import KEYS, store_keys
from ringrift.coordinator.gate import Gate
from ringrift.coordinator.node_verbs import ChangeNode
from ringrift.kernel.errors import NodeAway, SettingsError
from ringrift.kernel.value import changed
from ringrift.kernel.wire_errors import KeyRefused
from ringrift.wire.connection import Connection, Nothing
from ringrift.wire.keys import SigningKey, load_key
from ringrift.wire.ports import Reply, Request
from wait import wait_until


class Lossy(DirectWire):
    """Loses the reply to *verb* once."""

    def __init__(self, gate: Gate, verb: str) -> None:
        super().__init__(gate)
        self.verb, self.is_lost = verb, False

    async def request(self, address: str, request: Request, seconds_max: float) -> Reply:
        reply = await super().request(address, request, seconds_max)
        if request.verb == self.verb and not self.is_lost:
            self.is_lost = True
            raise NodeAway(address)
        return reply


@pytest.mark.parametrize("lost", ["", "rotate", "hello", "challenge"])
def test_a_node_replaces_its_key_when_it_is_told_to(lost: str, tmp_path: Path) -> None:
    """With its next request, also if an answer is lost; the old key is refused, and the file has the new one."""

    async def story(coordinator: Coordinator) -> None:
        await joined(coordinator, await token_of(coordinator))
        path, old = tmp_path / "keys" / "node.json", SigningKey.make("w1", Random(1))
        old.save(path)
        connection = connect(coordinator, wire=Lossy(coordinator.gate, lost), key_path=path)
        await connection.call("leader", Nothing(), Nothing)
        await ACT["nodes.change"].run(OPERATOR, ChangeNode(node="w1", action="rotate"), coordinator.parts)
        coordinator.parts.keys.forget()
        await connection.call("leader", Nothing(), Nothing)

        new, next_key = load_key(path)
        assert next_key is None
        assert new.public != old.public
        async with coordinator.store.read() as view:
            key = await KEYS.get(view, "w1")
        assert key is not None
        assert (key.public, key.rotate) == (new.public, False)
        with pytest.raises(KeyRefused, match="wrong"):
            await connect(coordinator).call("leader", Nothing(), Nothing)

    tell(tmp_path, story)


class Holding(DirectWire):
    """Holds the first request of *verb* on its way; with *lose* it gets in first, and its reply is lost."""

    def __init__(self, gate: Gate, verb: str, *, lose: bool = False) -> None:
        super().__init__(gate)
        self.verb, self.lose, self.is_held, self.go = verb, lose, False, asyncio.Event()

    async def request(self, address: str, request: Request, seconds_max: float) -> Reply:
        if request.verb != self.verb or self.is_held:
            return await super().request(address, request, seconds_max)
        self.is_held = True
        if self.lose:
            await super().request(address, request, seconds_max)
        await self.go.wait()
        if self.lose:
            raise NodeAway(address)
        return await super().request(address, request, seconds_max)


def test_a_request_that_is_under_way_survives_a_rotation(tmp_path: Path) -> None:
    """It was signed by the old key, in a session of it: it is sent again, not refused for good."""

    async def story(coordinator: Coordinator) -> None:
        await joined(coordinator, await token_of(coordinator))
        wire = Holding(coordinator.gate, "leader")
        connection = connect(coordinator, wire=wire)
        late = asyncio.ensure_future(connection.call("leader", Nothing(), Nothing))
        await wait_until(lambda: wire.is_held)
        await ACT["nodes.change"].run(OPERATOR, ChangeNode(node="w1", action="rotate"), coordinator.parts)
        coordinator.parts.keys.forget()
        await connection.call("leader", Nothing(), Nothing)
        wire.go.set()
        await late
        assert len(await coordinator.log("node.key_changed")) == 2

    tell(tmp_path, story)


def test_a_connection_renumbers_what_the_coordinator_has_forgotten(tmp_path: Path) -> None:
    """A write whose reply was lost for long goes in again under a new number; the caller sees an answer."""

    async def story(coordinator: Coordinator) -> None:
        ledger = Ledger()
        node = await caller(coordinator, ledger)
        wire = Holding(coordinator.gate, "write", lose=True)
        connection = Connection(wire, [ADDRESS], node.key, Random(1), boot="b1")
        late = asyncio.ensure_future(connection.call("write", Count(number=9), Count))
        await wait_until(lambda: ledger.runs == [9])
        for _ in range(50):
            await connection.call("read", Count(), Count)
        wire.go.set()
        assert (await late).number == 52
        assert ledger.runs.count(9) == 2

    tell(tmp_path, story)


def test_a_process_that_died_while_it_rotated_goes_on_with_the_new_key(tmp_path: Path) -> None:
    """The new key was in the file before it was sent, so that the next process finds it."""

    async def story(coordinator: Coordinator) -> None:
        await joined(coordinator, await token_of(coordinator))
        path, old, new = tmp_path / "node.json", SigningKey.make("w1", Random(1)), SigningKey.make("w1", Random(9))
        old.save(path, new)
        async with coordinator.store.begin() as tx:
            row = await KEYS.get(tx, "w1")
            assert row is not None
            await store_keys(tx, [changed(row, public=new.public)])
        coordinator.parts.keys.forget()
        await connect(coordinator, key_path=path).call("leader", Nothing(), Nothing)
        assert load_key(path)[0].public == new.public

    tell(tmp_path, story)


class OneAddress(DirectWire):
    """Answers at one address alone."""

    def __init__(self, gate: Gate, alive: str) -> None:
        super().__init__(gate)
        self.alive = alive

    async def request(self, address: str, request: Request, seconds_max: float) -> Reply:
        if address != self.alive:
            raise NodeAway(address)
        return await super().request(address, request, seconds_max)


def test_a_connection_fails_over_to_the_address_that_answers(tmp_path: Path) -> None:
    """The same call succeeds at the next address; a coordinator of a restart is told hello first."""

    async def story(coordinator: Coordinator) -> None:
        await joined(coordinator, await token_of(coordinator))
        wire = OneAddress(coordinator.gate, "http://b:1")
        key = SigningKey.make("w1", Random(1))
        connection = Connection(wire, ["http://a:1", "http://b:1"], key, Random(1), boot="b1")
        await connection.call("leader", Nothing(), Nothing)
        assert connection.address == "http://b:1"
        assert connection.ready
        coordinator.parts.sessions.end_all("w1")
        wire.alive = "http://a:1"
        await connection.call("leader", Nothing(), Nothing)
        assert connection.address == "http://a:1"
        wire.alive = ""
        with pytest.raises(NodeAway):
            await connection.call("leader", Nothing(), Nothing, seconds_max=0.3)
        assert not connection.ready

    tell(tmp_path, story)


def test_a_worker_of_another_machine_does_not_learn_loopback_addresses() -> None:
    """What listens at 127.0.0.1 there is another coordinator, or none."""
    key = SigningKey.make("w1", Random(1))
    wire: Any = None
    far = Connection(wire, ["http://c.example:8770"], key, Random(1), boot="b")
    far.learn(["http://127.0.0.1:8770", "http://[::1]:8770", "http://0.0.0.0:8770", "http://d.example:8770"])
    assert far._addresses == ["http://c.example:8770", "http://d.example:8770"]
    near = Connection(wire, ["http://127.0.0.1:1"], key, Random(1), boot="b")
    near.learn(["http://127.0.0.1:2"])
    assert near._addresses == ["http://127.0.0.1:1", "http://127.0.0.1:2"]


def test_a_key_file_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    """It is written for its owner alone, whole, and no text of a key shows it."""
    path = tmp_path / "keys" / "node.json"
    key = SigningKey.make("w1", Random(1))
    key.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_key(path)[0].public == key.public
    seed = Random(1).getrandbits(256).to_bytes(32, "big")
    assert seed.hex() not in repr(key)
    path.chmod(0o640)
    with pytest.raises(SettingsError, match="others can read"):
        load_key(path)
    path.chmod(0o600)
    path.write_bytes(b"{}")
    with pytest.raises(SettingsError, match="join again"):
        load_key(path)
    with pytest.raises(SettingsError, match="not found"):
        load_key(tmp_path / "none")
