"""What counts once: games, by their file, whichever way they come in and however often.

A worker that loses its lease offers what it played as an island batch, and another one does its job again, perhaps with
the very same games.  Whichever comes first counts.  How a file was made stays recorded for good.
"""

from collections.abc import Iterable

from ringrift import jobs
from ringrift.events.base import Event
from ringrift.events.selfplay import BatchFinished
from ringrift.events.work import Cancelled
from ringrift.jobs import Job, Play
from ringrift.store.ports import ClaimTerms, JobRequest, Reads, Renewal, Tx


async def lease_ingested(tx: Tx, id: str, key: str, job: Job, node: str, now: float) -> Renewal:
    """The lease of *job*, enqueued as *id* only to be finished at once by *node*, which has done it already."""
    kind, body = job.kind(), jobs.encode(job)
    await tx.enqueue([JobRequest(id=id, kind=kind, variant=job.variant, key=key, body=body, time=now)])
    [lease] = await tx.claim([kind], node, 1.0, 1, ClaimTerms(only_jobs=[id]))
    return Renewal(job=id, fence=lease.fence)


async def find_counted(view: Reads, events: Iterable[Event]) -> set[str]:
    """The batches of games in *events* that came in before, as the result of another job or without a lease."""
    batches = [event.batch for event in events if isinstance(event, BatchFinished)]
    return {origin.blob for origin in await view.origins(batches)} if batches else set()


def count_once(event: Event, job: str, counted: set[str]) -> Event | None:
    """*event*, the outcome of *job*; if its games are *counted*, that nothing needs the job any more.

    Games from elsewhere were nobody's job to play: if they are counted, there is nothing to publish.
    """
    if not isinstance(event, BatchFinished):
        return event
    if event.batch in counted:
        return None if event.source else Cancelled(variant=event.variant, kind=Play.kind(), jobs=(job,))
    counted.add(event.batch)
    return event
