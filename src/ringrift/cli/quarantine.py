"""``ringrift quarantine``: nodes whose results are not believed: list them, shut one out, let one play again."""

import argparse
import json
from collections.abc import Mapping

import msgspec

from ringrift.cli.show import ago, clock, table
from ringrift.cli.store import answer, by_hand
from ringrift.cluster.roster import KIND as NODE
from ringrift.cluster.roster import NODES_MAX
from ringrift.events.node import Quarantined, Released
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.kernel.value import Value
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline import trust
from ringrift.pipeline.trust import Trust
from ringrift.store.ports import Store
from ringrift.work import quarantine


class Shut(Value):
    """A node that is shut out: why, and what it had reported."""

    node: str
    why: Verdict
    games: int = 0
    canaries: int = 0
    """Canary blocks that it has answered."""


async def listed(store: Store) -> list[Shut]:
    """Every node that is quarantined, the latest last."""
    async with store.read() as view:
        found = await quarantine.everyone(view)
        bodies = await view.get(trust.KIND, list(found))
    known = {node: msgspec.json.decode(body, type=Trust) for node, body in bodies.items()}
    shut = [
        Shut(node=node, why=why, games=known.get(node, Trust(node=node)).games,
             canaries=known.get(node, Trust(node=node)).answered)
        for node, why in found.items()
    ]  # fmt: skip
    return sorted(shut, key=lambda one: one.why.since)


def as_text(shut: list[Shut], now: float) -> str:
    """The nodes for people."""
    rows = [
        (one.node, f"{clock(one.why.since)} ({ago(now - one.why.since)} ago)", one.games, one.canaries,
         f"{one.why.rule}: {one.why.value:.3g} of {one.why.limit:g}")
        for one in shut
    ]  # fmt: skip
    return table(("node", "since", "games", "canaries", "why"), rows) if rows else "no node is quarantined"


async def add(store: Store, node: str, reason: str, here: str, now: float) -> Quarantined:
    """Shut *node* out from now on, and say so.  Raises UnknownName for a node that nobody has seen."""
    said = Quarantined(node=node, reason=f"by hand: {reason}", by=here)
    async with store.begin() as tx:
        known = [record.id for record in await tx.scan(NODE, "", NODES_MAX)]
        if node not in known:
            raise UnknownName("node", node, known)
        if node not in await quarantine.of(tx, [node]):  # what was found first stays the reason
            await quarantine.shut_out(tx, node, trust.by_hand(reason, now))
            await tx.append([by_hand(here).wrap(said, source="cli")])
    return said


async def release(store: Store, node: str, here: str) -> Released:
    """Let *node* play again, and say so.  Raises UnknownName unless it is quarantined."""
    said = Released(node=node, by=here)
    async with store.begin() as tx:
        known = await quarantine.everyone(tx)
        if node not in known:
            raise UnknownName("quarantined node", node, known)
        await quarantine.release(tx, node)
        await tx.append([by_hand(here).wrap(said, source="cli")])
    return said


async def do(store: Store, options: argparse.Namespace, here: str) -> str:
    """Do what is asked; what to print."""
    now = SystemClock().now()
    if options.verb == "list":
        shut = await listed(store)
        return json.dumps(msgspec.to_builtins(shut), indent=2) if options.json else as_text(shut, now)
    if not options.node:
        raise InputError(f"which node?  ringrift quarantine {options.verb} NODE  (ringrift status  shows them)")
    if options.verb == "add":
        said: Quarantined | Released = await add(store, options.node, options.reason, here, now)
        text = f"{options.node} gets no more games, and its blocks are no evidence any more"
    else:
        said = await release(store, options.node, here)
        text = f"{options.node} may play again; it is tried anew from its first game on"
    return json.dumps(msgspec.to_builtins(said)) if options.json else text


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print what came of it; 0."""
    return answer(options, given, do)
