"""Data status: what has become of every slot of self-play, what each node holds, and which files have one copy."""

from collections.abc import Mapping, Sequence
from statistics import median

from ringrift.blobs.ports import BlobSummary
from ringrift.cli.command import Context, Output
from ringrift.cli.disk_usage import size_text
from ringrift.cli.formats import duration, plural, short, table, timestamp
from ringrift.cluster.liveness import stored_states
from ringrift.cluster.roster import NODES, NodeState
from ringrift.jobs import Play
from ringrift.kernel.exit_codes import ExitCode
from ringrift.kernel.value import Value
from ringrift.pipeline.copies import WAITING
from ringrift.pipeline.singles import Single, find_singles
from ringrift.store.ports import Reads
from ringrift.sync import ledger
from ringrift.sync.failed_copies import FAILED, FailedCopy
from ringrift.sync.receipts import TRAFFIC, NodeTraffic
from ringrift.work.durations import load_durations
from ringrift.work.game_ledger import ACCOUNTS, Amount, GameAccount, find_imbalance, read_counts

_SINGLES_MAX = _FAILED_MAX = 10  # that are listed
_COPIES_MIN = 2
_PRESENT = (NodeState.ALIVE, NodeState.STARTING)


class _LineSlots(Value):
    """The account of one line beside the jobs that its store counts."""

    account: GameAccount
    waiting: int
    running: int
    imbalance: str = ""  #: What does not add up; empty if every slot is accounted for.
    game_seconds: float | None = None  #: How long a game took lately, of one worker.


class _NodeFiles(Value):
    """What one node holds, and what copies it has received and sent."""

    node: str
    state: str
    durable: bool
    files: BlobSummary | None  #: As the ledger lists it; None: not summed up yet.
    traffic: NodeTraffic


class _DataStatus(Value):
    """All that ``data status`` shows."""

    lines: Sequence[_LineSlots]
    nodes: Sequence[_NodeFiles]
    singles: Sequence[Single]
    failed: Sequence[FailedCopy]
    waiting: Mapping[str, tuple[int, str]]  #: Why copies waited at the last look: how many, and one of them.


async def present_nodes(view: Reads) -> tuple[list[str], dict[str, NodeState]]:
    """The nodes that are present as the watcher last judged, and the states of all."""
    nodes = await NODES.all(view)
    states = await stored_states(view, nodes)
    return [id for id, state in states.items() if state in _PRESENT], states


async def _line_slots(view: Reads, account: GameAccount) -> _LineSlots:
    counts = await read_counts(view, account.variant)
    durations = await load_durations(view, Play.kind(), account.variant)
    speeds = durations.unit_seconds if durations else ()
    facts = {"waiting": counts.get("ready", 0), "running": counts.get("claimed", 0)}
    seconds = median(speeds) if speeds else None
    return _LineSlots(account=account, imbalance=find_imbalance(account, counts), game_seconds=seconds, **facts)


async def _node_files(view: Reads, states: Mapping[str, NodeState]) -> list[_NodeFiles]:
    traffic, rows = await TRAFFIC.scan(view), list[_NodeFiles]()
    for node in [node for node in await NODES.all(view) if node.has_files]:
        files, moved = await ledger.manifest_of(view, node.id), traffic.get(node.id, NodeTraffic(node=node.id))
        facts = {"node": node.id, "state": str(states[node.id])}
        rows.append(_NodeFiles(durable=not node.ephemeral, files=files, traffic=moved, **facts))
    return rows


async def data_status(context: Context) -> Output:
    """Everything; the exit code is that of a failure where slots are not accounted for."""
    async with context.store.read() as view:
        lines = [await _line_slots(view, account) for account in await ACCOUNTS.all(view)]
        present, states = await present_nodes(view)
        nodes, singles = await _node_files(view, states), await find_singles(view, present)
        failed, waiting = await FAILED.all(view), await WAITING.get(view, "last") or {}
    status = _DataStatus(lines=lines, nodes=nodes, singles=singles, failed=failed, waiting=waiting)
    text = "\n\n".join((_slots_text(lines), _nodes_text(nodes), _singles_text(singles)))
    text = "\n".join([text, *_delays(failed, waiting)])
    is_wrong = any(line.imbalance for line in lines)
    return Output(value=status, text=text, code=ExitCode.FAILED if is_wrong else 0)


def _amount(amount: Amount) -> str:
    return f"{amount.slots:,} ({amount.games:,})" if amount.slots else "0"


def _slots_text(lines: Sequence[_LineSlots]) -> str:
    names = ("line", "asked for", "waiting", "running", "ingested", "repeated", "lost", "played again", "accounted for")
    rows = list[tuple[object, ...]]()
    for line in lines:
        row, amounts = line.account, (line.account.ingested, line.account.repeated)
        sums = [_amount(row.enqueued), line.waiting, line.running, *map(_amount, amounts)]
        verdict = f"NO: {line.imbalance}" if line.imbalance else "all"
        rows.append((row.variant, *sums, *(_amount(row.total(place)) for place in ("lost", "reruns")), verdict))
    notes = [note for line in lines for note in _notes(line)]
    return "\n".join(["slots of self-play (games):", table(names, rows, "none was asked for yet"), *notes])


def _notes(line: _LineSlots) -> list[str]:
    """What the table has no room for: reasons and their cost, and what came in beside the slots."""
    row, notes = line.account, list[str]()
    for place, word in (("lost", "lost"), ("reruns", "played again")):
        for reason, amount in sorted(getattr(row, place).items()):
            seconds = amount.games * line.game_seconds if line.game_seconds else 0.0
            cost = f", at most {duration(seconds)} of play" if seconds >= 1 else ""
            notes.append(f"  {row.variant}: {word}: {_amount(amount)}: {reason}{cost}")
    for amount, words in ((row.islands, "came in without a lease"), (row.imported, "came from elsewhere")):
        notes += [f"  {row.variant}: {_amount(amount)} batches {words}"] if amount.slots else []
    if before := row.done_before + row.lost_before:
        notes.append(f"  {row.variant}: {plural(before, 'slot')} ended before {timestamp(row.since)}, when this began")
    return notes


def _nodes_text(nodes: Sequence[_NodeFiles]) -> str:
    names = ("node", "state", "machine", "files", "size", "received", "size", "sent", "size")
    rows = list[tuple[object, ...]]()
    for row in nodes:
        files = (f"{row.files.count:,}", size_text(row.files.bytes)) if row.files else ("—", "—")
        moved = row.traffic
        received, sent = (moved.received, size_text(moved.received_bytes)), (moved.sent, size_text(moved.sent_bytes))
        rows.append((row.node, row.state, "durable" if row.durable else "may vanish", *files, *received, *sent))
    return f"files of nodes:\n{table(names, rows, 'no node is recorded yet')}"


def _singles_text(singles: Sequence[Single]) -> str:
    """Files with one durable copy; a second one on a node that is not running is away, and not gone."""
    alone = [row for row in singles if row.durable + row.away < _COPIES_MIN]
    if not singles:
        return "every file that a line needs is on two durable nodes"
    names = ("file", "kind", "line", "on", "second copy")
    words = {True: "can be made now:  ringrift data sync", False: "waits for another durable node"}
    rows = [
        (short(row.blob), row.kind, row.variant, ", ".join(row.holders) or "no node", words[row.can_be_copied])
        for row in alone
    ]
    head = f"{plural(len(alone), 'file')} with fewer than two durable copies"
    lines = [f"{head}:", table(names, rows, limit=_SINGLES_MAX, more="… and {} more")] if alone else [head]
    if waiting := len(singles) - len(alone):
        lines.append(f"{plural(waiting, 'file')} with two durable copies, not both on nodes that are running")
    return "\n".join(lines)


def _delays(failed: Sequence[FailedCopy], waiting: Mapping[str, tuple[int, str]]) -> list[str]:
    """Why copies are not made yet."""
    rows = [(plural(count, "file"), short(blob), rule) for rule, (count, blob) in waiting.items()]
    lines = [f"{files} waiting for a copy ({blob}): {rule}" for files, blob, rule in rows]
    for row in failed[:_FAILED_MAX]:
        tries = plural(row.failures, "failure") + (", given up" if row.given_up else "")
        lines.append(f"not copied to {row.target}: {short(row.blob)}, {tries}: {row.error}")
    more = len(failed) - _FAILED_MAX
    return [*lines, f"… and {more} more"] if more > 0 else lines
