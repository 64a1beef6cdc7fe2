"""List quarantined nodes, whose results do not count; quarantine or release one."""

from ringrift.cli.command import Command, Context, Output, Parser, by_verb
from ringrift.cli.formats import ago, table, timestamp
from ringrift.cluster.roster import NODES
from ringrift.events.node import Quarantined, Released
from ringrift.kernel.errors import InputError, require_name
from ringrift.pipeline.trust import TRUSTS, Trust, operator_verdict
from ringrift.work.limits import QUARANTINES


def _arguments(parser: Parser) -> None:
    parser.add_argument("verb", nargs="?", default="list", choices=("list", "add", "release"), help="default: list")
    parser.add_argument("node", nargs="?", help="add, release: name of the node")
    parser.add_argument("--reason", default="quarantined by hand", help="add: reason for the log")


async def _list(context: Context) -> Output:
    """Every quarantined node, the latest last."""
    async with context.store.read() as view:
        verdicts = await QUARANTINES.scan(view)
        trusts = await TRUSTS.get_many(view, list(verdicts))
    nodes, rows, now = [], [], context.clock.now()
    for node, why in sorted(verdicts.items(), key=lambda item: item[1].since):
        trust = trusts.get(node, Trust(node=node))
        numbers = f": {why.value:.3g} of {why.limit:g}" if why.limit else ""
        nodes.append({"node": node, "why": why, "games": trust.games, "canaries": trust.answered})
        since = f"{timestamp(why.since)} ({ago(why.since, now)})"
        rows.append((node, since, trust.games, trust.answered, why.rule + numbers))
    head = ("node", "since", "games", "canaries", "why")
    return Output(value=nodes, text=table(head, rows, "no node is quarantined"))


async def _add(context: Context) -> Output:
    """Quarantine a node from now on.  Raises UnknownName for a node that never joined."""
    node, reason = context.options.node, context.options.reason
    event = Quarantined(node=node, reason=f"by hand: {reason}", by=context.settings.node.id)
    async with context.store.begin() as tx:
        nodes = await NODES.scan(tx)
        require_name("node", node, nodes)
        if node not in await QUARANTINES.get_many(tx, [node]):  # the first reason stays
            await QUARANTINES.put_at(tx, {node: operator_verdict(reason, context.clock.now())})
            await context.publish(tx, event)
    text = f"node {node} is quarantined: it gets no more games, and its blocks are no evidence any more"
    return Output(value=event, text=text)


async def _release(context: Context) -> Output:
    """Let a node play again.  Raises UnknownName unless it is quarantined."""
    node = context.options.node
    event = Released(node=node, by=context.settings.node.id)
    async with context.store.begin() as tx:
        nodes = await QUARANTINES.scan(tx)
        require_name("quarantined node", node, nodes)
        await QUARANTINES.delete(tx, [node])
        await context.publish(tx, event)
    return Output(value=event, text=f"node {node} is released: it may play again, and its trust starts anew")


def _prepare(context: Context) -> None:
    verb = context.options.verb
    if verb != "list" and not context.options.node:
        raise InputError(f"name the node:  ringrift quarantine {verb} NODE  (ringrift status  shows them)")


_QUESTION = by_verb({"list": _list, "add": _add, "release": _release})
COMMAND = Command(arguments=_arguments, prepare=_prepare, question=_QUESTION)
