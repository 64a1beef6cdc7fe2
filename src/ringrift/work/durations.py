"""Durations of finished jobs, and what follows from them: how long a lease lasts and how many games a batch has.

Both stay within named bounds, and without measurements both are what the settings give.  Only finished jobs are
measured: a job that hangs must not teach anybody patience.  For people the same rows say what was done lately, minute
by minute.
"""

from collections.abc import Iterable, Sequence
from statistics import median

from ringrift.kernel.value import Value, changed
from ringrift.store.ports import Lease, Reads, Renewal, Tx
from ringrift.store.records import Records

_SAMPLES_MAX = 32  # jobs that count, the newest: of one kind and variant
_SAMPLES_MIN = 3  # jobs that a batch size needs; a lease is longer after a single one
_LEASE_MARGIN = 4.0  # a lease lasts so many times the longest silence: its holder waits for two thirds of it
_MINUTE, _MINUTES_MAX = 60, 10  # what was done is counted by minute, the newest ones
_BATCH_FACTOR_MAX = 4  # a batch has at most so many times the games of the settings, and at least that part of them


class JobRun(Value):
    """A job that was done."""

    kind: str
    variant: str
    seconds: float = 0.0
    silence: float = 0.0  # the longest time in which it reported no progress
    size: int = 1  # games or blocks in it
    cpu_seconds: float = 0.0  # of its worker


class _Minute(Value):
    """What finished jobs have done within one minute; a job counts in every minute that it lasted, by its share."""

    number: int  # minutes since the epoch
    cpu_seconds: float
    units: float  # games or blocks


class JobLoad(Value):
    """What finished jobs of one kind and variant did in the last *seconds*."""

    seconds: float
    cpu_seconds: float
    units: float  # games or blocks


class _Durations(Value):
    """Measurements of the last jobs of one kind and variant, the newest last."""

    silences: tuple[float, ...] = ()
    unit_seconds: tuple[float, ...] = ()  # seconds for each game or block
    since: float = 0.0  # when the first of all such jobs began
    minutes: tuple[_Minute, ...] = ()


_DURATIONS = Records("durations", _Durations)


def _with_run(durations: _Durations, run: JobRun, now: float) -> _Durations:
    """*durations* with one more job, which ended *now*."""
    silences = (*durations.silences, round(run.silence, 4))[-_SAMPLES_MAX:]
    unit_seconds = (*durations.unit_seconds, run.seconds / max(run.size, 1))[-_SAMPLES_MAX:]
    since, minutes = durations.since or now - run.seconds, _with_minutes(durations.minutes, run, now)
    return _Durations(silences=silences, unit_seconds=unit_seconds, since=since, minutes=minutes)


def _with_minutes(minutes: Sequence[_Minute], run: JobRun, now: float) -> tuple[_Minute, ...]:
    """*minutes* with *run* divided among those that it lasted; older ones are forgotten."""
    last = int(now // _MINUTE)
    first = max(int((now - run.seconds) // _MINUTE), last - _MINUTES_MAX)
    by_number = {row.number: row for row in minutes if last - _MINUTES_MAX <= row.number <= last}
    for number in range(first, last + 1):
        inside = min(now, (number + 1) * _MINUTE) - max(now - run.seconds, number * _MINUTE)
        share = inside / run.seconds if run.seconds > 0 else float(number == last)
        if share <= 0.0:
            continue
        row = by_number.get(number) or _Minute(number=number, cpu_seconds=0.0, units=0.0)
        cpu_seconds, units = row.cpu_seconds + share * run.cpu_seconds, row.units + share * run.size
        by_number[number] = _Minute(number=number, cpu_seconds=round(cpu_seconds, 3), units=round(units, 3))
    return tuple(by_number[number] for number in sorted(by_number))


def _load(durations: _Durations, now: float) -> JobLoad:
    """What *durations* say about the last minutes, or about the time since the first job where that was later."""
    first = int(now // _MINUTE) - _MINUTES_MAX
    rows = [row for row in durations.minutes if row.number >= first]
    seconds = max(now - max(first * _MINUTE, durations.since), 1.0)
    return JobLoad(seconds=seconds, cpu_seconds=sum(row.cpu_seconds for row in rows), units=sum(r.units for r in rows))


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


async def load_of(view: Reads, kinds: Iterable[str], variant: str, now: float) -> dict[str, JobLoad]:
    """By kind, what jobs of *variant* did in the last minutes."""
    ids = {f"{kind}:{variant}": kind for kind in kinds}
    return {ids[id]: _load(row, now) for id, row in (await _DURATIONS.get_many(view, list(ids))).items()}


async def record_runs(tx: Tx, runs: Iterable[JobRun], now: float) -> None:
    """Add jobs that finished *now* to the measurements."""
    for run in runs:
        id = f"{run.kind}:{run.variant}"
        await _DURATIONS.put_at(tx, {id: _with_run(await _DURATIONS.get(tx, id) or _Durations(), run, now)})
