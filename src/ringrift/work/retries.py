"""Retries that a person asks for: a job that was given up or cancelled is enqueued once more."""

from ringrift import jobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.kernel.errors import InputError
from ringrift.store.ports import LIVE_STATES, JobRow, Tx
from ringrift.work.desk import enqueue

_JOBS_MAX = 100_000


async def retry_job(tx: Tx, row: JobRow, envelopes: EnvelopeFactory, now: float) -> str:
    """Enqueue a job that was given up or cancelled once more, or end the pause of one that waits; its id.

    Raises InputError for a job that is running, waits its turn or is done, or if the same work is enqueued already.
    """
    if row.state == "ready" and row.pause:
        await tx.resume([row.id])
        return row.id
    if row.state not in ("dead", "cancelled"):
        reasons = {"ready": "it waits its turn", "claimed": "it is running; cancel it first"}
        raise InputError(f"job {row.id} cannot be tried again: {reasons.get(row.state, 'it is done')}")
    for live in await tx.jobs(LIVE_STATES, _JOBS_MAX, variant=row.variant):
        if live.key == row.key:
            raise InputError(f"job {row.id} cannot be tried again: job {live.id} does the same work already")
    return (await enqueue(tx, [jobs.decode(row.kind, row.body)], envelopes, now))[0]
