"""Why a node does no jobs: the first reason that holds, from what is stored about it."""

from ringrift.cli.brakes import brake_reason
from ringrift.cluster.liveness import stored_states
from ringrift.cluster.roster import NodeRecord, NodeState
from ringrift.store.ports import Reads
from ringrift.work.breakers import BREAKERS, NODE
from ringrift.work.claims import find_refusals
from ringrift.work.limits import KINDS, QUARANTINES, VERDICTS
from ringrift.work.run_states import load_run_states

_STATES = {
    NodeState.LEFT: 'it has left; "ringrift join" on its machine brings it back',
    NodeState.LOST: "it sends no heartbeats: check that its machine runs and reaches the coordinator",
    NodeState.STARTING: "it has not reported since it or the coordinator was started",
    NodeState.SUSPECT: "its last heartbeats are missing",
}


async def idle_reasons(view: Reads, record: NodeRecord, now: float) -> list[str]:
    """Why the node of *record* does nothing, or nothing more, the widest reason first; none if nothing keeps it."""
    states, quarantine = await stored_states(view, [record]), await QUARANTINES.get(view, record.id)
    brake = (await load_run_states(view)).find(node=record.id, now=now)
    breaker = await BREAKERS.get(view, f"{NODE}:{record.id}")
    refusals = await VERDICTS.get_many(view, await find_refusals(view, [record.id]))
    reasons = [_STATES[state]] if (state := states[record.id]) in _STATES else []
    if brake is not None:
        reasons.append(brake_reason(brake))
    if not KINDS.get(record.profile):
        reasons.append(f"its profile {record.profile} takes no jobs")
    if quarantine is not None:
        reasons.append(f"it is in quarantine: {quarantine.rule}")
    if breaker is not None and breaker.is_open():
        reasons.append(breaker.verdict("claim").rule)
    rows = [(id.partition(":")[0], row) for id, row in sorted(refusals.items())]
    return reasons + [f"{variant} {row.gate.removeprefix('claim.')} jobs wait: {row.rule}" for variant, row in rows]


async def describe_idleness(view: Reads, record: NodeRecord, now: float) -> str:
    """What the node of *record* does, or why it does nothing, in one line and those behind it."""
    reasons, jobs = await idle_reasons(view, record, now), record.activity.jobs
    if jobs and not record.gone:
        listed = ", ".join(f"{job.kind} {job.variant} {100 * job.done:.0f} %" for job in jobs)
        return "\n  ".join([f"node {record.id} works: {listed}", *reasons])
    if not reasons:
        return f"node {record.id} idles: no job that it can do is ready"
    return "\n  ".join([f"node {record.id} idles: {reasons[0]}", *reasons[1:]])
