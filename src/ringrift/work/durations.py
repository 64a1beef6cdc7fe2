"""Durations of finished jobs, and what follows from them: how long a lease lasts and how many games a batch has.

Both stay within named bounds, and without measurements both are what the settings give.  Only finished jobs are
measured: a job that hangs must not teach anybody patience.
"""

from collections.abc import Iterable, Sequence
from statistics import median

from ringrift.kernel.value import Value, changed
from ringrift.store.ports import Lease, Reads, Renewal, Tx
from ringrift.store.records import Records

_SAMPLES_MAX = 32  # jobs that count, the newest: of one kind and variant
_SAMPLES_MIN = 3  # jobs that a batch size needs; a lease is longer after a single one
_LEASE_MARGIN = 4.0  # a lease lasts so many times the longest silence: its holder waits for two thirds of it
_BATCH_FACTOR_MAX = 4  # a batch has at most so many times the games of the settings, and at least that part of them


class JobRun(Value):
    """A job that was done."""

    kind: str
    variant: str
    seconds: float = 0.0
    silence: float = 0.0  # the longest time in which it reported no progress
    size: int = 1  # games or blocks in it


class _Durations(Value):
    """Measurements of the last jobs of one kind and variant, the newest last."""

    silences: tuple[float, ...] = ()
    unit_seconds: tuple[float, ...] = ()  # seconds for each game or block


_DURATIONS = Records("durations", _Durations)


def _with_run(durations: _Durations, run: JobRun) -> _Durations:
    """*durations* with one more job."""
    silences = (*durations.silences, round(run.silence, 4))
    unit_seconds = (*durations.unit_seconds, run.seconds / max(run.size, 1))
    return _Durations(silences=silences[-_SAMPLES_MAX:], unit_seconds=unit_seconds[-_SAMPLES_MAX:])


def _lease_seconds(durations: _Durations | None, low: float, high: float) -> float:
    """How long a lease lasts: as *low* as possible, longer for jobs that are silent for long, never above *high*."""
    silence = max(durations.silences, default=0.0) if durations else 0.0
    return max(min(_LEASE_MARGIN * silence, high), low)


def batch_size(durations: _Durations | None, games: int, seconds: float) -> int:
    """How many games a batch has so that it takes about *seconds*; *games* where that is 0 or not known."""
    speeds = durations.unit_seconds if durations else ()
    if not seconds or len(speeds) < _SAMPLES_MIN or median(speeds) <= 0:
        return games
    least, most = max(games // _BATCH_FACTOR_MAX, 1), games * _BATCH_FACTOR_MAX
    return int(min(max(seconds / median(speeds), least), most))


async def load_durations(view: Reads, kind: str, variant: str) -> _Durations | None:
    """The measurements of jobs of *kind* and *variant*, if there are any."""
    return await _DURATIONS.get(view, f"{kind}:{variant}")


async def lengthen(tx: Tx, leases: Sequence[Lease], high: float) -> Sequence[Lease]:
    """*leases*, which have the least length that there is, with the length that their jobs need."""
    if not leases:
        return leases
    ids = [f"{lease.kind}:{lease.variant}" for lease in leases]
    by_id = await _DURATIONS.get_many(tx, list(dict.fromkeys(ids)))
    result = []
    for id, lease in zip(ids, leases, strict=True):
        seconds = _lease_seconds(by_id.get(id), lease.seconds, high)
        if seconds > lease.seconds:
            await tx.renew([Renewal(job=lease.job, fence=lease.fence, seconds=seconds)])
            lease = changed(lease, seconds=seconds, renewals=lease.renewals + 1)
        result.append(lease)
    return result


async def record_runs(tx: Tx, runs: Iterable[JobRun]) -> None:
    """Add finished jobs to the measurements."""
    for run in runs:
        id = f"{run.kind}:{run.variant}"
        await _DURATIONS.put_at(tx, {id: _with_run(await _DURATIONS.get(tx, id) or _Durations(), run)})
