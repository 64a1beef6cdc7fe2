"""List quarantined nodes, whose results do not count; quarantine or release one."""

from collections.abc import Sequence
from dataclasses import dataclass

from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.cli.formats import duration, table, timestamp
from ringrift.cluster.roster import NODES
from ringrift.events.node import Quarantined, Released
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.trust import TRUSTS, Trust, operator_verdict
from ringrift.store.ports import Reads
from ringrift.work.limits import QUARANTINES


def _arguments(parser: Parser) -> None:
    parser.add_argument("verb", nargs="?", default="list", choices=("list", "add", "release"), help="default: list")
    parser.add_argument("node", nargs="?", help="add, release: name of the node")
    parser.add_argument("--reason", default="quarantined by hand", help="add: reason for the log")


@dataclass(frozen=True)
class _QuarantinedNode:
    """A quarantined node: the reason, and what it had reported."""

    node: str
    why: Verdict
    games: int = 0
    canaries: int = 0
    """Canary blocks that it has answered."""


async def _quarantined_nodes(view: Reads) -> list[_QuarantinedNode]:
    """Every quarantined node, the latest last."""
    verdicts = await QUARANTINES.scan(view)
    records = await TRUSTS.get_many(view, list(verdicts))
    trusts = {node: records.get(node, Trust(node=node)) for node in verdicts}
    nodes = [_QuarantinedNode(id, why, trusts[id].games, trusts[id].answered) for id, why in verdicts.items()]
    return sorted(nodes, key=lambda node: node.why.since)


def _as_text(nodes: Sequence[_QuarantinedNode], now: float) -> str:
    rows = []
    for node in nodes:
        why, since = node.why, f"{timestamp(node.why.since)} ({duration(now - node.why.since)} ago)"
        numbers = f": {why.value:.3g} of {why.limit:g}" if why.limit else ""
        rows.append((node.node, since, node.games, node.canaries, why.rule + numbers))
    return table(("node", "since", "games", "canaries", "why"), rows, "no node is quarantined")


async def _add(context: Context, node: str, reason: str) -> Quarantined:
    """Quarantine *node* from now on.  Raises UnknownName for a node that never joined."""
    event = Quarantined(node=node, reason=f"by hand: {reason}", by=context.settings.node.id)
    async with context.store.begin() as tx:
        nodes = await NODES.scan(tx)
        if node not in nodes:
            raise UnknownName("node", node, nodes)
        if node not in await QUARANTINES.get_many(tx, [node]):  # the first reason stays
            await QUARANTINES.put_at(tx, {node: operator_verdict(reason, context.clock.now())})
            await tx.append([context.envelopes().make(event, source="cli")])
    return event


async def _release(context: Context, node: str) -> Released:
    """Let *node* play again.  Raises UnknownName unless it is quarantined."""
    event = Released(node=node, by=context.settings.node.id)
    async with context.store.begin() as tx:
        nodes = await QUARANTINES.scan(tx)
        if node not in nodes:
            raise UnknownName("quarantined node", node, nodes)
        await QUARANTINES.delete(tx, [node])
        await tx.append([context.envelopes().make(event, source="cli")])
    return event


async def _question(context: Context) -> Output:
    verb, node = context.options.verb, context.options.node
    if verb == "list":
        async with context.store.read() as view:
            nodes = await _quarantined_nodes(view)
        return Output(value=nodes, text=_as_text(nodes, context.clock.now()))
    if not node:
        raise InputError(f"name the node:  ringrift quarantine {verb} NODE  (ringrift status  shows them)")
    if verb == "add":
        text = f"node {node} is quarantined: it gets no more games, and its blocks are no evidence any more"
        return Output(value=await _add(context, node, context.options.reason), text=text)
    text = f"node {node} is released: it may play again, and its trust starts anew"
    return Output(value=await _release(context, node), text=text)


COMMAND = Command(arguments=_arguments, question=_question)
