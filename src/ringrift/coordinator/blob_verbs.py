"""The verbs of files: a worker brings the outputs of its jobs, and reads the inputs of its jobs and champions."""

from collections.abc import Collection

from ringrift import jobs
from ringrift.coordinator.event_verbs import READ
from ringrift.coordinator.verbs import WORK, Parts, Peer, Verb
from ringrift.coordinator.work_verbs import held_jobs
from ringrift.kernel.errors import InputError, NoRoute
from ringrift.kernel.ids import check_blob
from ringrift.kernel.wire_errors import Forbidden
from ringrift.pipeline.line import LINES
from ringrift.store.ports import Reads
from ringrift.sync.blob_messages import (
    BLOBS_MAX,
    SMALL_BYTES_MAX,
    BlobFiles,
    BlobPiece,
    BlobReceipt,
    HaveBlobs,
    PresentBlobs,
    ReadBlob,
    ReadBlobs,
    WriteBlob,
)
from ringrift.sync.wants import TransferClass
from ringrift.wire.ports import CHUNK_BYTES
from ringrift.work.checkpoints import CHECKPOINTS

_PAYING_MAX = 4  # pieces that wait for bandwidth: each holds up a request, and one that takes long is sent again
_BLOB_BYTES_MAX = 1 << 32


async def _have(_: Peer, body: HaveBlobs, parts: Parts) -> PresentBlobs:
    """Whoever asks is about to name them in a result, so they count as stored now."""
    _check_blobs(body.blobs)
    return PresentBlobs(blobs=tuple(sorted(await parts.blobs.renew(set(body.blobs)))))


def _check_blobs(blobs: Collection[str]) -> None:
    if len(blobs) > BLOBS_MAX:
        raise InputError(f"{len(blobs)} files are asked about at once: at most {BLOBS_MAX}")
    for blob in blobs:
        check_blob(blob)


async def _read(peer: Peer, body: ReadBlob, parts: Parts) -> BlobPiece:
    check_blob(body.blob)
    if body.offset < 0:
        raise InputError(f"a piece of {body.blob:.12} begins at {body.offset}: at 0 or later")
    await require_readable(peer, [body.blob], parts)
    parts.desks.peers.sources.touch(peer.node, body.blob)
    place = (body.blob, body.offset, min(max(body.size, 0), CHUNK_BYTES))
    try:
        data, total = await parts.blobs.read_piece(*place)
    except NoRoute:
        if parts.transfer is None:
            raise
        async with parts.desks.fetching:
            await parts.transfer.fetch([body.blob])
        data, total = await parts.blobs.read_piece(*place)
    await _pay(peer, TransferClass.SAMPLES, len(data), parts)
    return BlobPiece(data=data, total=total)


async def _read_many(peer: Peer, body: ReadBlobs, parts: Parts) -> BlobFiles:
    """As many of the first ones as one piece may hold; whatever is not here or large is left out."""
    _check_blobs(body.blobs)
    await require_readable(peer, body.blobs, parts)
    files, count = await parts.blobs.read_small(body.blobs, SMALL_BYTES_MAX, CHUNK_BYTES)
    await _pay(peer, TransferClass.SAMPLES, sum(len(data) for _, data in files), parts)
    return BlobFiles(files=tuple(files), count=count)


async def _pay(peer: Peer, transfer_class: TransferClass, size: int, parts: Parts) -> None:
    """Return when *size* bytes to or from *peer* may pass.  Raises Busy if many wait: each holds up other requests."""
    if parts.transfer is not None and parts.transfer.shaper is not None:
        await parts.transfer.shaper.pay(peer.node, transfer_class, size, _PAYING_MAX)


async def require_readable(peer: Peer, blobs: Collection[str], parts: Parts) -> None:
    """Raise Forbidden unless *peer* may read *blobs*."""
    if READ not in peer.scopes:
        async with parts.store.read() as view:
            if not await _may_read(view, peer.node, set(blobs)):
                raise Forbidden("blob.read", READ)


async def _may_read(view: Reads, node: str, blobs: set[str]) -> bool:
    """Whether all *blobs* are champions, candidates, or inputs and checkpoints of jobs that *node* holds."""
    rows = await held_jobs(view, node)
    works = (jobs.decode_if_known(row.kind, row.body) for row in rows.values())
    others = blobs.difference(*(work.blobs for work in works if work is not None))
    if not others:
        return True
    lines = await LINES.all(view)
    others.difference_update(line.champion for line in lines if line.champion)
    others.difference_update(line.candidate.model for line in lines if line.candidate)
    checkpoints = await CHECKPOINTS.get_many(view, sorted(others))
    return all(checkpoints.get(blob) in rows for blob in others)


async def _write(peer: Peer, body: WriteBlob, parts: Parts) -> BlobReceipt:
    check_blob(body.blob)
    if not 0 <= body.total <= _BLOB_BYTES_MAX:
        raise InputError(f"a file of {body.total} bytes cannot be uploaded: at most {_BLOB_BYTES_MAX}")
    if len(body.data) > CHUNK_BYTES or not 0 <= body.offset <= body.total - len(body.data):
        raise InputError(f"{len(body.data)} bytes at {body.offset} are no piece of a file of {body.total} bytes")
    sent = (body.blob, body.total, body.offset, body.data)
    await _pay(peer, TransferClass.URGENT, len(body.data), parts)
    received, done = await parts.desks.uploads.write(peer.node, *sent)
    return BlobReceipt(offset=received, done=done)


VERBS = (
    Verb("blob.have", HaveBlobs, PresentBlobs, f"{WORK} {READ}", _have),
    Verb("blob.read", ReadBlob, BlobPiece, f"{WORK} {READ}", _read),
    Verb("blob.read_many", ReadBlobs, BlobFiles, f"{WORK} {READ}", _read_many),
    Verb("blob.write", WriteBlob, BlobReceipt, WORK, _write),
)
