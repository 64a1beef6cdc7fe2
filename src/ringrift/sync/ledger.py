"""The ledger: which node holds which blob, as far as is known; every fetch corrects it."""

from collections.abc import Collection, Sequence

from ringrift.store.ports import Put, Reads, Tx

_KIND = "holding"
_HOLDINGS_MAX = 100_000


def holding(blob: str, node: str) -> Put:
    """The record that *node* holds *blob*."""
    return Put(kind=_KIND, id=f"{blob}@{node}", body=b"", index={"blob": blob, "node": node})


async def holders(view: Reads, blob: str) -> list[str]:
    """The nodes that hold *blob*, as far as is known."""
    return [id.partition("@")[2] for id in await view.find(_KIND, "blob", [blob], _HOLDINGS_MAX)]


async def forget(tx: Tx, blob: str, nodes: Sequence[str]) -> None:
    """Delete the records that *nodes* hold *blob*."""
    await tx.delete(_KIND, [f"{blob}@{node}" for node in nodes])


async def correct(tx: Tx, node: str, here: Collection[str]) -> tuple[int, int]:
    """Make the ledger list exactly the blobs *here* for *node*; how many records were added and deleted."""
    listed = {id.partition("@")[0] for id in await tx.find(_KIND, "node", [node], _HOLDINGS_MAX)}
    missing, added = listed - set(here), set(here) - listed
    await tx.delete(_KIND, [f"{blob}@{node}" for blob in sorted(missing)])
    await tx.put([holding(blob, node) for blob in sorted(added)])
    return len(added), len(missing)
