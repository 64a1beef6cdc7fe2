"""List quarantined nodes, whose results do not count, and damaged files that were set aside; release one."""

from contextlib import suppress
from functools import partial

from ringrift.blobs import quarantine
from ringrift.blobs.folder import Folder
from ringrift.blobs.ports import StoredBlob
from ringrift.cli.command import Command, Context, Output, Parser, by_verb
from ringrift.cli.disk_usage import size_text
from ringrift.cli.formats import ago, table, timestamp
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.events.node import Quarantined, Released
from ringrift.kernel.errors import Corrupt, InputError, NodeAway, require_name
from ringrift.pipeline.trust import TRUSTS, Trust, operator_verdict
from ringrift.sync import ledger
from ringrift.threads import to_its_end
from ringrift.work.limits import QUARANTINES

_BEGINNING_MIN = 6  # characters of the name of a file


def _arguments(parser: Parser) -> None:
    parser.add_argument("verb", nargs="?", default="list", choices=("list", "add", "release"), help="default: list")
    name = "add, release: name of the node; release: or the name of a file, or its beginning"
    parser.add_argument("node", nargs="?", help=name)
    parser.add_argument("--reason", default="quarantined by hand", help="add: reason for the log")


async def _quarantined_files(context: Context) -> list[tuple[NodeRecord, StoredBlob]]:
    """The files that nodes on this machine have set aside, whether or not they run."""
    async with context.store.read() as view:
        nodes = [node for node in await NODES.all(view) if node.has_files]
    rows = list[tuple[NodeRecord, StoredBlob]]()
    for node in nodes:
        with suppress(NodeAway):  # its disk is elsewhere
            files = await to_its_end(None, quarantine.list_quarantined, Folder(node.address, node.id))
            rows += [(node, file) for file in files]
    return rows


async def _list(context: Context) -> Output:
    """Every quarantined node, the latest last, then every file that was set aside."""
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
    texts, files = [table(head, rows, "no node is quarantined")], await _quarantined_files(context)
    if files:
        lines = [(row.blob[:12], node.id, size_text(row.size), timestamp(row.time)) for node, row in files]
        texts.append(table(("damaged file", "node", "size", "written"), lines))
        texts.append("a running node brings good copies; to try a file again:  ringrift quarantine release FILE")
    damaged = [{"file": row.blob, "node": node.id, "size": row.size, "time": row.time} for node, row in files]
    return Output(value=[*nodes, *damaged], text="\n\n".join(texts))


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
    files = [(of, row.blob) for of, row in await _quarantined_files(context) if row.blob.startswith(node)]
    if files and len(node) >= _BEGINNING_MIN:
        return await _release_files(context, files)
    async with context.store.begin() as tx:
        nodes = await QUARANTINES.scan(tx)
        require_name("quarantined node", node, nodes)
        await QUARANTINES.delete(tx, [node])
        await context.publish(tx, event)
    return Output(value=event, text=f"node {node} is released: it may play again, and its trust starts anew")


async def _release_files(context: Context, files: list[tuple[NodeRecord, str]]) -> Output:
    """Put a file back into service on each node that has it.  Raises InputError if several begin so, or it is wrong."""
    if len({blob for _, blob in files}) > 1:
        raise InputError(f"several files begin with {context.options.node}: write more of the name")
    rows = list[dict[str, str | int]]()
    for node, blob in files:
        try:
            size = await to_its_end(None, partial(quarantine.release, Folder(node.address, node.id), blob))
        except Corrupt as corrupt:
            where = f"ringrift data where {blob[:12]}"
            text = f"file {blob[:12]} of node {node.id} is damaged, and stays where it is; other copies:  {where}"
            raise InputError(text) from corrupt
        async with context.store.begin() as tx:
            await ledger.add(tx, [(blob, node.id, size)])
        rows.append({"file": blob, "node": node.id, "size": size})
    return Output(value=rows, text=f"file {files[0][1][:12]} has the right bytes: it is in service again")


def _prepare(context: Context) -> None:
    verb = context.options.verb
    if verb != "list" and not context.options.node:
        raise InputError(f"name the node:  ringrift quarantine {verb} NODE  (ringrift status  shows them)")


_QUESTION = by_verb({"list": _list, "add": _add, "release": _release})
COMMAND = Command(arguments=_arguments, prepare=_prepare, question=_QUESTION)
