"""Singles: files that a line needs and of which fewer than two durable nodes that are present have a copy."""

from collections.abc import Collection, Mapping

from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.kernel.value import Value
from ringrift.pipeline.foreign_games import COUNTED_GAMES
from ringrift.pipeline.line import LINES, needed_blobs
from ringrift.store.ports import Reads
from ringrift.sync import ledger

_COPIES_MIN = 2


class Single(Value):
    """A file with fewer durable copies than two."""

    blob: str
    kind: str
    variant: str
    holders: tuple[str, ...]  #: All nodes that hold it by the ledger, durable or not, present or not.
    durable: int  #: Of those, how many are durable and present; hubs are.
    away: int  #: How many are durable and not present: away is not gone.
    can_be_copied: bool  #: Whether a durable node without it is present, and a present one has it.


def _judge_copies(
    needed: Mapping[str, tuple[str, str]],
    holders: Mapping[str, Collection[str]],
    nodes: Collection[NodeRecord],
    here: Collection[str],
) -> list[Single]:
    """The singles among the *needed* blobs, given with kind and variant, if of all *nodes* those *here* are present."""
    records = {node.id: node for node in nodes if node.has_files}
    present, lasting = records.keys() & set(here), {id for id, node in records.items() if not node.ephemeral}
    durable = lasting & present
    ids = {node.id for node in nodes}
    rows = list[Single]()
    for blob, (kind, variant) in needed.items():
        copies = durable.intersection(holders[blob]).union(set(holders[blob]) - ids)  # what is no node is a hub
        if len(copies) < _COPIES_MIN:
            can_be_copied = bool(present.intersection(holders[blob]) and durable - copies)
            away = len(lasting.difference(durable).intersection(holders[blob]))
            counts, names = {"durable": len(copies), "away": away}, tuple(sorted(holders[blob]))
            row = Single(blob=blob, kind=kind, variant=variant, holders=names, can_be_copied=can_be_copied, **counts)
            rows.append(row)
    return rows


async def needed_files(view: Reads) -> dict[str, tuple[str, str]]:
    """Every file that a line needs, pending games and the list of imported ones too: blob → kind and variant."""
    needed = dict[str, tuple[str, str]]()
    for line in await LINES.all(view):
        kinds = {batch.blob: "games" for batch in line.pending} | needed_blobs(line)
        needed |= {blob: (kind, line.variant) for blob, kind in kinds.items()}
    return needed | {blob: ("report", variant) for variant, blob in (await COUNTED_GAMES.scan(view)).items()}


async def find_singles(view: Reads, here: Collection[str]) -> list[Single]:
    """The singles as of now, if the nodes *here* are present."""
    needed = await needed_files(view)
    holders = {blob: nodes for blob, (nodes, _) in (await ledger.copies(view, needed)).items()}
    return _judge_copies(needed, holders, await NODES.all(view), here)
