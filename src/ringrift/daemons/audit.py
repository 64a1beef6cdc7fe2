"""Audits what must not get lost: every slot of self-play is accounted for, and no needed file has one copy for long."""

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.alerts import open_alerts
from ringrift.cluster.leadership import Roles
from ringrift.cluster.roster import Roster
from ringrift.events.alert import Cleared, Raised
from ringrift.kernel.clock import Clock
from ringrift.kernel.stall_detector import Observation, StallDetector
from ringrift.pipeline.singles import find_singles
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.work.game_ledger import find_imbalances

_UNACCOUNTED, _SINGLE = "games_unaccounted", "single_copies"
_SINGLE_SECONDS_MAX = 60.0  #: Within which a second durable copy follows where there is a node for it.


async def audit(
    *, store: Store, roster: Roster, roles: Roles, envelopes: EnvelopeFactory, clock: Clock, memory: StallDetector
) -> None:
    """Look once; an alert is raised when something is wrong and cleared when it is right again."""
    here = [node.id for node in await roster.present()]
    async with store.read() as view:
        problems = {(_UNACCOUNTED, variant): text for variant, text in (await find_imbalances(view)).items()}
        singles = [row for row in await find_singles(view, here) if row.can_be_copied]
        raised = {(alert.kind, alert.subject) for alert in await open_alerts(view)}
    late = memory.stalled([Observation(row.blob, 0, _SINGLE_SECONDS_MAX) for row in singles], clock.tick())
    names = {row.name for row in late}
    for variant in {row.variant for row in singles if row.blob in names}:
        blobs = [row.blob for row in singles if row.variant == variant and row.blob in names]
        text = f"{len(blobs)} files have had one durable copy for more than {_SINGLE_SECONDS_MAX:g} s: {blobs[0][:12]}"
        problems[_SINGLE, variant] = text + (", …" if len(blobs) > 1 else "")
    new = [
        Raised(kind=k, subject=s, level="severe", detail=text)
        for (k, s), text in problems.items()
        if (k, s) not in raised
    ]
    over = [Cleared(kind=k, subject=s) for k, s in raised if k in (_UNACCOUNTED, _SINGLE) and (k, s) not in problems]
    if new or over:
        async with store.begin() as tx:
            await roles.check("audit", tx)
            await tx.append([envelopes.make(event, source="audit") for event in (*new, *over)])


_SECONDS = "cluster.watch_seconds"
SPEC = Daemon(name="audit", run=audit, role="audit", memory=StallDetector, every=_SECONDS, category="health")
