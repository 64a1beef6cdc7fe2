"""Manifests: how many blobs a node holds, of how many bytes, and one digest of all their names.

Two nodes with equal digests hold the same blobs, so that "nothing to do" takes constant time.  The digest is a sum, so
one more blob changes it without a look at the others, in any order.  Where digests differ, those of 256 buckets by the
first byte of names tell which names to compare.
"""

from collections.abc import Iterable, Sequence

from ringrift.blobs.ports import Blobs, BlobSummary

_MODULUS = 1 << 256
_PAGE = 500


def plus(manifest: BlobSummary, rows: Iterable[tuple[str, int]]) -> BlobSummary:
    """*manifest* with these blobs, each with its size, which it does not have yet."""
    return _changed(manifest, rows, 1)


def minus(manifest: BlobSummary, rows: Iterable[tuple[str, int]]) -> BlobSummary:
    """*manifest* without these blobs, which it has."""
    return _changed(manifest, rows, -1)


def _changed(manifest: BlobSummary, rows: Iterable[tuple[str, int]], sign: int) -> BlobSummary:
    count, size, digest = manifest.count, manifest.bytes, int(manifest.digest, 16)
    for blob, of_blob in rows:
        count, size, digest = count + sign, size + sign * of_blob, digest + sign * int(blob, 16)
    return BlobSummary(count=count, bytes=size, digest=f"{digest % _MODULUS:064x}")


def is_same(one: BlobSummary, other: BlobSummary) -> bool:
    """Whether both hold the same blobs; their sizes follow from their names."""
    return (one.count, one.digest) == (other.count, other.digest)


def buckets_of(names: Iterable[str]) -> list[BlobSummary]:
    """The manifests of *names* for each of the 256 first bytes; sizes are left out."""
    buckets = [list[tuple[str, int]]() for _ in range(256)]
    for blob in names:
        buckets[int(blob[:2], 16)].append((blob, 0))
    return [plus(BlobSummary(), rows) for rows in buckets]


def differing(one: Sequence[BlobSummary], other: Sequence[BlobSummary]) -> list[str]:
    """The first bytes, in hexadecimal digits, of the buckets in which both differ."""
    return [f"{n:02x}" for n, (mine, theirs) in enumerate(zip(one, other, strict=True)) if not is_same(mine, theirs)]


async def list_bucket(blobs: Blobs, prefix: str) -> dict[str, int]:
    """The sizes of *blobs* whose names begin with *prefix*, by name."""
    sizes, after = dict[str, int](), prefix
    while page := await blobs.page(after, _PAGE):
        sizes |= {row.blob: row.size for row in page if row.blob.startswith(prefix)}
        after = page[-1].blob
        if not after.startswith(prefix):
            break
    return sizes
