"""Gossip over UDP: carries the packets of SWIM between the nodes of a cluster, and hands its opinion to the roster.

A coordinator makes a new key whenever it starts and gives it out in its answers to heartbeats, which are authenticated.
A datagram without a valid code under that key is dropped.  What gossip says only shortens the suspicion of a node that
sends no heartbeats, so that neither a forged nor a lost datagram can do more.
"""

import asyncio
import hmac
import ipaddress
import logging
from collections.abc import Callable, Sequence
from random import Random

import msgspec

from ringrift.cluster.remote_roster import RemoteRoster
from ringrift.cluster.roster import GossipInvite, Roster
from ringrift.cluster.swim import Swim, SwimLimits
from ringrift.cluster.swim_packets import Address, Packet, Send
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import InputError
from ringrift.kernel.settings import Settings
from ringrift.supervision.spec import Daemon
from ringrift.wire.address import parse_address
from ringrift.wire.keys import secret_rng

_KEY_BITS = 256
_CODE_BYTES = 16
_DATAGRAM_BYTES_MAX = 1400  # what every network carries in one piece
_JOIN_SECONDS = 5.0  # between two tries to reach a coordinator while no other member is known
_ALIVE_SECONDS = 1.0
_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Packet)
log = logging.getLogger(__name__)


def _seal(packet: Packet, key: bytes) -> bytes:
    """The datagram of *packet*; updates that do not fit are left out, the last first: they are sent again."""
    while True:
        body = _ENCODER.encode(packet)
        if len(body) + _CODE_BYTES <= _DATAGRAM_BYTES_MAX or not packet.updates:
            return _code(body, key) + body
        packet = msgspec.structs.replace(packet, updates=packet.updates[:-1])


def _unseal(data: bytes, key: bytes) -> Packet | None:
    """The packet in *data*; None if it has no valid code, or is none."""
    code, body = data[:_CODE_BYTES], data[_CODE_BYTES:]
    if len(data) > _DATAGRAM_BYTES_MAX or not hmac.compare_digest(code, _code(body, key)):
        return None
    try:
        packet = _DECODER.decode(body)
        for update in packet.updates:
            if update.address[0]:
                ipaddress.ip_address(update.address[0])  # a name would have to be looked up
    except (msgspec.DecodeError, ValueError):
        return None
    return packet


def _code(body: bytes, key: bytes) -> bytes:
    return hmac.digest(key, body, "sha256")[:_CODE_BYTES]


class _Gossip(asyncio.DatagramProtocol):
    """One member with its socket."""

    def __init__(self, name: str, key: bytes, clock: Clock, rng: Random, limits: SwimLimits | None = None) -> None:
        self.swim, self._key, self._clock = Swim(name, rng, clock.tick(), limits), key, clock
        self._transport: asyncio.DatagramTransport | None = None
        self._joined_at = -_JOIN_SECONDS
        self.dropped = 0  # datagrams that were not valid

    async def open(self, host: str, port: int) -> int:
        """Open the socket; its port."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=(host, port))
        return int(self._transport.get_extra_info("sockname")[1])

    def close(self) -> None:
        """Leave in good order, as far as datagrams arrive."""
        if self._transport is not None:
            self._send(self.swim.leave())
            self._transport.close()

    async def run(self, seeds: Sequence[Address], on_tick: Callable[[], None]) -> None:
        """Take part until cancelled; *on_tick* is called at least every second."""
        while True:
            tick = self._clock.tick()
            if seeds and not self._knows_others() and tick - self._joined_at >= _JOIN_SECONDS:
                self._joined_at = tick
                self._send(self.swim.join(seeds))
            if tick >= self.swim.next_due():
                self._send(self.swim.tick(tick))
            on_tick()
            await asyncio.sleep(min(max(self.swim.next_due() - self._clock.tick(), 0.01), _ALIVE_SECONDS))

    def _knows_others(self) -> bool:
        return len(self.swim.members) > len(self.swim.dead())

    def _send(self, sends: Sequence[Send]) -> None:
        for address, packet in sends:
            if self._transport is not None and not self._transport.is_closing():
                self._transport.sendto(_seal(packet, self._key), address)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        packet = _unseal(data, self._key)
        if packet is None:
            self.dropped += 1
        else:
            self._send(self.swim.receive(packet, (addr[0], addr[1]), self._clock.tick()))

    def error_received(self, exc: Exception) -> None:
        """A member that cannot be reached is found by its probes."""


def gossip_daemons(
    settings: Settings, node: str, roster: Roster | RemoteRoster, clock: Clock, rng: Random
) -> tuple[Daemon, ...]:
    """The daemon that takes part in gossip, if settings say so: beside the wire of a coordinator, or on a worker."""
    if not settings.cluster.swim or not (settings.wire.serve or settings.node.coordinators):
        return ()

    async def gossip(*, alive: Callable[[], None]) -> None:
        if isinstance(roster, Roster):
            await _gossip_as_coordinator(settings, node, roster, clock, rng, alive)
        else:
            await _gossip_as_worker(settings, node, roster, clock, rng, alive)

    return (Daemon(name="gossip", run=gossip, serve=True, store=False, after=("beat",), category="health"),)


async def _gossip_as_coordinator(
    settings: Settings, node: str, roster: Roster, clock: Clock, rng: Random, alive: Callable[[], None]
) -> None:
    """Gossip at the port of the wire, and let the roster know which nodes are held for dead."""
    key = secret_rng(clock, rng).getrandbits(_KEY_BITS).to_bytes(_KEY_BITS // 8, "big")
    member = _Gossip(node, key, clock, rng)

    def on_tick() -> None:
        alive()
        roster.doubted = member.swim.dead()

    try:
        roster.invite = GossipInvite(key=key, port=await member.open(settings.wire.bind, settings.wire.port))
        await member.run((), on_tick)
    finally:
        roster.invite, roster.doubted = None, ()
        member.close()


async def _gossip_as_worker(
    settings: Settings, node: str, roster: RemoteRoster, clock: Clock, rng: Random, alive: Callable[[], None]
) -> None:
    """Gossip while the coordinator invites to it; anew when it has another key, because it was started again."""
    while True:
        invite = roster.invite
        if invite is not None:
            await _gossip_by_invite(settings, node, roster, invite, clock, rng, alive)
        alive()
        await asyncio.sleep(_ALIVE_SECONDS)


class _Uninvited(Exception):
    """The invitation has changed."""


async def _gossip_by_invite(
    settings: Settings,
    node: str,
    roster: RemoteRoster,
    invite: GossipInvite,
    clock: Clock,
    rng: Random,
    alive: Callable[[], None],
) -> None:
    member, seeds = _Gossip(node, invite.key, clock, rng), await _find_seeds(settings.node.coordinators, invite.port)
    if not seeds:
        return
    seed = ipaddress.ip_address(seeds[0][0])
    hosts = ("127.0.0.1", "0.0.0.0") if seed.version == 4 else ("::1", "::")

    def on_tick() -> None:
        alive()
        if roster.invite != invite:
            raise _Uninvited

    try:
        await member.open(hosts[not seed.is_loopback], 0)  # beyond this machine too, every datagram is authenticated
        await member.run(seeds, on_tick)
    except _Uninvited:
        return
    finally:
        member.close()


async def _find_seeds(coordinators: Sequence[str], port: int) -> list[Address]:
    """The addresses at which the coordinators gossip; those whose names cannot be found are left out."""
    seeds: list[Address] = []
    for text in coordinators:
        try:
            rows = await asyncio.get_running_loop().getaddrinfo(parse_address(text).host, port)
        except (InputError, OSError) as error:
            log.warning("no gossip with %s: %s", text, error)
            continue
        hosts = sorted({str(row[4][0]) for row in rows}, key=lambda host: ":" in host)  # IPv4 first, as a wire binds
        seeds += [(host, port) for host in hosts[:1]]
    return seeds
