"""The ledger: which node holds which blob, as far as is known; every fetch corrects it.

Beside its rows it has a manifest for each node: the sum of what the ledger lists for it.  A row is added to the sum
once: :func:`add` does it at once, and rows that others have put are found by an index and added when somebody asks.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from ringrift.blobs.ports import Blobs, BlobSummary
from ringrift.kernel.value import Value
from ringrift.store.ports import Put, Reads, Store, Tx
from ringrift.store.records import Records
from ringrift.sync import manifest
from ringrift.sync.receipts import delete_receipts

_KIND = "holding"
_HOLDERS_MAX = 10_000
_REMOVALS = Records("removal", str)  # by blob: when its last copy was deleted by retention, by which node, and why
_PAGE, _END = 500, "g"  # blobs in one transaction; behind every name, which is in hexadecimal digits


_Copies = dict[str, tuple[list[str], int]]  # by blob: the nodes that hold it, and its size


class _Holding(Value):
    """The body of a row; those of earlier versions have none."""

    size: int = 0  # 0: not known
    epoch: int = 0  # of the sum that contains it; 0: none does


class _Sum(Value):
    """The manifest of a node.  With another *epoch* the sum begins anew, and every row is to be added again."""

    epoch: int = 1
    rows: BlobSummary = BlobSummary()


_SUMS = Records("manifest", _Sum)  # by node


def holding(blob: str, node: str, size: int = 0) -> Put:
    """The record that *node* holds *blob*."""
    return _put(blob, node, _Holding(size=size))


def _put(blob: str, node: str, row: _Holding) -> Put:
    index = {"blob": blob, "node": node} | ({} if row.epoch else {"unsummed": node})
    return Put(kind=_KIND, id=f"{blob}@{node}", body=msgspec.json.encode(row), index=index)


def _decode(body: bytes) -> _Holding:
    return msgspec.json.decode(body, type=_Holding) if body else _Holding()


async def add(tx: Tx, rows: Sequence[tuple[str, str, int]]) -> None:
    """Record that nodes hold blobs: (blob, node, size or 0), and add them to the manifests; listed ones stay."""
    by_node = dict[str, dict[str, int]]()
    for blob, node, size in rows:
        by_node.setdefault(node, {})[blob] = size
    for node, sizes in by_node.items():
        listed = await tx.get(_KIND, [f"{blob}@{node}" for blob in sizes])
        new = {blob: size for blob, size in sizes.items() if f"{blob}@{node}" not in listed}
        await _add_to_sum(tx, node, new)


async def _add_to_sum(tx: Tx, node: str, sizes: Mapping[str, int]) -> None:
    """Write rows that no sum contains, and add them to that of *node*."""
    if sizes:
        row = await _SUMS.get(tx, node) or _Sum()
        await tx.put([_put(blob, node, _Holding(size=size, epoch=row.epoch)) for blob, size in sizes.items()])
        await _SUMS.put_at(tx, {node: _Sum(epoch=row.epoch, rows=manifest.plus(row.rows, sizes.items()))})


async def holders(view: Reads, blob: str) -> list[str]:
    """The nodes that hold *blob*, as far as is known."""
    return [id.partition("@")[2] for id in await view.find(_KIND, "blob", [blob], _HOLDERS_MAX)]


async def copies(view: Reads, blobs: Iterable[str]) -> _Copies:
    """The nodes that hold each of *blobs*, as far as is known, and its size; 0 if that is not known."""
    names = sorted(set(blobs))
    result: _Copies = {blob: ([], 0) for blob in names}
    for first in range(0, len(names), _PAGE):
        _collect(result, await view.find(_KIND, "blob", names[first : first + _PAGE], _PAGE * _HOLDERS_MAX))
    return result


def _collect(copies: _Copies, rows: Mapping[str, bytes]) -> None:
    for id, body in rows.items():
        blob, _, node = id.partition("@")
        nodes, size = copies.get(blob, ([], 0))
        copies[blob] = ([*nodes, node], max(size, _decode(body).size))


async def size_of(view: Reads, blob: str) -> int:
    """The size of *blob*, as far as is known; 0 if it is not."""
    return (await copies(view, [blob]))[blob][1]


async def find_listed(view: Reads, prefix: str, limit: int) -> list[str]:
    """Up to *limit* blobs that some node holds and whose names begin with *prefix*."""
    blobs, place = dict[str, None](), prefix
    while len(blobs) < limit and (ids := list(await view.scan(_KIND, place, _PAGE))):
        blobs |= dict.fromkeys(id.partition("@")[0] for id in ids if id.startswith(prefix))
        if not ids[-1].startswith(prefix):
            break
        place = ids[-1]
    return list(blobs)[:limit]


async def some_of(view: Reads, node: str) -> list[str]:
    """Some of the blobs that *node* holds, as far as is known; none if it holds none."""
    return [id.partition("@")[0] for id in await view.find(_KIND, "node", [node], _PAGE)]


async def forget(tx: Tx, blob: str, nodes: Sequence[str]) -> None:
    """Delete the records that *nodes* hold *blob*, with their receipts."""
    ids = {f"{blob}@{node}": node for node in nodes}
    for id, body in (await tx.get(_KIND, list(ids))).items():
        row, total = _decode(body), await _SUMS.get(tx, ids[id])
        if total is not None and row.epoch == total.epoch:
            rows = manifest.minus(total.rows, [(blob, row.size)])
            await _SUMS.put_at(tx, {ids[id]: _Sum(epoch=total.epoch, rows=rows)})
    await tx.delete(_KIND, list(ids))
    await delete_receipts(tx, blob, nodes)


async def remove(tx: Tx, reasons: Mapping[str, str], node: str, now: float) -> None:
    """Record that *node* deletes these blobs, each for its reason: nobody is sent to it, and an error can tell why."""
    for blob in reasons:
        await forget(tx, blob, [node])
    text = f"node {node} removed it on {datetime.fromtimestamp(now, UTC):%F}"
    await _REMOVALS.put_at(tx, {blob: f"{text}: {reason}" for blob, reason in reasons.items()})


async def removal(view: Reads, blob: str) -> str:
    """Who deleted the last copy of *blob* and why; empty if it was not deleted or a node holds it."""
    return "" if await holders(view, blob) else await _REMOVALS.get(view, blob) or ""


async def manifest_of(view: Reads, node: str) -> BlobSummary | None:
    """What *node* holds by the ledger, in constant time; None if it was never summed up or much is new."""
    row = await _SUMS.get(view, node)
    new = await view.find(_KIND, "unsummed", [node], _PAGE)
    if row is None or len(new) == _PAGE:
        return None
    return manifest.plus(row.rows, [(id.partition("@")[0], _decode(body).size) for id, body in new.items()])


async def find_unsummed(view: Reads, nodes: Iterable[str]) -> list[str]:
    """Those of *nodes* whose sum does not contain every row."""
    return [node for node in nodes if await view.find(_KIND, "unsummed", [node], 1)]


async def sum_up(tx: Tx, node: str) -> None:
    """Add a page of the rows of *node* to its sum that it does not contain yet."""
    new = await tx.find(_KIND, "unsummed", [node], _PAGE)
    await _add_to_sum(tx, node, {id.partition("@")[0]: _decode(body).size for id, body in new.items()})


async def correct(store: Store, blobs: Blobs, node: str) -> tuple[int, int]:
    """Make the ledger list exactly *blobs* for *node*; how many records were added and deleted.

    In constant time if both manifests are equal.  Otherwise only buckets that differ are listed, and records change in
    short transactions.
    """
    summary = await blobs.summary()
    if await _is_listed(store, node, summary):
        return 0, 0
    async with store.read() as view:
        listed = await held_by(view, node)
    missing, new = list[str](), dict[str, int]()
    for prefix in manifest.differing(await blobs.buckets(), manifest.buckets_of(listed)):
        sizes = await manifest.list_bucket(blobs, prefix)
        gone = {blob for blob in listed if blob.startswith(prefix) and blob not in sizes}
        missing += sorted(gone - await blobs.have(gone))  # another node may have brought one since it was listed
        new |= {blob: size for blob, size in sizes.items() if blob not in listed}
    names = sorted(new)
    for first in range(0, max(len(missing), len(names)), _PAGE):
        async with store.begin() as tx:
            for blob in missing[first : first + _PAGE]:
                await forget(tx, blob, [node])
            await add(tx, [(blob, node, new[blob]) for blob in names[first : first + _PAGE]])
    if not await _is_listed(store, node, summary):
        await _sum_again(store, node)
    return len(new), len(missing)


async def _is_listed(store: Store, node: str, summary: BlobSummary) -> bool:
    async with store.read() as view:
        listed = await manifest_of(view, node)
    return listed is not None and manifest.is_same(listed, summary)


async def _sum_again(store: Store, node: str) -> None:
    """Begin the sum of *node* anew: rows of earlier versions are not in it, and one that was put again is in twice."""
    async with store.begin() as tx:
        old = await _SUMS.get(tx, node) or _Sum(epoch=0)
        await _SUMS.put_at(tx, {node: _Sum(epoch=old.epoch + 1)})
    place, is_over = "", False
    while not is_over:
        async with store.begin() as tx:
            rows, total = await tx.scan(_KIND, place, _PAGE), await _SUMS.get(tx, node) or _Sum()
            own = {id.partition("@")[0]: _decode(body) for id, body in rows.items() if id.partition("@")[2] == node}
            await _add_to_sum(tx, node, {blob: row.size for blob, row in own.items() if row.epoch != total.epoch})
        place, is_over = max(rows, default=""), len(rows) < _PAGE


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


async def scan_copies(view: Reads) -> _Copies:
    """Every blob that some node holds, each as :func:`copies` has it."""
    result, place = _Copies(), ""
    while rows := await view.scan(_KIND, place, _PAGE):
        _collect(result, rows)
        place = max(rows)
    return result
