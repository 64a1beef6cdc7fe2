"""Asks for a copy of every blob that a line needs and that has too few, and watches those whose holders are away."""

from collections.abc import Collection, Mapping, Sequence

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.leadership import Roles
from ringrift.cluster.roster import Roster
from ringrift.jobs import STAGE, Sync
from ringrift.kernel.clock import Clock
from ringrift.kernel.settings import Policy
from ringrift.kernel.stall_detector import StallDetector
from ringrift.kernel.transfer_settings import Replicas
from ringrift.kernel.value import Value, changed
from ringrift.pipeline import absence
from ringrift.pipeline.copies import WAITING, line_wants, plan_nodes, summarize_waits, want_of
from ringrift.pipeline.foreign_games import COUNTED_GAMES
from ringrift.pipeline.line import Line
from ringrift.pipeline.line_settings import lines_in_force
from ringrift.pipeline.models import MODELS, Model, State
from ringrift.pipeline.records import save_verdicts
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.sync import failed_copies, ledger
from ringrift.sync.failed_copies import FAILED, FailedCopy
from ringrift.sync.plan import Plan, plan
from ringrift.sync.strategies import shape
from ringrift.sync.transfer import Transfer
from ringrift.sync.wants import Link, PlanNode, Want
from ringrift.work.desk import enqueue
from ringrift.work.limits import VERDICTS

_Holders = Mapping[str, Sequence[str]]  #: By blob.
_SEARCHED_MAX = 64  #: Files without a listed holder that one look searches for on every node.


class _Stock(Value):
    """What the store says, at one time: the lines, what they want, who holds it, what could not be copied."""

    lines: Sequence[Line]
    lost: Sequence[Model]
    wants: Sequence[Want]
    holders: _Holders
    failed: Sequence[FailedCopy]
    waiting: Mapping[str, tuple[int, str]]
    unsummed: Sequence[str]  # nodes


async def _read(store: Store, replicas: Replicas, now: float) -> _Stock:
    async with store.read() as view:
        lines, failed = await lines_in_force(view, now), await FAILED.all(view)
        wants, pending = line_wants(lines, replicas), [batch.blob for line in lines for batch in line.pending]
        counted = (await COUNTED_GAMES.scan(view)).items()
        wants += [want_of(variant, blob, "report", replicas) for variant, blob in counted]
        blobs = dict.fromkeys([*(want.blob for want in wants), *pending, *(row.blob for row in failed)])
        copies = await ledger.copies(view, blobs)
        return _Stock(
            lines=lines,
            lost=await MODELS.all(view, "state", State.LOST),
            wants=[changed(want, size=copies[want.blob][1]) for want in wants],
            holders={blob: holders for blob, (holders, _) in copies.items()},
            failed=failed,
            waiting=await WAITING.get(view, "last") or {},
            unsummed=await ledger.find_unsummed(view, sorted({node for nodes, _ in copies.values() for node in nodes})),
        )


async def replicate(
    *,
    store: Store,
    roster: Roster,
    roles: Roles,
    transfer: Transfer,
    replicas: Replicas,
    policy: Policy,
    envelopes: EnvelopeFactory,
    clock: Clock,
    memory: StallDetector,
) -> None:
    """Look once.  A blob that no node has any more is left out: the job that needs it will fail and name it."""
    now = clock.now()
    stock = await _read(store, replicas, now)
    records = await roster.present()
    away = await transfer.find_away({node.id for node in records if node.has_files}.union(*stock.holders.values()))
    nodes = plan_nodes(records, away, await transfer.hubs.rooms())
    present = {id for id, node in nodes.items() if node.reachable}
    # A disk that was given up may be back.
    needed = [want.blob for want in stock.wants]
    unlisted = [*(blob for blob in needed if not stock.holders[blob]), *(row.model for row in stock.lost)]
    searched = {blob: await transfer.find_holders(blob, sorted(present)) for blob in unlisted[:_SEARCHED_MAX]}
    ahead, waiting = _plan(stock, nodes, await transfer.find_links(), replicas.strategy, now)
    missing = {blob: nodes for blob, nodes in stock.holders.items() if nodes and away.issuperset(nodes)}
    over, spent = _find_ended(stock, {*nodes, *(record.id for record in await roster.all_nodes() if not record.gone)})
    retried = [row for row in stock.failed if row not in over]
    observations = [*absence.observe(missing, stock.lines, policy), *failed_copies.observe(retried)]
    stalled = {observation.name for observation in memory.stalled(observations, clock.tick())}
    due = failed_copies.find_due(retried, stalled)
    jobs = _copy_jobs(ahead, stock.holders, present) + _retry_jobs(due, stock.holders, present)
    async with store.read() as view:
        ids = [f"{line.variant}:{absence.CHAMPION_GATE}" for line in stock.lines]
        gates = await VERDICTS.get_many(view, ids)
    rows = [(line, gates.get(f"{line.variant}:{absence.CHAMPION_GATE}")) for line in stock.lines]
    changes = [change for line, gate in rows if (change := absence.champion_change(line, missing, gate, now))]
    events = [*(event for _, event in changes), *absence.returned(stock.lost, searched, stock.lines)]
    given_up = stalled.intersection(missing)
    if not (jobs or events or given_up or over or spent or stock.unsummed or waiting != stock.waiting):
        return
    async with store.begin() as tx:
        await roles.check("replicate", tx)
        await enqueue(tx, jobs, envelopes, now)
        await tx.append([envelopes.make(event, source="replicate") for event in events])
        for verdict, event in changes:
            await save_verdicts(tx, event.variant, [verdict])
        for blob in sorted(given_up):
            await ledger.forget(tx, blob, missing[blob])
        await failed_copies.delete_failures(tx, over, envelopes)
        await failed_copies.give_up(tx, spent, envelopes)
        await WAITING.put_at(tx, {"last": waiting})
        for node in stock.unsummed:
            await ledger.sum_up(tx, node)


def _plan(
    stock: _Stock, nodes: Mapping[str, PlanNode], links: Sequence[Link], strategy: str, now: float
) -> tuple[Plan, dict[str, tuple[int, str]]]:
    """The copies to ask for, and how many wait for which reason."""
    listed = [want for want in stock.wants if stock.holders[want.blob]]
    wants, held_back = shape(listed, strategy, stock.holders, nodes, now)
    barred = failed_copies.barred_targets(stock.failed)
    ahead = plan(wants, stock.holders, nodes, links, barred=barred)
    return ahead, summarize_waits([*ahead.waits, *held_back])


def _find_ended(stock: _Stock, members: Collection[str]) -> tuple[list[FailedCopy], list[FailedCopy]]:
    """Failed copies that nobody waits for any more, and those of which no try is left."""
    over = [
        row
        for row in stock.failed
        if row.target not in members or row.target in stock.holders[row.blob] or not stock.holders[row.blob]
    ]
    over += [row for row in failed_copies.find_excess(stock.failed) if row not in over]
    return over, [row for row in stock.failed if row not in over and failed_copies.is_spent(row) and not row.given_up]


def _source(blob: str, holders: _Holders, present: Collection[str]) -> str:
    return next((node for node in holders[blob] if node in present), "")


def _copy_jobs(ahead: Plan, holders: _Holders, present: Collection[str]) -> list[Sync]:
    """A job for each blob that *ahead* copies, in its order."""
    first = {transfer.blob: transfer for transfer in reversed(ahead.transfers)}
    order = dict.fromkeys(transfer.blob for transfer in ahead.transfers)
    return [
        Sync(
            variant=first[blob].variant,
            blob=blob,
            kind_of=first[blob].kind,
            source=_source(blob, holders, present),
            repair=True,
            priority=STAGE,
        )
        for blob in order
    ]


def _retry_jobs(due: Sequence[FailedCopy], holders: _Holders, present: Collection[str]) -> list[Sync]:
    """A job for each copy whose pause is over, to the node that did not get it."""
    return [
        Sync(
            variant=row.variant,
            blob=row.blob,
            kind_of=row.kind,
            source=_source(row.blob, holders, present),
            repair=True,
            priority=STAGE,
            target=row.target,
        )
        for row in due
    ]


_SECONDS = "replicas.every_seconds"
SPEC = Daemon(name="replicate", run=replicate, role="replicate", memory=StallDetector, every=_SECONDS, category="sync")
