"""File jobs: a node does Sync and Distribute itself, and records the files that its workers make."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.events import data, model
from ringrift.jobs import Distribute, Job, Sync
from ringrift.kernel.errors import JobFailed, NodeAway, NoRoom, TransferError
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import changed
from ringrift.pipeline import lineage
from ringrift.sync import ledger
from ringrift.sync.plan import targets
from ringrift.sync.transfer import Transfer
from ringrift.work.desk import JobOutcome
from ringrift.work.limits import PLAYS, LineWork
from ringrift.workload.api import JobResult


class FileJobs:
    """Moves and records files for one node."""

    def __init__(self, node: NodeRecord, transfer: Transfer, roster: Roster, settings: Settings) -> None:
        self._node, self._transfer, self._roster = node, transfer, roster
        self._replicas = settings.replicas

    async def move(self, job: Job, moved: Callable[[], None]) -> JobOutcome:
        """Do a Sync or Distribute job; *moved* is called whenever bytes have moved.  Raises NoRoute."""
        match job:
            case Sync():
                return await self._sync(job, moved)
            case Distribute():
                return await self._distribute(job, moved)
        raise JobFailed(f"{job.kind()} is not a node's own job", retry=False)

    async def _sync(self, job: Sync, moved: Callable[[], None]) -> JobOutcome:
        present = [node for node in await self._roster.present() if node.has_files]
        first = [job.source] if job.source else []
        holders = await self._transfer.find_holders(job.blob, [*first, *(node.id for node in present)])
        moved()
        durable, reached = {node.id: not node.ephemeral for node in present}, list(holders)
        for node in targets(holders, durable, self._node.id, self._replicas.copies_min):
            try:
                await self._transfer.copy(job.blob, node, moved, source=job.source)
            except (NodeAway, NoRoom):
                continue  # away, full or gone for good; replicate looks after copies from here on
            reached.append(node)
        if not reached:
            await self._transfer.copy(job.blob, self._node.id, moved, source=job.source)
            reached.append(self._node.id)
        _require_durable(job, reached, durable, self._replicas.copies_min)
        nodes = tuple(sorted(reached))
        shared: dict[str, Any] = {"variant": job.variant, "blob": job.blob, "games": job.played, "repair": job.repair}
        return JobOutcome(events=(data.Synced(kind=job.kind_of, nodes=nodes, **shared),))

    async def _distribute(self, job: Distribute, moved: Callable[[], None]) -> JobOutcome:
        await self._transfer.fetch([job.model], moved)
        reached, missed = [], []
        for node in await self._roster.present():
            if node.profile not in PLAYS or not node.has_files:
                continue  # a worker of another machine fetches the model when it plays
            try:
                await self._transfer.copy(job.model, node.id, moved, source=self._node.id)
            except TransferError:
                missed.append(node.id)  # a node that is gone; if it comes back, it fetches the model when it needs it
            else:
                reached.append(node.id)
        event = model.Distributed(variant=job.variant, model=job.model, nodes=tuple(sorted(reached)))
        return JobOutcome(events=(changed(event, missed=tuple(sorted(missed))),))

    def conclude(self, job: Job, result: JobResult, line: LineWork) -> JobOutcome:
        """The outcome of *job*, which a worker of this node ended with *result* under the settings of *line*."""
        return conclude(job, result, line, node=self._node.id, holder=self._node.id, ephemeral=self._node.ephemeral)


def conclude(job: Job, result: JobResult, line: LineWork, *, node: str, holder: str, ephemeral: bool) -> JobOutcome:
    """The events, records and links of *job*, done on *node* with *result*; *holder* has its files.

    Raises JobFailed unless *result* is what the job asks for.
    """
    outputs = [output.blob for output in result.outputs]
    events, origins = job.to_events(result, node, ephemeral), lineage.origins(job, result, node, line)
    records = tuple(ledger.holding(blob, holder) for blob in outputs)
    # A file of our own format is imported as it is: then it is its own model, and no parent of itself.
    links = tuple((b, parent) for b in outputs for parent in job.blobs if parent not in (*result.refused, b))
    return JobOutcome(events=events, records=records, links=links, origins=origins)


def _require_durable(job: Sync, reached: Sequence[str], durable: Mapping[str, bool], copies_min: int) -> None:
    """Raise JobFailed if only nodes that may vanish hold the file although there is anywhere else to put it."""
    fleeting = {node for node, is_durable in durable.items() if not is_durable}
    if len(reached) < copies_min and set(reached) <= fleeting < durable.keys():
        raise JobFailed(f"only ephemeral nodes hold {job.blob[:12]}: {', '.join(reached)}")
