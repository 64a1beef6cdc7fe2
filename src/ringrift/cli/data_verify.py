"""Data verify: hash every file of the nodes on this machine, and compare with what the ledgers say."""

from collections.abc import Sequence

from ringrift.blobs.folder import FolderBlobs
from ringrift.cli.command import Context, Output
from ringrift.cli.disk_usage import size_text
from ringrift.cli.formats import plural
from ringrift.cli.progress import Progress
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.events.data import Corrupted
from ringrift.kernel.errors import NodeAway, require_name
from ringrift.kernel.exit_codes import ExitCode
from ringrift.kernel.value import Value, changed
from ringrift.pipeline.singles import needed_files
from ringrift.sync import ledger
from ringrift.work.game_ledger import find_imbalances

_PAGE = 100  # files between two signs of progress
_LISTED_MAX = 5  # names that are printed


class _FolderReport(Value):
    """What was found in the folder of one node."""

    node: str
    files: int = 0
    bytes: int = 0
    corrupt: tuple[str, ...] = ()  #: Their bytes do not match their names; they were set aside.
    missing: tuple[str, ...] = ()  #: Listed for the node, and not there.
    unlisted: tuple[str, ...] = ()  #: There, and not listed.
    away: str = ""  #: Why it could not be looked at.


async def _verify_node(context: Context, node: NodeRecord) -> _FolderReport:
    """Hash all files of *node*; corrupt ones are set aside, and the ledger lists them no more."""
    blobs, sums = FolderBlobs(node.address, node.id), [0, 0]
    after: str | None = ""
    corrupt, missing, unlisted = list[str](), list[str](), list[str]()
    try:
        summary = await blobs.summary()
        progress = Progress(f"verify {node.id}", summary.bytes, context.clock)
        while after is not None:
            page = await blobs.page(after, _PAGE)
            names, end = [row.blob for row in page], page[-1].blob if len(page) == _PAGE else None
            bad = await blobs.verify(names)
            await _report_corrupt(context, node.id, bad)
            async with context.store.read() as view:
                listed = await ledger.held_by(view, node.id, after, *([end] if end else []))
            gone = listed.difference(names)
            corrupt, missing = [*corrupt, *bad], [*missing, *sorted(gone - await blobs.have(gone))]
            unlisted += sorted(set(names) - listed - set(bad))
            sums = [sums[0] + len(page), sums[1] + sum(row.size for row in page)]
            progress.update(sums[1])
            after = end
        progress.end()
    except NodeAway as error:
        return _FolderReport(node=node.id, away=str(error))
    report = _FolderReport(node=node.id, files=sums[0], bytes=sums[1])
    return changed(report, corrupt=tuple(corrupt), missing=tuple(missing), unlisted=tuple(unlisted))


async def _report_corrupt(context: Context, node: str, blobs: Sequence[str]) -> None:
    """What was set aside is no copy any more: others are asked for one."""
    if blobs:
        async with context.store.begin() as tx:
            for blob in blobs:
                await ledger.forget(tx, blob, [node])
                await context.publish(tx, Corrupted(blob=blob, node=node))


async def choose_nodes(context: Context) -> list[NodeRecord]:
    """The node that is named, else all that have files.  Raises UnknownName."""
    name = context.options.node
    async with context.store.read() as view:
        nodes = await NODES.scan(view)
    if name is not None:
        require_name("node", name, nodes)
    return [node for id, node in nodes.items() if name in (None, id) and node.has_files]


async def data_verify(context: Context) -> Output:
    """Verify the node that is named, or all; anything wrong is the exit code of a failure.  Raises UnknownName."""
    reports = [await _verify_node(context, node) for node in await choose_nodes(context)]
    async with context.store.read() as view:
        imbalances, needed = await find_imbalances(view), await needed_files(view)
        lost = [blob for blob, (holders, _) in (await ledger.copies(view, needed)).items() if not holders]
    lines = [line for report in reports for line in _report_lines(report)] or ["no node is recorded yet"]
    lines += [f"self-play of {variant} is not accounted for: {text}" for variant, text in imbalances.items()]
    lines += [f"no node holds {needed[blob][0]} {blob} that {needed[blob][1]} needs" for blob in lost]
    is_wrong = bool(imbalances or lost or any(row.corrupt or row.missing for row in reports))
    clean = "" if is_wrong else "every file matches its name, and every slot of self-play is accounted for"
    value = {"nodes": reports, "imbalances": imbalances, "lost": lost, "clean": not is_wrong}
    return Output(value=value, text="\n".join(filter(None, [*lines, clean])), code=ExitCode.FAILED if is_wrong else 0)


def _report_lines(report: _FolderReport) -> list[str]:
    if report.away:
        return [f"node {report.node}: not looked at: {report.away}"]
    lines = [f"node {report.node}: {plural(report.files, 'file')}, {size_text(report.bytes)}, all hashed"]
    words = {"corrupt": "do not match their names and were set aside", "missing": "are listed and not there"}
    words["unlisted"] = "are there and not listed"
    for field, text in words.items():
        if blobs := getattr(report, field):
            names = ", ".join(blob[:12] for blob in blobs[:_LISTED_MAX]) + (", …" if len(blobs) > _LISTED_MAX else "")
            lines.append(f"  {len(blobs)} {text}: {names}")
    return lines
