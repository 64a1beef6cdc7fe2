"""Show what became of games and files, where they are and what may go; verify, copy, import, adopt or give up files."""

import os
from pathlib import Path

from ringrift.blobs.folder import Folder, FolderBlobs
from ringrift.cli.command import Command, Context, Output, Parser, by_verb
from ringrift.cli.data_files import export_npz, import_games, validate
from ringrift.cli.data_status import data_status
from ringrift.cli.data_sync import data_sync
from ringrift.cli.data_verify import choose_nodes, data_verify
from ringrift.cli.data_where import data_where
from ringrift.cli.disk_usage import Usage, fate_table, size_text, survey_home, survey_node, usage_table
from ringrift.cli.presence import observe
from ringrift.cluster.daemon_commands import issue
from ringrift.cluster.roster import NodeRecord
from ringrift.daemons.sweep import sweep
from ringrift.events.catalog import decode
from ringrift.events.daemon import CommandIssued
from ringrift.events.data import Removed
from ringrift.kernel.errors import InputError, NodeAway
from ringrift.sync import ledger

_FORGOTTEN_AT_ONCE = 500  # files in one transaction
_SWEEPS_MAX, _EVENTS_MAX = 1_000, 100_000  # parts of a folder that are swept, and events of that which are added up


def _arguments(parser: Parser) -> None:
    verbs = "status: what became of every slot of self-play, what nodes hold, what has one copy; where: which nodes "
    verbs += "have the file HASH; verify: hash every file; sync: make second copies now; "
    verbs += "du: sizes by kind, and what pins them; gc: delete what the retention rule lets go; adopt: let a folder "
    verbs += "without the right marker be that of its node; give-up: forget the files of a node; "
    verbs += "import: count the games of a file from elsewhere, each once; export: write the samples HASH, by default "
    verbs += "the newest, as .npz; validate: check a .npz FILE"
    parser.add_argument("verb", choices=(*_VERBS, _VALIDATE), help=verbs)
    parser.add_argument("node", nargs="?", help="NODE (without it verify, du and gc take all), HASH or FILE")
    parser.add_argument("--variant", metavar="NAME", help="import, export: the variant (default: the only line's)")
    parser.add_argument("--npz", nargs="?", const="", metavar="FILE", help="export: the file to write")
    parser.add_argument("--dry-run", action="store_true", help="gc, sync: only say what would be done, and why")
    parser.add_argument("--folder", metavar="PATH", help="adopt: its blob folder (default: the recorded one)")
    parser.add_argument("--yes", action="store_true", help="adopt: every folder of this machine without a marker")


async def _holdings(context: Context) -> list[tuple[NodeRecord, list[str]]]:
    """Nodes, each with the files that the store knows there.  Raises UnknownName."""
    nodes = await choose_nodes(context)
    async with context.store.read() as view:
        return [(node, sorted(await ledger.held_by(view, node.id))) for node in nodes]


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
        marker, here = folder.read_marker(), len(Folder(folder.root).have(blobs))
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


async def _survey(context: Context) -> tuple[list[Usage], list[str]]:
    """The usage of every node, or of the one that is named, and a line for each that cannot be looked at here."""
    rows, away = list[Usage](), list[str]()
    for node in await choose_nodes(context):
        try:
            rows += await survey_node(context.store, node, context.settings.sweep, context.clock.now())
        except NodeAway as error:
            away.append(f"not counted: {error}")
    return rows, away


async def _du(context: Context) -> Output:
    """How much everything takes, and what pins it."""
    rows, away = await _survey(context)
    if context.options.node is None:
        rows += survey_home(context.settings, context.effective.home)
    stays, goes = fate_table(rows, goes=False), fate_table(rows, goes=True)
    text = f"{usage_table(rows)}\n\nwhat stays:\n{stays}\n\nwhat may go:\n{goes}"
    return Output(value={"usage": rows, "away": away}, text="\n".join([text, *away]))


async def _gc(context: Context) -> Output:
    """Sweep the folders of nodes that do not run, and let those that do sweep their own."""
    if context.options.dry_run:
        rows, away = await _survey(context)
        text = f"would be deleted:\n{fate_table(rows, goes=True)}\n\nstays:\n{fate_table(rows, goes=False)}"
        return Output(value={"usage": rows, "away": away}, text="\n".join([text, *away]))
    results: list[dict[str, str]] = []
    running = await observe(context.store, context.clock, context.settings.cluster.beat_seconds)
    for node in await choose_nodes(context):
        is_running = node.id in {record.id for record in running.present}
        results.append({"node": node.id, "result": await (_ask_to_sweep if is_running else _sweep)(context, node)})
    lines = [f"node {row['node']}: {row['result']}" for row in results]
    return Output(value=results, text="\n".join(lines) or "no node is recorded yet")


async def _ask_to_sweep(context: Context, node: NodeRecord) -> str:
    async with context.store.begin() as tx:
        event = CommandIssued(node=node.id, daemon="sweep", action="restart", by=context.settings.node.id)
        await issue(tx, context.envelopes(), event)
    return "it runs and was asked to sweep now, by its own settings (ringrift events tail --names data.removed)"


async def _sweep(context: Context, node: NodeRecord) -> str:
    """Do what the daemon of *node*, which does not run, would do."""
    store, settings, start = context.store, context.settings, context.store.position
    envelopes, blobs = context.envelopes(node.id), FolderBlobs(node.address, node.id)
    try:
        for _ in range(_SWEEPS_MAX):
            if await sweep(store=store, blobs=blobs, envelopes=envelopes, clock=context.clock, settings=settings):
                break
    except NodeAway as error:
        return str(error)
    async with store.read() as view:
        rows = await view.read(start, _EVENTS_MAX, [Removed.name()])
    removals = [event for row in rows if isinstance(event := decode(row.name, row.body), Removed)]
    own = [(event.count, event.bytes) for event in removals if event.node == node.id]
    count, size = sum(count for count, _ in own), sum(size for _, size in own)
    return f"deleted {count:,} files, {size_text(size)}; what stays, and why:  ringrift data du {node.id}"


def _prepare(context: Context) -> Output | None:
    options = context.options
    if not options.node and (options.verb == "give-up" or options.folder):
        raise InputError(f"name the node:  ringrift data {options.verb} NODE  (ringrift status  shows them)")
    if not options.node and options.verb in _ARGUMENTS:
        raise InputError(f"argument missing:  ringrift data {options.verb} {_ARGUMENTS[options.verb]}")
    if options.verb == "export" and options.npz is None:
        raise InputError("name the format:  ringrift data export [HASH] --npz [FILE]")
    for name, verbs in _OPTIONS.items():
        if getattr(options, name) not in (None, False) and options.verb not in verbs:
            option, places = f"--{name.replace('_', '-')}", " and ".join(verbs)
            raise InputError(
                f"{option} belongs to {places}:  ringrift data {verbs[0]} {option}; {options.verb} has none"
            )
    return validate(context) if options.verb == _VALIDATE else None


_VALIDATE = "validate"  # it needs no store
_ARGUMENTS = {"import": "FILE [--variant NAME]", "where": "HASH  (its beginning is enough)", _VALIDATE: "FILE"}
_OPTIONS = {"dry_run": ("gc", "sync"), "npz": ("export",), "variant": ("import", "export"), "folder": ("adopt",)}
_OPTIONS |= {"yes": ("adopt",)}
_VERBS = {"status": data_status, "where": data_where, "verify": data_verify, "sync": data_sync}
_VERBS |= {"du": _du, "gc": _gc, "adopt": _adopt, "give-up": _give_up, "import": import_games, "export": export_npz}
COMMAND = Command(arguments=_arguments, prepare=_prepare, question=by_verb(_VERBS))
