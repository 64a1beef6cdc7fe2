"""Ledger: which node holds which blob, as far as is known; whoever fetches finds out and puts it right."""

from collections.abc import Collection, Sequence

from ringrift.store.ports import Put, Reads, Tx

KIND = "holding"
HOLDINGS_MAX = 100_000


def holding(blob: str, node: str) -> Put:
    """The record that *node* holds *blob*."""
    return Put(kind=KIND, id=f"{blob}@{node}", body=b"", index={"blob": blob, "node": node})


async def holders(view: Reads, blob: str) -> list[str]:
    """The nodes that hold *blob*, as far as is known."""
    found = await view.find(KIND, "blob", [blob], HOLDINGS_MAX)
    return [record.id.partition("@")[2] for record in found]


async def forget(tx: Tx, blob: str, nodes: Sequence[str]) -> None:
    """Take back that *nodes* hold *blob*."""
    await tx.delete(KIND, [f"{blob}@{node}" for node in nodes])


async def correct(tx: Tx, node: str, here: Collection[str]) -> tuple[int, int]:
    """Make the ledger say that *node* holds exactly *here*; how many were added and taken away."""
    known = {record.id.partition("@")[0] for record in await tx.find(KIND, "node", [node], HOLDINGS_MAX)}
    gone, added = known - set(here), set(here) - known
    await tx.delete(KIND, [f"{blob}@{node}" for blob in sorted(gone)])
    await tx.put([holding(blob, node) for blob in sorted(added)])
    return len(added), len(gone)
