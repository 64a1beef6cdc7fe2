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
from ringrift.pipeline.copies import plan_nodes, want_of
from ringrift.pipeline.foreign_games import counted_rows
from ringrift.sync import ledger
from ringrift.sync.failed_copies import FailedCopy
from ringrift.sync.plan import plan
from ringrift.sync.strategies import shape
from ringrift.sync.transfer import Transfer
from ringrift.sync.wants import PlanNode, TransferClass
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
        if not holders:
            await self._transfer.copy(job.blob, self._node.id, moved, source=job.source)
            holders = [self._node.id]
        reached = await self._spread(job, holders, plan_nodes(present, hubs=await self._transfer.hubs.rooms()), moved)
        if job.target and job.target not in reached:
            return JobOutcome()  # it is tried again
        durable = {node.id: not node.ephemeral for node in present}
        if not job.target:
            _require_durable(job, reached, durable, self._replicas.copies_min)
        shared: dict[str, Any] = {"variant": job.variant, "blob": job.blob, "games": job.played, "repair": job.repair}
        return JobOutcome(events=(data.Synced(kind=job.kind_of, nodes=tuple(sorted(reached)), **shared),))

    async def _spread(
        self, job: Sync, holders: Sequence[str], nodes: Mapping[str, PlanNode], moved: Callable[[], None]
    ) -> list[str]:
        """Copy where the plan says; the nodes that have the file then.  Where one fails, the next best gets a copy."""
        links, size = await self._transfer.find_links(), await self._transfer.size_of(job.blob)
        want = want_of(job.variant, job.blob, job.kind_of, self._replicas, size=size)
        wants = [changed(want, target=job.target, copies=0)] if job.target else [want]
        # A holder that answers but is not present may be gone in a minute.
        strangers = {node: PlanNode(id=node, durable=False, room=0) for node in holders}
        reached, usable = list(holders), strangers | dict(nodes)
        while True:
            state = {job.blob: reached}
            shaped, _ = (wants, ()) if job.target else shape(wants, self._replicas.strategy, state, usable, 0.0)
            transfers = plan(shaped, state, usable, links, here=self._node.id).transfers
            for transfer in transfers:
                try:
                    await self._transfer.copy(
                        job.blob,
                        transfer.target,
                        moved,
                        job.source,
                        transfer_class=transfer.transfer_class,
                        routes=transfer.routes,
                    )
                except (NodeAway, NoRoom) as error:
                    usable[transfer.target] = changed(usable[transfer.target], reachable=False)
                    await self._note_failure(job, job.blob, job.kind_of, transfer.target, error)
                else:
                    reached.append(transfer.target)
            if not transfers or all(transfer.target in reached for transfer in transfers):
                return reached

    async def _note_failure(self, job: Job, blob: str, kind: str, target: str, error: TransferError) -> None:
        failure = FailedCopy(blob=blob, target=target, kind=kind, variant=job.variant, error=str(error))
        await self._transfer.record_failure(failure)

    async def _distribute(self, job: Distribute, moved: Callable[[], None]) -> JobOutcome:
        await self._transfer.fetch([job.model], moved, TransferClass.CHAMPION)
        reached, missed = [], []
        for node in await self._roster.present():
            if node.profile not in PLAYS or not node.has_files:
                continue  # a worker of another machine fetches the model when it plays
            try:
                await self._transfer.copy(
                    job.model, node.id, moved, source=self._node.id, transfer_class=TransferClass.CHAMPION
                )
            except TransferError as error:
                missed.append(node.id)
                await self._note_failure(job, job.model, "model", node.id, error)
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
    records = (*(ledger.holding(blob, holder) for blob in outputs), *counted_rows(job, result))
    # A file of our own format is imported as it is: then it is its own model, and no parent of itself.
    links = tuple((b, parent) for b in outputs for parent in job.blobs if parent not in (*result.refused, b))
    return JobOutcome(events=events, records=records, links=links, origins=origins)


def _require_durable(job: Sync, reached: Sequence[str], durable: Mapping[str, bool], copies_min: int) -> None:
    """Raise JobFailed if only nodes that may vanish hold the file although there is anywhere else to put it."""
    fleeting = {node for node, is_durable in durable.items() if not is_durable}
    if len(reached) < copies_min and set(reached) <= fleeting < durable.keys():
        raise JobFailed(f"only ephemeral nodes hold {job.blob[:12]}: {', '.join(reached)}")
