"""Matches: the log of every block ever played for evidence, as records that are kept for ever and never edited.

A match is two players with their search settings on the openings of one seed.  A block that two nodes have played is
two records: when a node is quarantined its blocks stay, and those that were played again in their place stand beside.
"""

from collections.abc import Sequence

import msgspec

from ringrift.evaluation import blocks as results
from ringrift.evaluation.blocks import Block
from ringrift.events.evaluation import BlocksPlayed
from ringrift.kernel.value import Value
from ringrift.kernel.variant import parse
from ringrift.store.ports import Put, Reads, Tx

MATCH, BLOCK, ERA = "match", "block", "era"
MATCHES_MAX = 1_000_000
BLOCKS_MAX = 200_000
"""Of one match, with what was played twice: no gate asks for more."""


class MatchRow(Value):
    """Who played whom."""

    id: str
    variant: str
    candidate: str
    opponent: str
    """A model, or the name of a player that never trains."""
    settings: str
    seed: int
    time: float
    """When it was first heard of."""


class BlockRow(Value):
    """One block as a node reported it, and when."""

    block: Block
    time: float
    era: int = 0
    """Of its node when it came in."""


async def note(tx: Tx, event: BlocksPlayed, at: float) -> tuple[MatchRow, tuple[Block, ...]]:
    """Write down the blocks of *event*; those that are new.  What was written once is never written over."""
    match = results.match_of(event)
    row = MatchRow(
        id=match, variant=event.variant, candidate=event.candidate, opponent=event.champion, settings=event.settings,
        seed=event.seed, time=at,
    )  # fmt: skip
    players = parse(event.variant).players
    sound = {block.id: block for block in results.of(event) if results.is_sound(block, players)}
    known = await tx.get(BLOCK, list(sound))
    fresh = {id: block for id, block in sound.items() if id not in known}
    if fresh and not await tx.get(MATCH, [match]):
        await tx.put([Put(kind=MATCH, id=match, body=msgspec.json.encode(row), index={"variant": event.variant})])
    era = await era_of(tx, event.node)
    await tx.put([
        Put(
            kind=BLOCK, id=id, body=msgspec.json.encode(BlockRow(block=block, time=at, era=era)),
            index={"match": match, "node": block.node},
        )
        for id, block in fresh.items()
    ])  # fmt: skip
    return row, tuple(fresh.values())


async def era_of(view: Reads, node: str) -> int:
    """How often *node* was shut out or let in again so far: what it reported in an earlier era counts no more."""
    return int((await view.get(ERA, [node])).get(node, b"0"))


async def next_era(tx: Tx, node: str) -> None:
    """Let another era of *node* begin."""
    await tx.put([Put(kind=ERA, id=node, body=str(await era_of(tx, node) + 1).encode())])


async def blocks_of(view: Reads, match: str) -> list[BlockRow]:
    """Every block of *match*, by number."""
    found = await view.find(BLOCK, "match", [match], BLOCKS_MAX)
    rows = [msgspec.json.decode(record.body, type=BlockRow) for record in found]
    return sorted(rows, key=lambda row: row.block.id)


async def by_ids(view: Reads, ids: Sequence[str]) -> list[BlockRow]:
    """The blocks with these *ids*, by number."""
    found = await view.get(BLOCK, ids)
    return sorted((msgspec.json.decode(body, type=BlockRow) for body in found.values()), key=lambda row: row.block.id)


async def matches_of(view: Reads, variant: str) -> list[MatchRow]:
    """Every match of *variant*, oldest first."""
    found = await view.find(MATCH, "variant", [variant], MATCHES_MAX)
    return sorted((msgspec.json.decode(record.body, type=MatchRow) for record in found), key=lambda row: row.time)
