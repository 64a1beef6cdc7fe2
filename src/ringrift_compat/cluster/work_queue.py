"""The documented work queue: the jobs of the desk, claimed under leases that expire, and results that count once."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from ringrift import jobs
from ringrift.cluster.roster import NODES
from ringrift.jobs import JOBS, NODE_KINDS, Job, JobQuery, Play
from ringrift.kernel import variant as variants
from ringrift.kernel.errors import InputError, InvalidPayload, LeaseLost, UnknownName, require_name
from ringrift.kernel.ids import check_name, seed_of
from ringrift.node import Node
from ringrift.pipeline.file_jobs import conclude
from ringrift.pipeline.line import require_line
from ringrift.pipeline.line_settings import policy_of
from ringrift.store.ports import LIVE_STATES, JobRow, Lease, Renewal
from ringrift.threads import to_its_end
from ringrift.work import desk
from ringrift.work.desk import Done, Fault, StoreDesk
from ringrift.work.limits import LINE_WORK, LineWork
from ringrift.workload.api import Artifact, JobResult
from ringrift_compat.embedded_host import open_host
from ringrift_compat.embedded_node import EmbeddedNode, embedded

_KINDS = {job.kind(): job for job in JOBS}
_OLD_WORDS = {"selfplay": "play", "training": "train", "evaluation": "match", "validation": "verify"}
_CLAIMED_MAX = 10_000
_STATES = {"ready": "pending", "claimed": "running", "done": "completed", "dead": "failed", "cancelled": "cancelled"}


@dataclass(frozen=True)
class WorkItem:
    """One job."""

    work_id: str
    work_type: str
    config_key: str
    status: str
    """``pending``, ``running``, ``completed``, ``failed`` or ``cancelled``."""
    priority: int = 0
    node_id: str = ""
    """The node that does it, or is the only one that may."""
    attempts: int = 0
    progress: float = 0.0
    error: str = ""
    lease_seconds: float = 0.0
    """How long a claim lasts without a renewal."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The fields of the job."""


class WorkQueue:
    """The queue of this home, in its SQLite store: the same jobs that nodes claim.

    Work that this program claims is its own until the lease is over: renew it in time.
    """

    def add_work(self, work_type: str, config_key: str, priority: int | None = None, **fields: Any) -> str:
        """Add work of a kind (``selfplay`` and so on, or ours) with the *fields* of its job; its id.

        Self-play needs none: it is a batch of the champion.  The same work that waits or runs is not added twice.
        Raises UnknownName, InvalidPayload, InvalidWork.
        """
        values = fields if priority is None else {**fields, "priority": priority}
        return embedded.call(_add(embedded.node(), _kind(work_type), str(variants.parse(config_key)), values))

    def claim_work(self, node_id: str = "", work_types: Collection[str] = (), limit: int = 1) -> list[WorkItem]:
        """Claim up to *limit* jobs of these types, or of all that a program can do, as *node_id* (this program).

        Raises InputError for the name of a running node.
        """
        kinds = {_kind(type) for type in work_types} or set(_KINDS)
        return embedded.call(_claim(embedded.node(), node_id, kinds - NODE_KINDS, limit))

    def renew_work(self, work_id: str, progress: float = 0.0) -> bool:
        """Keep a claim of this program; False if it was lost, and then its result would be refused."""
        return embedded.call(_renew(embedded.node(), work_id, progress))

    def complete_work(self, work_id: str, result: Mapping[str, Any] | None = None) -> bool:
        """End a claim of this program with its *result*: ``outputs``, ``metrics``, ``blocks`` of a ``JobResult``.

        An output names its ``kind``, its file (``path``) and ``meta``; the file is copied.  False if the claim was
        lost.  Raises JobFailed for a result that is not what the job asks for.
        """
        return embedded.call(_complete(embedded.node(), work_id, result or {}))

    def fail_work(self, work_id: str, error: str, retry: bool = True) -> bool:
        """End a claim of this program without a result; False if it was lost."""
        return embedded.call(_fail(embedded.node(), work_id, error, retry))

    def cancel_work(self, work_id: str, reason: str = "cancelled by a program") -> bool:
        """Cancel work that waits or runs; False if it has ended.  Raises UnknownName."""
        return embedded.call(_cancel(embedded.node(), work_id, reason))

    def get_work(self, work_id: str) -> WorkItem | None:
        """The work with this id, if there is any."""
        rows = embedded.query(lambda view: view.list_jobs(JobQuery(begins=work_id), 1)) if work_id else ()
        return next((_item(row) for row in rows if row.id == work_id), None)

    def get_stats(self) -> dict[str, int]:
        """How much work there is in each status."""
        stats = dict.fromkeys(_STATES.values(), 0)
        for (_, state), count in embedded.query(lambda view: view.count_jobs()).items():
            stats[_STATES[state]] += count
        return stats


def _kind(work_type: str) -> str:
    word = str(getattr(work_type, "value", work_type)).lower()
    kind = _OLD_WORDS.get(word, word)
    require_name("work type", kind, [*_KINDS, *_OLD_WORDS])
    return kind


def _item(row: JobRow) -> WorkItem:
    job = jobs.decode_if_known(row.kind, row.body)
    node, data = row.holder or row.node or "", msgspec.to_builtins(job) if job else {}
    return WorkItem(
        row.id,
        row.kind,
        row.variant,
        _STATES[row.state],
        row.priority,
        node,
        row.attempts,
        row.progress,
        row.error or "",
        row.seconds,
        data,
    )


class _Claims:
    """The desks of one program by the names that it claims under, and the leases that it holds by job."""

    def __init__(self, node: EmbeddedNode) -> None:
        self._node = node
        self._desks: dict[str, StoreDesk] = {}
        self.leases: dict[str, Lease] = {}

    def desk(self, holder: str) -> StoreDesk:
        """The desk under whose name *holder* claims."""
        node = self._node
        if holder not in self._desks:
            envelopes = node.envelopes.for_node(holder)
            self._desks[holder] = StoreDesk(node.store, node.clock, envelopes, node.settings.work)
        return self._desks[holder]

    def require(self, work_id: str) -> Lease:
        """The lease of *work_id*.  Raises UnknownName if this program has not claimed it."""
        require_name("claim of this program", work_id, self.leases)
        return self.leases[work_id]


async def _add(node: EmbeddedNode, kind: str, variant: str, fields: dict[str, Any]) -> str:
    async with node.store.begin() as tx:
        if kind == Play.kind():
            line, policy = await require_line(tx, variant), await policy_of(tx, variant, node.settings.policy)
            seed = seed_of(policy.seed, variant, "program", node.ids.next())
            fields = {"model": line.champion, "games": policy.games_per_batch, "seed": seed, **fields}
        try:
            job: Job = msgspec.convert({"type": kind, "variant": variant, **fields}, _KINDS[kind])
        except msgspec.ValidationError as bad:
            raise InvalidPayload("$", str(bad)) from bad
        [id] = await desk.enqueue(tx, [job], node.envelopes, node.clock.now())
    return id


async def _claim(node: EmbeddedNode, name: str, kinds: Collection[str], limit: int) -> list[WorkItem]:
    holder, claims = check_name("node", name or f"{node.settings.node.id}-{node.program}"), node.extension(_Claims)
    async with node.store.read() as view:
        record = await NODES.get(view, holder)
    if record is not None and not record.gone:
        raise InputError(f"node {holder} claims work itself: take a name of your own")
    leases = {lease.job: lease for lease in await claims.desk(holder).claim(kinds, limit)}
    claims.leases |= leases
    async with node.store.read() as view:
        rows = await view.jobs(("claimed",), _CLAIMED_MAX, holder=holder)
    return [_item(row) for row in rows if row.id in leases]


async def _renew(node: EmbeddedNode, work_id: str, progress: float) -> bool:
    claims = node.extension(_Claims)
    lease = claims.require(work_id)
    try:
        await claims.desk(lease.holder).renew([Renewal(job=lease.job, fence=lease.fence, progress=progress)])
    except LeaseLost:
        return False
    return True


async def _complete(node: EmbeddedNode, work_id: str, result: Mapping[str, Any]) -> bool:
    claims = node.extension(_Claims)
    lease = claims.require(work_id)
    async with node.store.read() as view:
        line = await LINE_WORK.get(view, lease.variant)
    host, job = await open_host(node), jobs.decode(lease.kind, lease.body)
    outputs = [await _store(host, output) for output in result.get("outputs", ())]
    try:
        made = msgspec.convert({**result, "outputs": ()}, JobResult)
    except msgspec.ValidationError as bad:
        raise InvalidPayload("$", str(bad)) from bad
    settings = node.settings.work
    outcome = conclude(
        job,
        replace(made, outputs=outputs),
        line or LineWork(workload=settings.workload, params=dict(settings.params)),
        node=lease.holder,
        holder=host.node_id,
        ephemeral=host.record.ephemeral,
    )
    try:
        await claims.desk(lease.holder).finish(
            [Done(lease=Renewal(job=lease.job, fence=lease.fence), outcome=outcome, context=lease.context)]
        )
    except LeaseLost:
        return False
    finally:
        claims.leases.pop(work_id, None)
    return True


async def _store(host: Node, output: Mapping[str, Any]) -> Artifact:
    """The artifact of a file, which is copied to the files of the program's node."""
    data = await to_its_end(None, Path(output["path"]).read_bytes)
    [blob] = await host.blobs.put([data])
    return Artifact(output["kind"], blob, len(data), dict(output.get("meta", {})))


async def _fail(node: EmbeddedNode, work_id: str, error: str, retry: bool) -> bool:
    claims = node.extension(_Claims)
    lease = claims.require(work_id)
    del claims.leases[work_id]
    return lease.job in await claims.desk(lease.holder).fail([Fault(lease=lease, error=error, retry=retry)])


async def _cancel(node: EmbeddedNode, work_id: str, reason: str) -> bool:
    async with node.store.begin() as tx:
        rows = await tx.list_jobs(JobQuery(begins=work_id), 1)
        if not rows or rows[0].id != work_id:
            raise UnknownName("work", work_id)
        if rows[0].state in LIVE_STATES:
            await desk.cancel_job(tx, rows[0], node.envelopes, reason)
        return rows[0].state in LIVE_STATES
