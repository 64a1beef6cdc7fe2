"""The ledger: which node holds which blob, as far as is known; every fetch corrects it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from ringrift.blobs.ports import Blobs
from ringrift.store.ports import Put, Reads, Store, Tx
from ringrift.store.records import Records

_KIND = "holding"
_HOLDERS_MAX = 10_000
_REMOVALS = Records("removal", str)  # by blob: when its last copy was deleted by retention, by which node, and why
_PAGE, _END = 500, "g"  # blobs in one transaction; behind every name, which is in hexadecimal digits


def holding(blob: str, node: str) -> Put:
    """The record that *node* holds *blob*."""
    return Put(kind=_KIND, id=f"{blob}@{node}", body=b"", index={"blob": blob, "node": node})


async def holders(view: Reads, blob: str) -> list[str]:
    """The nodes that hold *blob*, as far as is known."""
    return [id.partition("@")[2] for id in await view.find(_KIND, "blob", [blob], _HOLDERS_MAX)]


async def some_of(view: Reads, node: str) -> list[str]:
    """Some of the blobs that *node* holds, as far as is known; none if it holds none."""
    return [id.partition("@")[0] for id in await view.find(_KIND, "node", [node], _PAGE)]


async def forget(tx: Tx, blob: str, nodes: Sequence[str]) -> None:
    """Delete the records that *nodes* hold *blob*."""
    await tx.delete(_KIND, [f"{blob}@{node}" for node in nodes])


async def remove(tx: Tx, reasons: Mapping[str, str], node: str, now: float) -> None:
    """Record that *node* deletes these blobs, each for its reason: nobody is sent to it, and an error can tell why."""
    for blob in reasons:
        await forget(tx, blob, [node])
    text = f"node {node} removed it on {datetime.fromtimestamp(now, UTC):%F}"
    await _REMOVALS.put_at(tx, {blob: f"{text}: {reason}" for blob, reason in reasons.items()})


async def removal(view: Reads, blob: str) -> str:
    """Who deleted the last copy of *blob* and why; empty if it was not deleted or a node holds it."""
    return "" if await holders(view, blob) else await _REMOVALS.get(view, blob) or ""


async def correct(store: Store, blobs: Blobs, node: str) -> tuple[int, int]:
    """Make the ledger list exactly *blobs* for *node*; how many records were added and deleted.

    Page by page, each in a short transaction of its own, and in none where nothing differs.
    """
    after, additions, deletions = "", 0, 0
    while after < _END:
        page = [stored.blob for stored in await blobs.page(after, _PAGE)]
        end = page[-1] if len(page) == _PAGE else _END
        async with store.read() as view:
            listed = await held_by(view, node, after, end)
        gone, new = listed.difference(page), sorted(set(page) - listed)
        missing = sorted(gone - await blobs.have(gone))  # another node may have brought one since the page was read
        for first in range(0, max(len(missing), len(new)), _PAGE):
            async with store.begin() as tx:
                await tx.delete(_KIND, [f"{blob}@{node}" for blob in missing[first : first + _PAGE]])
                await tx.put([holding(blob, node) for blob in new[first : first + _PAGE]])
        after, additions, deletions = end, additions + len(new), deletions + len(missing)
    return additions, deletions


async def held_by(view: Reads, node: str, after: str = "", end: str = _END) -> set[str]:
    """The blobs after *after* and up to *end* that *node* holds by the ledger."""
    listed, place = set[str](), after and f"{after}A"  # behind every id of *after*, which go on with an @
    while ids := list(await view.scan(_KIND, place, _PAGE)):
        pairs = [id.split("@", 1) for id in ids if id < f"{end}A"]
        listed.update(blob for blob, holder in pairs if holder == node)
        if len(pairs) < _PAGE:
            break
        place = ids[-1]
    return listed
