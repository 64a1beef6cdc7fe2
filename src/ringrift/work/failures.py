"""Failures: the newest failed attempts at jobs, each with its traceback, in so many places that are used in turn."""

from collections.abc import Sequence

from ringrift.kernel.value import Value
from ringrift.store.ports import Reads, Tx
from ringrift.store.records import Records

TRACEBACK_CHARACTERS_MAX = 4000  #: Of a traceback its end is kept, where the error is.
_FAILURES_MAX = 256  # of all jobs together: their number does not grow with the number of jobs that fail
_NEXT = "next"


class JobFailure(Value):
    """An attempt at a job that failed."""

    job: str
    kind: str
    variant: str
    node: str
    attempt: int
    time: float
    error: str
    cause: str
    traceback: str = ""


_FAILURES = Records("job_failure", JobFailure, index=("job", "variant"), order=("time", "attempt"), limit=_FAILURES_MAX)
_PLACES = Records("job_failure_place", int)  # the number of failures so far


async def record_failures(tx: Tx, failures: Sequence[JobFailure]) -> None:
    """Write *failures* in place of the oldest."""
    if failures:
        first = await _PLACES.get(tx, _NEXT) or 0
        places = {f"{(first + number) % _FAILURES_MAX:03}": failure for number, failure in enumerate(failures)}
        await _FAILURES.put_at(tx, places)
        await _PLACES.put_at(tx, {_NEXT: first + len(failures)})


async def failures_of(view: Reads, job: str) -> list[JobFailure]:
    """The failed attempts at *job*, oldest first, unless more than 256 others failed since."""
    return await _FAILURES.all(view, "job", job)


async def latest_failures(view: Reads, variant: str | None = None) -> list[JobFailure]:
    """The newest failed attempts at jobs of *variant*, or of all, oldest first."""
    return await (_FAILURES.all(view, "variant", variant) if variant else _FAILURES.all(view))
