"""Reads everything that the one health of the system is judged from, at one moment of the store."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from ringrift.cluster import health as node_health
from ringrift.cluster.activity import Activity
from ringrift.cluster.alerts import open_alerts
from ringrift.cluster.health import ClusterHealth, SurveyedNodes
from ringrift.cluster.liveness import stored_states
from ringrift.cluster.recovery import RECOVERIES, recent_errors
from ringrift.cluster.roster import NodeRecord, NodeState, Roster
from ringrift.kernel.clock import Clock
from ringrift.kernel.settings import Settings
from ringrift.kernel.stall_detector import Observation, StallDetector
from ringrift.kernel.transfer_settings import Replicas
from ringrift.kernel.value import changed
from ringrift.pipeline.line import LINES, needed_blobs
from ringrift.pipeline.queues import measure_pressures
from ringrift.pipeline.system_health import HealthFacts
from ringrift.store.ports import Reads, Store
from ringrift.sync.ledger import holders
from ringrift.work.breakers import BREAKERS
from ringrift.work.limits import QUARANTINES
from ringrift.work.processes import this_host
from ringrift.work.run_states import load_run_states
from ringrift.work.tasks import HostTick, find_orphans, load_limits, observe, running_tasks

_DELIVERIES_MAX, _SLOTS_MAX = 1000, 10_000
_STUCK_LEASES = 2.0  # lease times after which a slot without a sign of life is stuck: one is for the rescue
_THIN_ROUNDS = 10  # rounds of replication in which a file may have too few copies
_NODE_ALERTS = ("node_lost", "quarantine", "data_corrupted")  # daemons are a part of their own


class HealthSurvey:
    """Looks at the whole system for one process, and remembers what has moved since it looked last."""

    def __init__(self, store: Store, roster: Roster, clock: Clock, settings: Settings) -> None:
        self._store, self._clock, self._settings = store, clock, settings
        self.nodes, self._detector = ClusterHealth(roster), StallDetector()

    async def look(self, own: Mapping[str, Activity] | None = None) -> HealthFacts:
        """Look once; *own* are the nodes of this process, with what they do now."""
        survey = await self.nodes.survey(own)
        async with self._store.read() as view:
            return await read_facts(view, survey, self._settings, self._clock, self._detector)


async def read_facts(
    view: Reads, survey: SurveyedNodes, settings: Settings, clock: Clock, detector: StallDetector
) -> HealthFacts:
    """What the store says, and the nodes of *survey*; *detector* knows which slots and files stay as they are."""
    now, states, alerts = clock.now(), await stored_states(view, survey.nodes), await open_alerts(view)
    starting = [node for node in survey.nodes if states[node.id] is NodeState.STARTING and node.id not in survey.moved]
    silent = survey.silent.difference(node.id for node in starting)
    # A rented machine that vanishes has left: it is not expected back.
    nodes = [node for node in survey.nodes if not node.gone and not (node.ephemeral and node.id in silent)]
    nodes = [node for node in nodes if node not in starting]
    here = [node for node in nodes if node.id not in silent]
    thin = await _thin_blobs(view, [*here, *starting], settings.replicas)
    rounds = _THIN_ROUNDS * settings.replicas.every_seconds
    files = [Observation(blob, copies, rounds) for blob, _, copies in thin]
    late, stuck = await _stuck_slots(view, silent, files, clock.tick(), detector)
    deliveries = await view.deliveries(("dead", "parked"), _DELIVERIES_MAX)
    return HealthFacts(
        nodes=tuple(node_health.judge(changed(survey, nodes=tuple(nodes)), alerts, _NODE_ALERTS)),
        starting=tuple(node.id for node in starting),
        daemons={node.id: node.activity.daemons.statuses for node in here},
        run_states=tuple((await load_run_states(view)).in_force(now)),
        pressures=tuple((await measure_pressures(view, settings.work.drain_patience, now)).values()),
        breakers=tuple(row for row in await BREAKERS.all(view) if row.is_open()),
        lapsed=tuple(row.reader for row in await view.readers() if row.lapsed),
        deliveries=Counter((row.reader, row.state) for row in deliveries),
        stuck=stuck,
        alerts=tuple(alerts),
        thin=Counter(variant for blob, variant, copies in thin if not copies or blob in late),
        errors=tuple(await recent_errors(view, clock.tick())),
        quarantined=frozenset(await QUARANTINES.scan(view)),
        recoveries=tuple(await RECOVERIES.all(view)),
    )


async def _thin_blobs(view: Reads, here: Sequence[NodeRecord], replicas: Replicas) -> list[tuple[str, str, int]]:
    """The files that a line needs and that have too few copies on the nodes *here*: blob, variant, copies."""
    ids = {node.id for node in here if node.has_files}
    blobs = [
        (blob, line.variant, len(ids.intersection(await holders(view, blob))))
        for line in await LINES.all(view)
        for blob in needed_blobs(line)
    ]
    return [row for row in blobs if row[-1] < min(replicas.copies_min, len(ids))]


async def _stuck_slots(
    view: Reads, silent: Collection[str], files: Sequence[Observation], tick: float, detector: StallDetector
) -> tuple[frozenset[str], dict[str, str]]:
    """The names of what has not changed for its time, *files* included, and the slots without a sign of life."""
    claimed, tasks = await view.jobs(("claimed",), _SLOTS_MAX), await running_tasks(view)
    here = HostTick(host=this_host() if tasks else "", tick=tick)
    seconds = (await load_limits(view)).beat_seconds_max
    slots = [Observation(row.id, (row.fence << 32) + row.renewals, _STUCK_LEASES * row.seconds) for row in claimed]
    stalled = detector.stalled([*files, *slots, *observe(tasks, here.host, seconds)], tick)
    late = frozenset(row.name for row in stalled)
    stuck = {row.key: f"{row.kind} on {row.holder}" for row in claimed if row.holder in silent or row.id in late}
    orphans = find_orphans(tasks, here, seconds, stalled)
    return late, stuck | {task.id: f"{task.type} on {task.node}" for task in orphans}
