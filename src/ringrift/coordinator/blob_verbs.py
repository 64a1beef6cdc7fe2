"""The verbs of files: a worker brings the outputs of its jobs, and reads the inputs of its jobs and champions."""

from ringrift import jobs
from ringrift.coordinator.event_verbs import READ
from ringrift.coordinator.verbs import WORK, Parts, Peer, Verb
from ringrift.coordinator.work_verbs import held_jobs
from ringrift.kernel.errors import InputError
from ringrift.kernel.ids import check_blob
from ringrift.kernel.wire_errors import Forbidden
from ringrift.pipeline.line import LINES
from ringrift.store.ports import Reads
from ringrift.sync.remote_blobs import BlobPiece, BlobReceipt, HaveBlobs, PresentBlobs, ReadBlob, WriteBlob
from ringrift.wire.ports import CHUNK_BYTES
from ringrift.work.checkpoints import CHECKPOINTS

_BLOBS_MAX = 64  # asked about at once: those that are here are read and hashed
_BLOB_BYTES_MAX = 1 << 32


async def _have(_: Peer, body: HaveBlobs, parts: Parts) -> PresentBlobs:
    """Whoever asks is about to name them in a result, so they count as stored now."""
    if len(body.blobs) > _BLOBS_MAX:
        raise InputError(f"{len(body.blobs)} files are asked about at once: at most {_BLOBS_MAX}")
    for blob in body.blobs:
        check_blob(blob)
    return PresentBlobs(blobs=tuple(sorted(await parts.blobs.renew(set(body.blobs)))))


async def _read(peer: Peer, body: ReadBlob, parts: Parts) -> BlobPiece:
    check_blob(body.blob)
    if body.offset < 0:
        raise InputError(f"a piece of {body.blob:.12} begins at {body.offset}: at 0 or later")
    if READ not in peer.scopes:
        async with parts.store.read() as view:
            if not await _may_read(view, peer.node, body.blob):
                raise Forbidden("blob.read", READ)
    if body.offset == 0 and parts.transfer is not None and not await parts.blobs.have([body.blob]):
        async with parts.desks.fetching:
            await parts.transfer.fetch([body.blob])
    size = min(max(body.size, 0), CHUNK_BYTES)
    data, total = await parts.blobs.read_piece(body.blob, body.offset, size)
    return BlobPiece(data=data, total=total)


async def _may_read(view: Reads, node: str, blob: str) -> bool:
    """Whether *blob* is a champion, or an input or checkpoint of a job that *node* holds."""
    rows = await held_jobs(view, node)
    works = (jobs.decode_if_known(row.kind, row.body) for row in rows.values())
    if any(work is not None and blob in work.blobs for work in works):
        return True
    return await CHECKPOINTS.get(view, blob) in rows or any(line.champion == blob for line in await LINES.all(view))


async def _write(peer: Peer, body: WriteBlob, parts: Parts) -> BlobReceipt:
    check_blob(body.blob)
    if not 0 <= body.total <= _BLOB_BYTES_MAX:
        raise InputError(f"a file of {body.total} bytes cannot be uploaded: at most {_BLOB_BYTES_MAX}")
    if len(body.data) > CHUNK_BYTES or not 0 <= body.offset <= body.total - len(body.data):
        raise InputError(f"{len(body.data)} bytes at {body.offset} are no piece of a file of {body.total} bytes")
    sent = (body.blob, body.total, body.offset, body.data)
    received, done = await parts.desks.uploads.write(peer.node, *sent)
    return BlobReceipt(offset=received, done=done)


VERBS = (
    Verb("blob.have", HaveBlobs, PresentBlobs, f"{WORK} {READ}", _have),
    Verb("blob.read", ReadBlob, BlobPiece, f"{WORK} {READ}", _read),
    Verb("blob.write", WriteBlob, BlobReceipt, WORK, _write),
)
