"""Orphans: files in the folder of a node that the ledger does not list, and a record of each that was adopted."""

from ringrift.blobs.ports import Blobs
from ringrift.kernel.value import Value
from ringrift.store.ports import Store
from ringrift.store.records import Records
from ringrift.sync import ledger, manifest

_PAGE, _END = 500, "g"  # files that are compared together; behind every name, which is in hexadecimal digits
_ORPHANS_MAX = 10_000  # that one look returns; the next one finds the rest


class Adoption(Value):
    """A file that was found on a node, and that no record said anything about."""

    blob: str
    node: str
    size: int
    time: float  #: When it was adopted.


ADOPTIONS = Records("adoption", Adoption, id="blob")


async def find_orphans(store: Store, blobs: Blobs, node: str, before: float) -> dict[str, int]:
    """The blobs of *node*, stored before *before*, that the ledger does not list there, with their sizes.

    In constant time if both hold the same.
    """
    async with store.read() as view:
        listed = await ledger.manifest_of(view, node)
    if listed is not None and manifest.is_same(listed, await blobs.summary()):
        return {}
    orphans, after = dict[str, int](), ""
    while after < _END and len(orphans) < _ORPHANS_MAX:
        page = await blobs.page(after, _PAGE)
        end = page[-1].blob if len(page) == _PAGE else _END
        async with store.read() as view:
            rows = await ledger.held_by(view, node, after, end)
        orphans |= {row.blob: row.size for row in page if row.blob not in rows and row.time < before}
        after = end
    return orphans
