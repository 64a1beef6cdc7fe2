"""The verbs of peers: who has which files ready, which models a node should have, and from where it reads a file."""

from ringrift.cluster.peers import PEERS, READY_MAX, PeerRecord
from ringrift.coordinator.blob_verbs import require_readable
from ringrift.coordinator.event_verbs import READ
from ringrift.coordinator.verbs import WORK, Parts, Peer, Verb
from ringrift.kernel.errors import InputError
from ringrift.kernel.ids import check_blob
from ringrift.kernel.value import changed
from ringrift.kernel.wire_errors import KeyRefused
from ringrift.sync.blob_messages import BlobSource, FindBlob, FindIssuers, Issuers, ReadyBlobs, WantedBlobs
from ringrift.sync.tickets import Ticket
from ringrift.wire.address import is_loopback, parse_address, parse_ip
from ringrift.wire.keys import UNKNOWN

_CA_CHARACTERS_MAX = 8_192
_FAILED_MAX = 64
_MODEL_SCOPES = frozenset({"play", "evaluate"})  # a key with either needs models


async def _ready(peer: Peer, body: ReadyBlobs, parts: Parts) -> WantedBlobs:
    if len(body.blobs) > READY_MAX or len(body.ca) > _CA_CHARACTERS_MAX:
        raise InputError(f"{len(body.blobs)} files are reported at once: at most {READY_MAX}")
    table, now = parts.desks.peers, parts.clock.now()
    await table.refresh(parts.store, parts.roster)
    before = table.rows.get(peer.node)
    if before is None:
        async with parts.store.read() as view:
            before = await PEERS.get(view, peer.node) or PeerRecord(node=peer.node)
    ready = {check_blob(blob): before.ready.get(blob, now) for blob in body.blobs}
    address = _check_address(body.address, parts) if body.address else ""
    await table.put(changed(before, address=address, ca=body.ca, ready=ready), parts.store)
    table.sources.end(peer.node, body.blobs)
    return WantedBlobs(blobs=tuple(table.models) if _MODEL_SCOPES & peer.scopes else ())


def _check_address(text: str, parts: Parts) -> str:
    """*text* as an address that other nodes may be sent to.  Raises InputError.

    They send a ticket there, and nothing of what is answered goes on; still a worker must not point them to a service
    of their own machine, or to one that answers only within a cloud.
    """
    address, own = parse_address(text), parts.settings.wire
    ip = parse_ip(address.host)
    is_own = ip is not None and ip.is_loopback and is_loopback(own.bind)  # all nodes are on one machine
    if ip is None or not (is_own or not (ip.is_loopback or ip.is_unspecified or ip.is_link_local or ip.is_multicast)):
        raise InputError(f"peers cannot be sent to {text!r:.120}: serve at an IP address that they reach")
    return str(address)


async def _issuers(_: Peer, __: FindIssuers, parts: Parts) -> Issuers:
    return Issuers(keys=parts.desks.issuer.public_keys(await parts.keys.withdrawn()))


async def _find(peer: Peer, body: FindBlob, parts: Parts) -> BlobSource:
    check_blob(body.blob)
    if len(body.failed) > _FAILED_MAX:
        raise InputError(f"{len(body.failed)} peers failed: at most {_FAILED_MAX} are named")
    await require_readable(peer, [body.blob], parts)
    table = parts.desks.peers
    await table.refresh(parts.store, parts.roster)
    servers = {node for node, row in table.rows.items() if row.address}
    if not servers:
        return BlobSource()
    holders = [node for node, row in table.rows.items() if body.blob in row.ready]
    size = await _size(body.blob, parts)
    choose = table.sources.choose
    source = choose(peer.node, body.blob, size, holders=holders, servers=servers, failed=body.failed)
    if source is None:
        return BlobSource(wait_seconds=table.sources.pause_seconds)
    return await _grant(peer, body.blob, table.rows[source], parts) if source else BlobSource()


async def _size(blob: str, parts: Parts) -> int:
    """The size of *blob* here; one that only another node of the store has is not shared before it is here."""
    return sum(row.size for row in await parts.blobs.page(blob[:-1], 1) if row.blob == blob)


async def _grant(peer: Peer, blob: str, source: PeerRecord, parts: Parts) -> BlobSource:
    key = await parts.keys.get(peer.node)
    if key is None:
        raise KeyRefused(peer.node, UNKNOWN)
    ticket = Ticket(holder=source.node, reader=peer.node, public=key.row.public, blob=blob)
    signed = parts.desks.issuer.issue(ticket, await parts.keys.withdrawn())
    return BlobSource(node=source.node, address=source.address, ca=source.ca, ticket=signed)


VERBS = (
    Verb("blob.ready", ReadyBlobs, WantedBlobs, WORK, _ready),
    Verb("blob.issuers", FindIssuers, Issuers, WORK, _issuers),
    Verb("blob.find", FindBlob, BlobSource, f"{WORK} {READ}", _find),
)
