"""Verbs whose doings a test sees, and a node that makes its requests by hand."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import msgspec
import pytest

from contract.coordinator_rig import ADDRESS, WORKER, Coordinator, DirectWire
from ringrift.cluster.keys import StoredKey, store_keys
from ringrift.coordinator.gate import Gate
from ringrift.coordinator.verbs import Parts, Peer, Stream, Verb
from ringrift.kernel.errors import RingriftError
from ringrift.kernel.value import Value
from ringrift.kernel.wire_errors import KeyRefused, raise_from_reply
from ringrift.wire.connection import Connection
from ringrift.wire.keys import SigningKey
from ringrift.wire.ports import Reply, Request


class Count(Value):
    """The body and the answer of the verbs of these tests."""

    number: int = 0
    position: int = 0
    text: str = ""


class Ledger:
    """What the verbs of these tests did."""

    def __init__(self) -> None:
        self.runs: list[int] = []
        self.go = asyncio.Event()
        self.go.set()
        self.error: Exception | None = None
        self.streams = 0

    async def run(self, peer: Peer, body: Count, parts: Parts) -> Count:
        """Note *body*, then wait or fail as the test wants."""
        self.runs.append(body.number)
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return Count(number=len(self.runs), text=body.text)

    async def notes(self, peer: Peer, body: Count, parts: Parts) -> AsyncIterator[Count]:
        """One note, then nothing."""
        self.streams += 1
        try:
            yield Count(position=body.position + 1)
            await asyncio.Event().wait()
        finally:
            self.streams -= 1

    def verbs(self) -> dict[str, Verb]:
        """A verb that writes, one that reads and an urgent one."""
        rows = (
            Verb("write", Count, Count, "", self.run, writes=True),
            Verb("read", Count, Count, "", self.run),
            Verb("urgent", Count, Count, "", self.run, urgent=True, writes=True),
        )
        return {verb.name: verb for verb in rows}


class Caller:
    """A node that makes its requests by hand."""

    def __init__(self, coordinator: Coordinator, key: SigningKey, session: str = "") -> None:
        self.coordinator, self.key, self.session = coordinator, key, session

    def request(self, verb: str, number: int, body: Value | None = None) -> Request:
        data = msgspec.msgpack.encode(body if body is not None else Count(number=number))
        return self.key.sign(Request(verb=verb, body=data, node=self.key.node, session=self.session, number=number))

    async def ask(self, verb: str, number: int, body: Value | None = None) -> Reply:
        return await self.coordinator.gate.answer(self.request(verb, number, body))


async def caller(coordinator: Coordinator, ledger: Ledger | None = None, node: str = "w1", **limits: Any) -> Caller:
    """A node with a session; the gate has the verbs of *ledger* too."""
    key = SigningKey.make(node, Random(node))
    async with coordinator.store.begin() as tx:
        await store_keys(tx, [StoredKey(node=node, public=key.public, scopes=WORKER, profile="full")])
    coordinator.parts.keys.forget()
    if ledger is not None:
        old = coordinator.gate
        streams = {"numbers": Stream("numbers", Count, "", ledger.notes)}
        coordinator.gate = Gate(
            coordinator.parts, {**old._verbs, **ledger.verbs()}, {**old._streams, **streams}, **limits
        )
    connection = Connection(DirectWire(coordinator.gate), [ADDRESS], key, Random(1), boot="b1")
    return Caller(coordinator, key, await connection._open(5.0))


def refused(reply: Reply) -> RingriftError:
    """The error of *reply*."""
    assert reply.error
    with pytest.raises(RingriftError) as caught:
        raise_from_reply(reply.error, reply.text, reply.detail)
    return caught.value


def reason(reply: Reply) -> str:
    """Why *reply* refuses a key."""
    error = refused(reply)
    assert isinstance(error, KeyRefused)
    return error.reason
