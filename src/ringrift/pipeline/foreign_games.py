"""Foreign games: a file of games from elsewhere, from the request to the batches of a line.

A line reads one file at a time, because each job begins with the list of games that the one before has counted.  The
list is a blob; the record of the line names it, and it is written in the transaction in which the games count.
"""

from ringrift.jobs import Ingest, Job
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import WorkError
from ringrift.pipeline.line import require_line
from ringrift.store.follow import wait_for
from ringrift.store.ports import LIVE_STATES, Put, Reads, Store
from ringrift.store.records import Records
from ringrift.sync import ledger
from ringrift.workload.api import JobResult
from ringrift.workload.results import only_artifact

_LIVE_MAX = 100_000
_TURN_SECONDS_MAX = 900.0  # for the file before, of the same line
COUNTED_GAMES = Records("counted_games", str)  # by variant: the blob with the list of imported games that count


async def _make_job(view: Reads, variant: str, file: str, *, replay: bool) -> tuple[Ingest, bool]:
    await require_line(view, variant)
    history = await COUNTED_GAMES.get(view, variant)
    is_lost = history is not None and not await ledger.holders(view, history)
    return Ingest(variant=variant, file=file, history=None if is_lost else history, replay=replay), is_lost


async def _find_other(view: Reads, job: Ingest) -> bool:
    """Whether a live job reads another file for the same line: *job* waits for its end."""
    rows = await view.jobs(LIVE_STATES, _LIVE_MAX, variant=job.variant)
    return any(row.key == job.key and job.file.encode() not in row.body for row in rows)


async def take_turn(store: Store, clock: Clock, variant: str, file: str, *, replay: bool) -> tuple[Ingest, bool]:
    """The job that reads *file* for the line of *variant*, once no other file is being read for it.

    Also whether games of earlier files may count again: then no node is left that holds the list of those that were
    counted.  Raises UnknownName, WorkError.
    """

    async def next_job(view: Reads) -> tuple[Ingest, bool] | None:
        job, is_lost = await _make_job(view, variant, file, replay=replay)
        return None if await _find_other(view, job) else (job, is_lost)

    turn = await wait_for(store, next_job, clock, _TURN_SECONDS_MAX)
    if turn is None:
        raise WorkError(f"another file is still being read for {variant} (ringrift jobs --variant {variant})")
    return turn


async def require_turn(view: Reads, job: Ingest) -> None:
    """Raise WorkError unless *job* still has its turn: asked in the transaction that enqueues it.

    A file that was read since then has left a longer list; a job without that would count its games again.
    """
    current, _ = await _make_job(view, job.variant, job.file, replay=job.replay)
    if current.history != job.history or await _find_other(view, job):
        raise WorkError(f"another file was read for {job.variant} at the same time; import this one again")


def counted_rows(job: Job, result: JobResult) -> tuple[Put, ...]:
    """The record that *job* leaves for the next one of its line."""
    if not isinstance(job, Ingest):
        return ()
    return (COUNTED_GAMES.row(job.variant, only_artifact(result, "report").blob),)
