"""What counts once: a batch that was played without a lease, by its key, and games that came in before, by their file.

A worker that loses its lease offers what it played as an island batch, and another one does its job again, perhaps with
the very same games.  Whichever comes first counts.
"""

from collections.abc import Iterable

from ringrift import jobs
from ringrift.events.base import Event
from ringrift.events.selfplay import BatchFinished
from ringrift.events.work import Cancelled
from ringrift.jobs import Job, Play
from ringrift.store.ports import ClaimTerms, JobRequest, Origin, Reads, Renewal, Tx
from ringrift.store.records import Records

INGESTED = Records("ingested", str)  # by the key of a batch that was played without a lease: the job it was counted as


async def was_counted(view: Reads, key: str, origins: Iterable[Origin]) -> bool:
    """Whether the batch of this *key*, or a file of *origins*, came in before."""
    return bool(await INGESTED.get(view, key) or await view.origins([origin.blob for origin in origins]))


async def lease_ingested(tx: Tx, id: str, key: str, job: Job, node: str, now: float) -> Renewal:
    """The lease of *job*, enqueued as *id* only to be finished at once by *node*, which has done it already."""
    kind, body = job.kind(), jobs.encode(job)
    await tx.enqueue([JobRequest(id=id, kind=kind, variant=job.variant, key=key, body=body, time=now)])
    [lease] = await tx.claim([kind], node, 1.0, 1, ClaimTerms(only_jobs=[id]))
    await INGESTED.put_at(tx, {key: id})
    return Renewal(job=id, fence=lease.fence)


async def find_counted(view: Reads, events: Iterable[Event]) -> set[str]:
    """The batches of games in *events* that came in before, as the result of another job or without a lease."""
    batches = [event.batch for event in events if isinstance(event, BatchFinished)]
    return {origin.blob for origin in await view.origins(batches)} if batches else set()


def count_once(event: Event, job: str, counted: set[str]) -> Event:
    """*event*, the outcome of *job*; if its games are *counted*, that nothing needs the job any more."""
    if not isinstance(event, BatchFinished):
        return event
    if event.batch in counted:
        return Cancelled(variant=event.variant, kind=Play.kind(), jobs=(job,))
    counted.add(event.batch)
    return event
