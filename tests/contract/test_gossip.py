"""Gossip over real UDP sockets: members find each other and their dead, and a datagram without the key does nothing."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from ringrift.cluster.roster import GossipInvite
from ringrift.cluster.swim import SwimLimits
from ringrift.cluster.swim_packets import UPDATES_MAX, Address, MemberState, Packet, Update
from ringrift.cluster.swim_udp import _DATAGRAM_BYTES_MAX, _Gossip, _seal, _unseal
from ringrift.kernel.clock import SystemClock
from ringrift.threads import beside
from unit.worker_rig import DirectWire, coordinator, worker
from wait import wait_until

KEY, OTHER = b"k" * 32, b"o" * 32
LIMITS = SwimLimits(period_seconds=0.1, timeout_seconds=0.05)


@asynccontextmanager
async def member(name: str, seeds: Sequence[Address] = (), key: bytes = KEY) -> AsyncIterator[tuple[_Gossip, Address]]:
    """A member that runs."""
    gossip = _Gossip(name, key, SystemClock(), Random(name), LIMITS)
    port = await gossip.open("127.0.0.1", 0)
    try:
        async with beside(gossip.run(seeds, lambda: None)):
            yield gossip, ("127.0.0.1", port)
    finally:
        gossip.close()


def knows(gossip: _Gossip, *names: str) -> bool:
    """Whether it holds exactly these for alive."""
    return {row.name for row in gossip.swim.members.values() if row.state is MemberState.ALIVE} == set(names)


def test_three_members_find_each_other_and_the_dead_one() -> None:
    """Two dial the first; one of them dies without a word, and the others hold it for dead; one with another key is
    nobody's member."""

    async def story() -> None:
        async with AsyncExitStack() as stack:
            a, at = await stack.enter_async_context(member("a"))
            b, _ = await stack.enter_async_context(member("b", [at]))
            c, _ = await stack.enter_async_context(member("c", [at]))
            stranger, _ = await stack.enter_async_context(member("x", [at], OTHER))
            await wait_until(lambda: knows(a, "b", "c") and knows(b, "a", "c") and knows(c, "a", "b"), 10)
            assert c._transport is not None
            c._transport.abort()

            await wait_until(lambda: a.swim.dead() == b.swim.dead() == {"c"}, 15)
            await wait_until(lambda: a.dropped > 0, 10)
            assert knows(stranger)
            async with member("c", [at]) as (again, _):
                await wait_until(lambda: knows(a, "b", "c") and knows(again, "a", "b"), 15)

    asyncio.run(story())


def packet(updates: int = 1, name: str = "n") -> Packet:
    """A packet with so many *updates*."""
    state = MemberState.ALIVE
    rows = [Update(name=f"{name}{n}", state=state, incarnation=n, address=("10.0.0.1", 9)) for n in range(updates)]
    return Packet(kind="ping", sender="s", incarnation=3, number=7, updates=tuple(rows))


@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"\0" * 2000, _seal(packet(), OTHER), _seal(packet(), KEY)[:-1], b"\0" + _seal(packet(), KEY)[1:]],
    ids=["empty", "short", "long", "another key", "cut", "another code"],
)
def test_a_datagram_without_a_valid_code_is_no_packet(data: bytes) -> None:
    """Whatever it says."""
    assert _unseal(data, KEY) is None
    assert _unseal(_seal(packet(), KEY), KEY) == packet()


def test_a_member_is_reached_by_its_number_only() -> None:
    """A name as an address would be looked up by whoever gets it."""
    state, own = MemberState.ALIVE, packet()
    named = Update(name="n", state=state, incarnation=0, address=("evil.example", 53))

    assert _unseal(_seal(Packet(kind="ack", sender="s", incarnation=1, updates=(named,)), KEY), KEY) is None
    assert own.updates[0].address[0] == "10.0.0.1"


def test_a_datagram_is_never_too_long() -> None:
    """Names of the greatest length leave room for fewer updates; the first ones stay."""
    data = _seal(packet(UPDATES_MAX * 3, "n" * 60), KEY)
    cut = _unseal(data, KEY)

    assert len(data) <= _DATAGRAM_BYTES_MAX
    assert cut is not None
    assert 3 < len(cut.updates) < UPDATES_MAX * 3
    assert cut.updates == packet(UPDATES_MAX * 3, "n" * 60).updates[: len(cut.updates)]


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_coordinator_and_its_workers_gossip_once_they_are_told_to(tmp_path: Path) -> None:
    """The key comes with the answer to a heartbeat; a worker that vanishes is doubted, which its roster obeys; without
    the setting nothing of it runs."""

    async def story() -> None:
        wire, on = DirectWire(), {"cluster.swim": True, "wire.port": _free_port()}
        async with coordinator(tmp_path, wire, "w1", "w2", **on) as node:
            async with AsyncExitStack() as stack:
                first = await stack.enter_async_context(worker(tmp_path, wire, "w1", **{"cluster.swim": True}))
                second = await stack.enter_async_context(worker(tmp_path, wire, "w2"))
                await wait_until(lambda: isinstance(first.roster.invite, GossipInvite), 10)
                assert first.roster.invite == node.roster.invite
                assert "gossip" in {row.name for row in first.supervisor.statuses()}
                assert "gossip" not in {row.name for row in second.supervisor.statuses()}
            assert node.roster.invite is not None
            async with member("w3", [("127.0.0.1", node.roster.invite.port)], node.roster.invite.key) as (third, _):
                await wait_until(lambda: knows(third, "c1"), 10)
                assert third._transport is not None
                third._transport.abort()
                await wait_until(lambda: "w3" in node.roster.doubted, 30)

    asyncio.run(story())
