"""Quarantine: nodes whose results are not believed, and what they may not do."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from ringrift.jobs import Match, Play
from ringrift.kernel.verdict import Verdict
from ringrift.store.ports import Put, Reads, Tx

KIND = "quarantine"
NODES_MAX = 10_000
REFUSED = frozenset({Play.kind(), Match.kind()})
"""Jobs whose results nobody can check: a quarantined node gets none."""


async def allowed(view: Reads, node: str, kinds: Collection[str]) -> Collection[str]:
    """Those of *kinds* that *node* may do."""
    shut_out = await view.get(KIND, [node])
    return [kind for kind in kinds if kind not in REFUSED] if shut_out else kinds


async def of(view: Reads, nodes: Sequence[str]) -> Mapping[str, Verdict]:
    """Why those of *nodes* that are quarantined are."""
    return {node: msgspec.json.decode(body, type=Verdict) for node, body in (await view.get(KIND, nodes)).items()}


async def everyone(view: Reads) -> dict[str, Verdict]:
    """Every node that is quarantined, and why."""
    return {one.id: msgspec.json.decode(one.body, type=Verdict) for one in await view.scan(KIND, "", NODES_MAX)}


async def shut_out(tx: Tx, node: str, why: Verdict) -> None:
    """Let *node* play no more from this transaction on."""
    await tx.put([Put(kind=KIND, id=node, body=msgspec.json.encode(why))])


async def release(tx: Tx, node: str) -> None:
    """Let *node* play again."""
    await tx.delete(KIND, [node])
