"""Adopt the blob folder of a node after its disk was replaced; give up the files of one that will not come back."""

import os
from pathlib import Path

from ringrift.blobs.folder import Folder
from ringrift.cli.command import Command, Context, Output, Parser, by_verb
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.kernel.errors import InputError, require_name
from ringrift.sync import ledger

_FORGOTTEN_AT_ONCE = 500  # files in one transaction


def _arguments(parser: Parser) -> None:
    verbs = "adopt: let a folder without the right marker be that of its node; give-up: forget the files of a node"
    parser.add_argument("verb", choices=("adopt", "give-up"), help=verbs)
    parser.add_argument("node", nargs="?", help="name of the node; without it adopt only says what it finds")
    parser.add_argument("--folder", metavar="PATH", help="adopt: its blob folder (default: the recorded one)")
    parser.add_argument("--yes", action="store_true", help="adopt: every folder of this machine without a marker")


async def _holdings(context: Context) -> list[tuple[NodeRecord, list[str]]]:
    """The node that is named, else all, each with the files that the store knows there.  Raises UnknownName."""
    name = context.options.node
    async with context.store.read() as view:
        nodes = await NODES.scan(view)
        if name is not None:
            require_name("node", name, nodes)
        return [(node, sorted(await ledger.held_by(view, id))) for id, node in nodes.items() if name in (None, id)]


def _folder(node: NodeRecord, context: Context) -> Folder:
    """The folder that was named, that with which *node* would start here by the settings, or the recorded one."""
    own = Path(context.settings.blobs.address()) / node.id
    recorded = own if own.is_dir() or not os.path.isabs(node.address) else node.address
    return Folder(context.options.folder or recorded, node.id)


async def _adopt(context: Context) -> Output:
    """Write the markers; without a name or ``--yes`` only report.  Raises UnknownName, InputError."""
    options, rows, texts = context.options, [], []
    for node, blobs in await _holdings(context):
        folder = _folder(node, context)
        marker, here = folder.read_marker(), sum(folder.path(blob).exists() for blob in blobs)
        state = "has its marker" if marker == node.id else f"belongs to node {marker}"
        if marker is None:
            state = f"has no marker; if this is the right folder:  ringrift data adopt {node.id}"
        if not folder.root.is_dir():
            state = "is not there: mount its disk, or make an empty folder there first"
        elif marker is None and (options.node or options.yes):
            folder.mark()
            state = "is adopted: the node can start, and what is not in it counts as lost"
        if options.node and folder.find_away() is not None:
            raise InputError(f"node {node.id}: {folder.root} {state}")
        texts.append(f"node {node.id}: {folder.root} {state}")
        texts.append(f"  {here} of the {len(blobs)} files that the store knows there are in it")
        rows.append({"node": node.id, "folder": str(folder.root), "state": state, "files": len(blobs), "here": here})
    return Output(value=rows, text="\n".join(texts) or "no node is recorded yet")


async def _give_up(context: Context) -> Output:
    """Forget what a node holds.  Raises UnknownName, or InputError if it answers."""
    [(node, blobs)] = await _holdings(context)
    if Folder(node.address, node.id).find_away() is None:
        raise InputError(f"the blob folder of node {node.id} is there ({node.address}): its files are not lost")
    for first in range(0, len(blobs), _FORGOTTEN_AT_ONCE):
        async with context.store.begin() as tx:
            for blob in blobs[first : first + _FORGOTTEN_AT_ONCE]:
                await ledger.forget(tx, blob, [node.id])
    text = f"{len(blobs)} files of node {node.id} are given up: lines that need one of them go on without it.\n"
    text += "A model that turns up again is reported and tested again."
    return Output(value={"node": node.id, "files": len(blobs)}, text=text)


def _prepare(context: Context) -> None:
    options = context.options
    if not options.node and (options.verb == "give-up" or options.folder):
        raise InputError(f"name the node:  ringrift data {options.verb} NODE  (ringrift status  shows them)")


_QUESTION = by_verb({"adopt": _adopt, "give-up": _give_up})
COMMAND = Command(arguments=_arguments, prepare=_prepare, question=_QUESTION)
