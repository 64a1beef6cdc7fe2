"""Spare copies: games that a node may delete for want of room although they are needed, since enough others hold them.

A copy counts if its node is durable and answers that it has the file now, and if a receipt, or the record of the node
that made it, says that its bytes were hashed there.  The ledger alone is no proof.
"""

from collections.abc import Collection, Mapping, Sequence

from ringrift.blobs.ports import StoredBlob
from ringrift.kernel.settings import SweepSettings
from ringrift.pipeline import retention
from ringrift.store.ports import Reads
from ringrift.sync import ledger
from ringrift.sync.receipts import receipts_of

_GAMES = "games"


def is_spare(others: Collection[str], proven: Collection[str], durable: Collection[str], copies_min: int) -> bool:
    """Whether a copy may go: of the *others* that have the file, enough are *proven* and *durable*."""
    return len(set(others) & set(proven) & set(durable)) >= max(copies_min, 1)


async def find_candidates(
    view: Reads, page: Sequence[StoredBlob], settings: SweepSettings, now: float
) -> list[StoredBlob]:
    """The games of *page* that stay for a line, or because they are young, and that nothing under way works on."""
    rulings = await retention.rule(view, page, settings, now)
    idle = {row.blob for row in rulings if row.kind == _GAMES and not row.goes and not row.is_busy}
    return [stored for stored in page if stored.blob in idle]


async def find_proof(view: Reads, blob: str, node: str) -> tuple[list[str], set[str]]:
    """The nodes but *node* that hold *blob* by the ledger, and those of all nodes that have hashed it."""
    holders = [holder for holder in await ledger.holders(view, blob) if holder != node]
    proven = {receipt.node for receipt in await receipts_of(view, blob)}
    proven.update(origin.node for origin in await view.origins([blob]))
    return holders, proven


async def choose_spare(
    view: Reads, blobs: Sequence[str], node: str, answers: Mapping[str, Collection[str]], copies_min: int
) -> list[str]:
    """Those of *blobs* of which *node* may delete its copy; *answers*: blob → the durable nodes that have it now."""
    spare = list[str]()
    for blob in blobs:
        holders, proven = await find_proof(view, blob, node)
        if is_spare(holders, proven, answers.get(blob, ()), copies_min):
            spare.append(blob)
    return spare
