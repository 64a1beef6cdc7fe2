"""Peers serve peers: a file leaves the coordinator once, whatever breaks on the way, and only who may read it does."""

import asyncio
from pathlib import Path
from random import Random

import msgspec
import pytest

from ringrift.cluster.keys import revoke_key
from ringrift.cluster.peers import PEERS, PeerRecord
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import InputError, InvalidPayload, NodeAway, RingriftError
from ringrift.kernel.settings import Settings, WireSettings
from ringrift.kernel.value import changed
from ringrift.kernel.wire_errors import Forbidden, KeyRefused, LinkBroken, raise_from_reply
from ringrift.pipeline.line import LINES, Line
from ringrift.sync.blob_messages import BlobPiece, BlobSource, FindBlob, PeerRead, ReadyBlobs, WantedBlobs
from ringrift.sync.peer_port import open_peer_port
from ringrift.sync.tickets import Ticket, TicketIssuer
from ringrift.sync.wants import TransferClass
from ringrift.wire.keys import SigningKey
from ringrift.wire.open import open_wire
from ringrift.wire.ports import CHUNK_BYTES, Reply, Request
from unit.sync.peer_rig import DATA, PIECES, Fleet, Member, tell
from unit.worker_rig import key_of
from wait import wait_until


async def find(member: Member, blob: str, *failed: str) -> BlobSource:
    """From where the coordinator sends *member*."""
    return await member.connection.call("blob.find", FindBlob(blob=blob, failed=failed), BlobSource)


async def ask(
    source: BlobSource, key: SigningKey, blob: str, *, offset: int = 0, verb: str = "blob.read", node: str = ""
) -> BlobPiece:
    """Ask the peer of *source* with its ticket, signed by *key*.  Raises what it is refused with."""
    body = msgspec.msgpack.encode(PeerRead(blob=blob, offset=offset, size=CHUNK_BYTES, ticket=source.ticket))
    wire = open_wire(WireSettings(), authority=source.ca)
    try:
        request = key.sign(Request(verb=verb, body=body, node=node or key.node, number=1))
        reply = await wire.request(source.address, request, 5.0)
    finally:
        wire.close()
    if reply.error:
        raise_from_reply(reply.error, reply.text, reply.detail)
    return msgspec.msgpack.decode(reply.body, type=BlobPiece)


def test_a_worker_fetches_from_a_peer_first(tmp_path: Path) -> None:
    """Once one has it, the coordinator is asked for no piece any more; small files it sends itself."""

    async def story(fleet: Fleet) -> None:
        one, two, three = await fleet.add("w1"), await fleet.add("w2"), await fleet.add("w3", serves=False)
        blob, small = await fleet.put(), await fleet.put(b"small")
        await one.cache.fetch([blob, small])
        await one.file_share.report()
        reads = fleet.reads

        await two.cache.fetch([blob])
        assert fleet.reads == reads
        assert await two.has(blob)
        assert one.sent == len(DATA)
        await three.cache.fetch([blob])
        assert fleet.reads == reads
        await two.cache.fetch([small])
        assert fleet.reads == reads + 1

    tell(tmp_path, story)


def test_it_is_remembered_since_when_a_node_has_a_file(tmp_path: Path) -> None:
    """By the first report of it; a report that says nothing new writes nothing, and a file that is gone is left out."""

    async def story(fleet: Fleet) -> None:
        one, blob, other = await fleet.add("w1"), await fleet.put(b"one"), await fleet.put(b"other")

        async def row() -> PeerRecord:
            async with fleet.node.store.read() as view:
                return await PEERS.get(view, "w1") or PeerRecord(node="")

        await one.cache.fetch([blob])
        await one.file_share.report()
        first = await row()
        await one.cache.fetch([other])
        await one.file_share.report()
        both = await row()
        assert list(first.ready) == [blob]
        assert both.ready == {**first.ready, other: both.ready[other]}
        await one.blobs.delete([blob], before=fleet.node.clock.now() + 9.0)
        await one.cache.trim([], 1 << 30, 0.0)
        await one.file_share.report()
        assert (await row()).ready == {other: both.ready[other]}

    tell(tmp_path, story)


def test_a_large_file_leaves_the_coordinator_once_at_a_time(tmp_path: Path) -> None:
    """All ask at the same moment: who has the beginning passes it on, and who may not serve gets it from the others.

    Whoever asks when nobody else reads here, and all peers send already, gets it from here again.
    """

    async def story(fleet: Fleet) -> None:
        members = [await fleet.add(f"w{number}", serves=number % 3 != 2) for number in range(9)]
        blob, begin = await fleet.put(), asyncio.get_running_loop().create_task
        first = begin(members[0].cache.fetch([blob]))
        await wait_until(lambda: fleet.wire.calls["blob.find"] > 0)
        await asyncio.gather(first, *(member.cache.fetch([blob]) for member in members[1:]))
        assert all([await member.has(blob) for member in members])
        assert fleet.reads <= 3 * PIECES
        assert sum(member.sent for member in members) >= 6 * len(DATA)

    tell(tmp_path, story)


def test_without_peers_that_serve_nobody_waits(tmp_path: Path) -> None:
    """Then each gets it from the coordinator at once."""

    async def story(fleet: Fleet) -> None:
        members = [await fleet.add(f"w{number}", serves=False) for number in range(3)]
        blob = await fleet.put()
        sources = [await find(member, blob) for member in members]
        assert sources == [BlobSource()] * 3

    tell(tmp_path, story)


class Spoiled:
    """Answers as a peer does that is broken: *how* says in which way."""

    def __init__(self, peer: Member, how: str) -> None:
        self._peer, self._how, self.requests = peer, how, 0

    async def answer(self, request: Request) -> Reply:
        self.requests += 1
        reply = await self._peer.file_share.service.answer(request)
        if reply.error or self.requests < 3:
            return reply
        piece = msgspec.msgpack.decode(reply.body, type=BlobPiece)
        bad = {"flips": changed(piece, data=piece.data[:-1] + bytes([piece.data[-1] ^ 1]))}
        bad |= {"truncates": changed(piece, data=b""), "lies": changed(piece, total=1 << 40)}
        bad |= {"repeats": changed(piece, data=piece.data + piece.data)}
        return Reply(body=b"\xc1") if self._how == "garbles" else Reply(body=msgspec.msgpack.encode(bad[self._how]))

    def notes(self, request: Request) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("how", ["flips", "truncates", "lies", "repeats", "garbles"])
def test_a_peer_that_sends_something_else_costs_time_only(tmp_path: Path, how: str) -> None:
    """The file arrives whole from elsewhere, and what the peer sent is never seen under its name."""

    async def story(fleet: Fleet) -> None:
        one, two = await fleet.add("w1"), await fleet.add("w2")
        blob = await fleet.put()
        await one.cache.fetch([blob])
        spoiled, wire = Spoiled(one, how), open_wire(WireSettings())
        async with wire.serve("127.0.0.1:0", spoiled) as address:
            one.file_share._address = address
            await one.file_share.report()
            await two.cache.fetch([blob])
        assert spoiled.requests >= 3
        assert await two.has(blob)
        assert b"".join([chunk async for chunk in two.blobs.read(blob)]) == DATA
        assert not await two.blobs.parts()

    tell(tmp_path, story)


@pytest.mark.parametrize("how", ["truncates", "lies", "repeats", "garbles"])
def test_an_answer_that_does_not_fit_the_question_ends_the_link(tmp_path: Path, how: str) -> None:
    """At once, before anything of it is written; only wrong bytes are left to the hash."""

    async def story(fleet: Fleet) -> None:
        one, two = await fleet.add("w1"), await fleet.add("w2")
        blob = await fleet.put()
        await one.cache.fetch([blob])
        wire = open_wire(WireSettings())
        async with wire.serve("127.0.0.1:0", Spoiled(one, how)) as address:
            one.file_share._address = address
            await one.file_share.report()
            source, received = await find(two, blob), list[bytes]()

            async def receive() -> None:
                async for piece in two.peers.pieces(source, blob, 0):
                    received.append(piece.data)

            with pytest.raises(LinkBroken):
                await receive()
        assert DATA.startswith(b"".join(received))

    tell(tmp_path, story)


def test_a_peer_that_dies_in_the_middle_is_gone_on_without(tmp_path: Path) -> None:
    """From where it broke off: the coordinator sends the rest only."""

    async def story(fleet: Fleet) -> None:
        one, two = await fleet.add("w1"), await fleet.add("w2")
        blob = await fleet.put()
        await one.cache.fetch([blob])
        await one.file_share.report()
        reads, pieces = fleet.reads, two.peers.pieces(await find(two, blob), blob, 0)
        part = two.blobs.part(blob, "fetch")
        await part.open()
        for _ in range(3):
            await part.append((await anext(pieces)).data)
        await pieces.aclose()
        await part.close(keep=True)  # its process was killed here, and so is the peer
        one.file_share._address = "http://127.0.0.1:9"
        await one.file_share.report()

        await two.cache.fetch([blob])
        assert await two.has(blob)
        assert fleet.reads - reads <= PIECES + 1 - 3

    tell(tmp_path, story)


def test_a_fetch_that_is_ended_goes_on_where_it_was(tmp_path: Path) -> None:
    """Its job was killed, or its process: what had come is not sent again."""

    async def story(fleet: Fleet) -> None:
        one, blob = await fleet.add("w1"), await fleet.put()
        pieces = list[None]()

        def stop_at_second() -> None:
            pieces.append(None)
            if len(pieces) == 2:
                fetching.cancel()

        fetching = asyncio.get_running_loop().create_task(one.cache._fetch(blob, stop_at_second, TransferClass.SAMPLES))
        await asyncio.wait((fetching,))
        [part] = await one.blobs.parts()
        assert part.size >= 2 * CHUNK_BYTES
        before = fleet.reads
        await one.cache.fetch([blob])
        assert await one.has(blob)
        assert fleet.reads - before <= PIECES + 1 - 2

    tell(tmp_path, story)


def test_a_part_that_was_damaged_on_the_disk_begins_anew(tmp_path: Path) -> None:
    """The peer is not to blame for long: the file arrives."""

    async def story(fleet: Fleet) -> None:
        one, two = await fleet.add("w1"), await fleet.add("w2")
        blob = await fleet.put()
        await one.cache.fetch([blob])
        await one.file_share.report()
        part = two.blobs.part(blob, "fetch")
        await part.open()
        await part.append(bytes(CHUNK_BYTES))
        await part.close(keep=True)
        await two.cache.fetch([blob])
        assert await two.has(blob)

    tell(tmp_path, story)


def test_only_a_reader_with_a_ticket_for_this_file_and_peer_is_answered(tmp_path: Path) -> None:
    """A copy of a ticket is of no use without the key of its reader, and a ticket for one file opens no other."""

    async def story(fleet: Fleet) -> None:
        one, two, three = [await fleet.add(name) for name in ("w1", "w2", "w3")]
        blob, other = await fleet.put(), await fleet.put(DATA[::-1])
        await one.cache.fetch([blob, other])
        await one.file_share.report()
        source = await find(two, blob)
        assert source.node == "w1"

        assert (await ask(source, key_of("w2"), blob)).data == DATA[:CHUNK_BYTES]
        for key, name, node in (
            (key_of("w3"), blob, ""),  # another node with a copy of the ticket
            (key_of("w3"), blob, "w2"),  # under the name of its reader
            (key_of("w2"), other, ""),  # another file
        ):
            with pytest.raises(KeyRefused):
                await ask(source, key, name, node=node)
        own = TicketIssuer(SystemClock(), Random(1))
        forged = Ticket(holder="w1", reader="w3", public=key_of("w3").public, blob=blob)
        with pytest.raises(KeyRefused):
            await ask(changed(source, ticket=own.issue(forged, 0)), key_of("w3"), blob)
        for ticket in (b"", b"\xc1", source.ticket[:-1]):
            with pytest.raises((KeyRefused, InvalidPayload)):
                await ask(changed(source, ticket=ticket), key_of("w2"), blob)
        await three.cache.fetch([blob])
        await three.file_share.report()
        at_three = changed(source, address=three.file_share._address)  # a ticket for another peer
        with pytest.raises(KeyRefused):
            await ask(at_three, key_of("w2"), blob)
        for verb in ("blob.write", "finish", "../blob.read"):
            with pytest.raises(RingriftError):
                await ask(source, key_of("w2"), blob, verb=verb)
        for offset in (-1, -(1 << 40)):
            with pytest.raises(InputError):
                await ask(source, key_of("w2"), blob, offset=offset)

    tell(tmp_path, story)


def test_a_revoked_reader_reads_from_no_peer(tmp_path: Path) -> None:
    """Its tickets end with its key, within seconds, also where nobody knows of either."""

    async def story(fleet: Fleet) -> None:
        one, two = await fleet.add("w1"), await fleet.add("w2")
        blob = await fleet.put()
        await one.cache.fetch([blob])
        await one.file_share.report()
        source = await find(two, blob)
        await ask(source, key_of("w2"), blob)
        async with fleet.node.store.begin() as tx:
            await revoke_key(tx, "w2", "stolen")

        async def is_refused() -> bool:
            one.file_share.service._asked_at -= 10.0  # as if it were some seconds later
            try:
                await ask(source, key_of("w2"), blob)
            except KeyRefused:
                return True
            return False

        await wait_until(is_refused)

    tell(tmp_path, story)


def test_a_ticket_is_for_what_its_reader_may_read(tmp_path: Path) -> None:
    """A worker gets tickets for the files that the coordinator would send it, and for no other."""

    async def story(fleet: Fleet) -> None:
        one, two, champion = await fleet.add("w1"), await fleet.add("w2"), DATA[::-1]
        blob, model = await fleet.put(), await fleet.put(champion)
        async with fleet.node.store.begin() as tx:
            await LINES.put(tx, [Line(variant="hex8_2p", workload="fake", players=2, champion=model, generation=0)])
        await one.cache.fetch([blob, model])
        await one.file_share.report()
        with pytest.raises(Forbidden):
            await find(two, blob)
        assert (await find(two, model)).node == "w1"
        await two.cache.fetch([model])
        assert await two.has(model)

    tell(tmp_path, story, {"w2": ("play",)})


@pytest.mark.parametrize(
    "address", ["http://169.254.169.254:80", "http://0.0.0.0:1", "http://224.0.0.1:1", "http://printer:80", "ftp://x"]
)
def test_peers_are_sent_to_no_address_of_that_kind(tmp_path: Path, address: str) -> None:
    """A worker that names a service of a cloud, or a name that may change, serves nobody."""

    async def story(fleet: Fleet) -> None:
        one = await fleet.add("w1")
        with pytest.raises(InputError):
            await one.connection.call("blob.ready", ReadyBlobs(address=address), WantedBlobs)
        async with fleet.node.store.read() as view:
            row = await PEERS.get(view, "w1")
        assert row is not None
        assert row.address == one.file_share._address

    tell(tmp_path, story)


def test_beyond_this_machine_peers_speak_tls_by_an_authority_of_their_own(tmp_path: Path) -> None:
    """Whoever trusts another authority, or none, gets nothing; the certificate is for the address."""

    async def story(fleet: Fleet) -> None:
        one, other = await fleet.add("w1", serves=False), await fleet.add("w2", serves=False)
        settings = one.settings.overlaid({"node.serve": "0.0.0.0:0"})
        with open_peer_port(settings, SystemClock()) as (wire, bind, authority):
            async with wire.serve(bind, one.file_share.service) as address:
                assert address.startswith("https://")
                request = Request(verb="blob.read", body=b"x", node="w2")
                trusting = open_wire(WireSettings(), authority=authority)
                assert (await trusting.request(address, request, 5.0)).error == "InvalidPayload"
                trusting.close()
                serving = other.settings.overlaid({"node.serve": "0.0.0.0:0"})
                with open_peer_port(serving, SystemClock()) as (_, __, stranger):
                    for ca in (stranger, ""):
                        with pytest.raises(NodeAway, match="certificate is not trusted"):
                            await open_wire(WireSettings(), authority=ca).request(address, request, 5.0)

    tell(tmp_path, story)


def test_plain_text_is_served_beyond_this_machine_only_if_that_is_wanted(tmp_path: Path) -> None:
    """As by a coordinator: wire.insecure says so."""
    settings = Settings.local(tmp_path).overlaid({"node.serve": "0.0.0.0:0", "wire.insecure": True})
    with open_peer_port(settings, SystemClock()) as (_, __, authority):
        assert authority == ""
    with open_peer_port(settings.overlaid({"wire.insecure": False}), SystemClock()) as (_, __, authority):
        assert authority.startswith("-----BEGIN CERTIFICATE")
