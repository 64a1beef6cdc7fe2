"""Asks for a copy of every blob that a line needs and that has too few, and watches those whose holders are away."""

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.leadership import Roles
from ringrift.cluster.roster import Roster
from ringrift.jobs import STAGE, Sync
from ringrift.kernel.clock import Clock
from ringrift.kernel.settings import Policy, Replicas
from ringrift.kernel.stall_detector import StallDetector
from ringrift.pipeline import absence
from ringrift.pipeline.line import needed_blobs
from ringrift.pipeline.line_settings import lines_in_force
from ringrift.pipeline.models import MODELS, State
from ringrift.pipeline.records import save_verdicts
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.sync import ledger
from ringrift.sync.transfer import Transfer
from ringrift.work.desk import enqueue
from ringrift.work.limits import VERDICTS

_SEARCHED_MAX = 64  #: Files without a known holder that one look searches for on every node.


async def replicate(
    *, store: Store, roster: Roster, roles: Roles, transfer: Transfer, replicas: Replicas, policy: Policy,
    envelopes: EnvelopeFactory, clock: Clock, memory: StallDetector,
) -> None:  # fmt: skip
    """Look once.  A blob that no node has any more is left out: the job that needs it will fail and name it."""
    async with store.read() as view:
        lines, lost = await lines_in_force(view, clock.now()), await MODELS.all(view, "state", State.LOST)
        needed = {blob: (line.variant, kind) for line in lines for blob, kind in needed_blobs(line).items()}
        pending = [batch.blob for line in lines for batch in line.pending]
        holders = {blob: await ledger.holders(view, blob) for blob in dict.fromkeys([*needed, *pending])}
        gates = await VERDICTS.get_many(view, [f"{line.variant}:{absence.CHAMPION_GATE}" for line in lines])
    present = {node.id for node in await roster.present() if node.has_files}
    away = await transfer.find_away(present.union(*holders.values()))
    present -= away
    # A disk that was given up may be back.
    unlisted = [*(blob for blob in needed if not holders[blob]), *(row.model for row in lost)]
    searched = {blob: await transfer.find_holders(blob, sorted(present)) for blob in unlisted[:_SEARCHED_MAX]}
    copies = min(replicas.copies_min, len(present))
    now = clock.now()
    answering = {blob: [node for node in holders[blob] if node in present] for blob in needed}
    thin = [
        Sync(variant=variant, blob=blob, kind_of=kind, source=answering[blob][0], repair=True, priority=STAGE)
        for blob, (variant, kind) in needed.items()
        if 0 < len(answering[blob]) < copies
    ]
    missing = {blob: nodes for blob, nodes in holders.items() if nodes and away.issuperset(nodes)}
    given_up = memory.stalled(absence.observe(missing, lines, policy), clock.tick())
    rows = [(line, gates.get(f"{line.variant}:{absence.CHAMPION_GATE}")) for line in lines]
    changes = [change for line, gate in rows if (change := absence.champion_change(line, missing, gate, now))]
    events = [*(event for _, event in changes), *absence.returned(lost, searched, lines)]
    if not (thin or events or given_up):
        return
    async with store.begin() as tx:
        await roles.check("replicate", tx)
        await enqueue(tx, thin, envelopes, now)
        await tx.append([envelopes.make(event, source="replicate") for event in events])
        for verdict, event in changes:
            await save_verdicts(tx, event.variant, [verdict])
        for blob in given_up:
            await ledger.forget(tx, blob.name, missing[blob.name])


_SECONDS = "replicas.every_seconds"
SPEC = Daemon(name="replicate", run=replicate, role="replicate", memory=StallDetector, every=_SECONDS, category="sync")
