"""Carry: what a node does itself for Sync and Distribute, and what it writes down when a worker is done."""

from collections.abc import Callable, Sequence

from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.events import data, model
from ringrift.jobs import Distribute, Job, Sync
from ringrift.kernel.errors import JobFailed, NodeAway, NoRoom, TransferError
from ringrift.kernel.settings import Replicas, WorkSettings
from ringrift.pipeline import lineage
from ringrift.sync import ledger
from ringrift.sync.plan import Place, targets
from ringrift.sync.transfer import Transfer
from ringrift.work.desk import Made
from ringrift.work.limits import PLAYS
from ringrift.work.translate import to_events
from ringrift.workload.api import JobResult


class Porter:
    """Moves files for one node."""

    def __init__(
        self, node: NodeRecord, transfer: Transfer, roster: Roster, replicas: Replicas, work: WorkSettings
    ) -> None:
        self._node, self._transfer, self._roster, self._replicas = node, transfer, roster, replicas
        self._work = work

    async def move(self, job: Job, moved: Callable[[], None]) -> Made:
        """Do a Sync or Distribute job; *moved* is called whenever bytes have moved.  Raises NoRoute."""
        match job:
            case Sync():
                return await self._sync(job, moved)
            case Distribute():
                return await self._distribute(job, moved)
        raise JobFailed(f"{job.kind()} is not a node's own job", retry=False)

    async def _sync(self, job: Sync, moved: Callable[[], None]) -> Made:
        present = await self._roster.present()
        first = [job.source] if job.source else []
        holders = await self._transfer.who_has(job.blob, [*first, *(node.id for node in present)])
        moved()
        places = [Place(node=node.id, durable=not node.ephemeral) for node in present]
        reached = list(holders)
        for node in targets(holders, places, self._node.id, self._replicas.copies_min):
            try:
                await self._transfer.copy(job.blob, node, moved, source=job.source)
            except (NodeAway, NoRoom):
                continue  # away, full or gone for good; replicate looks after copies from here on
            reached.append(node)
        if not reached:
            await self._transfer.copy(job.blob, self._node.id, moved, source=job.source)
            reached.append(self._node.id)
        _require_durable(job, reached, places, self._replicas.copies_min)
        said = data.Synced(
            variant=job.variant, blob=job.blob, kind=job.kind_of, nodes=tuple(sorted(reached)), games=job.played
        )
        return Made(events=(said,))

    async def _distribute(self, job: Distribute, moved: Callable[[], None]) -> Made:
        await self._transfer.fetch([job.model], moved)
        reached = []
        for node in await self._roster.present():
            if node.profile not in PLAYS:
                continue
            try:
                await self._transfer.copy(job.model, node.id, moved, source=self._node.id)
            except TransferError:
                continue  # a node that is gone; if it comes back, it fetches the model when it needs it
            reached.append(node.id)
        return Made(events=(model.Distributed(variant=job.variant, model=job.model, nodes=tuple(sorted(reached))),))

    def conclude(self, job: Job, result: JobResult) -> Made:
        """What is said, written down and linked when a worker ends *job* with *result*."""
        outputs = [output.blob for output in result.outputs]
        return Made(
            events=to_events(job, result, self._node.id, self._node.ephemeral),
            records=tuple(ledger.holding(blob, self._node.id) for blob in outputs),
            # A file of our own format is imported as it is: then it is its own model, and no parent of itself.
            links=tuple((blob, one) for blob in outputs for one in job.blobs if one not in (*result.refused, blob)),
            origins=lineage.origins(job, result, node=self._node.id, work=self._work, version=result.version),
        )


def _require_durable(job: Sync, reached: Sequence[str], places: Sequence[Place], copies_min: int) -> None:
    """A file that only machines hold which may vanish is not safe yet, if there is anywhere else to put it."""
    fleeting = {place.node for place in places if not place.durable}
    if len(reached) < copies_min and set(reached) <= fleeting < {place.node for place in places}:
        raise JobFailed(f"only ephemeral nodes hold {job.blob[:12]}: {', '.join(reached)}")
