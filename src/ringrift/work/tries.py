"""Tries: how often each node has failed a job, and when that is enough to give the job up.

Every node has the same number of tries at a job, and one that has used them up leaves it to the others.  The job is
given up after the tries of two nodes, or when no other node is left that can try it: one bad node never decides alone.
Others have the time of the longest job to claim it; then it is given to the first node once more, for the last time.
"""

from collections.abc import Collection, Mapping

from ringrift.jobs import GAME_KINDS, NODE_KINDS
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.stall_detector import Observation
from ringrift.kernel.value import Value
from ringrift.store.ports import Lease, Reads, Tx
from ringrift.store.records import Records
from ringrift.work.breakers import BREAKERS, NODE, NODES
from ringrift.work.claims import unfit_nodes
from ringrift.work.limits import QUARANTINES

_NODES_PER_JOB = 2  # whose tries a job may use up
_SPENT_MAX = 1000  # jobs that one node is refused at once; further ones it may try again
_SPENT = "spent"  # the index by which the jobs are found that a node gets no more


class JobTries(Value):
    """A job that has failed: what it is, and how often by node.  Only one node can have used up its tries."""

    kind: str
    failures: dict[str, int]
    variant: str = ""


TRIES = Records("job_tries", JobTries, limit=_SPENT_MAX)  # by job, until it ends
_LOST_NODES = Records("lost_node", int)  # as :mod:`ringrift.cluster.liveness` writes them


def retry_pause(failures: Mapping[str, int], node: str, others: Collection[str], retry: Backoff) -> float | None:
    """Seconds until a job that *node* failed may be tried again, by it or by *others* that can; None: it is over."""
    own = failures[node]
    if own > retry.tries or sum(failures.values()) >= _NODES_PER_JOB * retry.tries:
        return None
    if own < retry.tries:
        return retry.delay(own)
    return 0.0 if any(failures.get(other, 0) < retry.tries for other in others) else None


async def able_nodes(view: Reads, kind: str, variant: str) -> set[str]:
    """The nodes that can take jobs of *kind* and *variant*: present, with profile and workload for it, not refused."""
    nodes = {peer.id for peer in await NODES.all(view) if peer.does(kind)} - set(await _LOST_NODES.scan(view))
    if kind in GAME_KINDS:
        nodes -= set(await QUARANTINES.get_many(view, sorted(nodes)))
    if kind not in NODE_KINDS:
        breakers = await BREAKERS.get_many(view, [f"{NODE}:{node}" for node in sorted(nodes)])
        nodes -= {name.partition(":")[2] for name, row in breakers.items() if row.is_open()}
    return nodes - await unfit_nodes(view, kind, variant, nodes)


async def can_refuse(view: Reads, lease: Lease, node: str) -> bool:
    """Whether *node* may refuse a job for good: another one has failed it too, or none is left that can try it."""
    row = await TRIES.get(view, lease.job)
    if row is not None and row.failures.keys() - {node}:
        return True
    return not await able_nodes(view, lease.kind, lease.variant) - {node}


async def save_tries(tx: Tx, tries: Mapping[str, JobTries], retry: Backoff) -> None:
    """Store the failures of jobs that live on."""
    for job, row in tries.items():
        spent = next((node for node, count in row.failures.items() if count >= retry.tries), None)
        await TRIES.put_at(tx, {job: row}, {_SPENT: spent} if spent else {})


async def spent_jobs(view: Reads, node: str, seconds: float) -> list[Observation]:
    """The jobs at which *node* has used up its tries while others can try them, for which they have *seconds*."""
    rows = await TRIES.find(view, _SPENT, node)
    pairs = {(row.kind, row.variant) for row in rows.values()}
    waiting = {pair for pair in pairs if await able_nodes(view, *pair) - {node}}
    jobs = [(job, row) for job, row in rows.items() if (row.kind, row.variant) in waiting]
    return [Observation(job, sum(row.failures.values()), seconds) for job, row in jobs]
