"""Data where: which nodes have a file, how it came there, how it was made, and why it stays or is gone."""

from typing import Any

from ringrift.blobs.ports import StoredBlob
from ringrift.cli.command import Context, Output
from ringrift.cli.data_status import present_nodes
from ringrift.cli.disk_usage import size_text
from ringrift.cli.formats import table, timestamp
from ringrift.cluster.roster import NODES
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.kernel.exit_codes import ExitCode
from ringrift.pipeline import retention
from ringrift.store.ports import Origin, Reads
from ringrift.sync import ledger
from ringrift.sync.receipts import Receipt, receipts_of

_KINDS = ("games", "samples", "model", "report")  # of origins
_AMBIGUOUS_MAX = 5
_PREFIX_MIN = 4


async def _find_blob(view: Reads, text: str) -> str:
    """The only file whose hash begins with *text*.  Raises UnknownName, or InputError if there are several."""
    if len(text) < _PREFIX_MIN or not set(text) <= set("0123456789abcdef"):
        raise InputError(f"{text[:70]!r} is not the beginning of a hash: use at least {_PREFIX_MIN} hexadecimal digits")
    blobs = set(await ledger.find_listed(view, text, _AMBIGUOUS_MAX))
    for kind in _KINDS:
        blobs |= {origin.blob for origin in await view.list_origins(kind, _AMBIGUOUS_MAX, prefix=text)}
    if not blobs:
        raise UnknownName("file", text)
    if len(blobs) > 1:
        raise InputError(f"{text} is ambiguous: {', '.join(sorted(blobs)[:_AMBIGUOUS_MAX])}")
    return blobs.pop()


async def data_where(context: Context) -> Output:
    """All about one file; without a copy that can be reached now the exit code is that of a failure."""
    async with context.store.read() as view:
        blob = await _find_blob(view, context.options.node)
        (holders, size), receipts = (await ledger.copies(view, [blob]))[blob], await receipts_of(view, blob)
        origins, removal = await view.origins([blob]), await ledger.removal(view, blob)
        records, (present, states) = await NODES.scan(view), await present_nodes(view)
        stored = StoredBlob(blob=blob, size=0, time=context.clock.now())
        [ruling] = await retention.rule(view, [stored], context.settings.sweep, context.clock.now())
    by_node = {receipt.node: receipt for receipt in receipts}
    copies = list[dict[str, Any]]()
    for node in holders:
        record = records.get(node)
        facts = {"node": node, "state": str(states.get(node, "unknown")), "durable": not (record and record.ephemeral)}
        copies.append({**facts, "receipt": by_node.get(node)})
    value = {
        "blob": blob,
        "bytes": size or None,
        "copies": copies,
        "origins": origins,
        "removal": removal,
        "stays": ruling.reason,
    }
    fate = f"stays: {ruling.reason or 'nothing needs it'}" if holders else f"gone: {removal or 'no node has it'}"
    lines = [f"{blob} ({size_text(size)})" if size else blob, *map(_origin_text, origins), f"  {fate}"]
    rows = [(row["node"], row["state"], _durable(row["durable"]), _receipt_text(row["receipt"])) for row in copies]
    lines += [table(("node", "state", "machine", "how it came there"), rows)] if rows else []
    return Output(value=value, text="\n".join(lines), code=0 if set(present).intersection(holders) else ExitCode.FAILED)


def _durable(durable: bool) -> str:
    return "durable" if durable else "may vanish"


def _origin_text(origin: Origin) -> str:
    games = f", {origin.games} games" if origin.games else ""
    made = f"made by {origin.node} at {timestamp(origin.time)}, job {origin.job}"
    return f"  {origin.kind} of {origin.variant}{games}: {made}"


def _receipt_text(receipt: Receipt | None) -> str:
    if receipt is None:
        return "made there, or before copies had receipts"
    return f"from {receipt.source} by {receipt.transport} at {timestamp(receipt.time)}, verified"
