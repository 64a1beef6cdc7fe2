"""Job facts: everything that is known about a job."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from ringrift import jobs
from ringrift.jobs import JobQuery
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.kernel.value import Value
from ringrift.store.ports import JobRow, Origin, Reads
from ringrift.work.failures import JobFailure, failures_of
from ringrift.work.limits import LINE_WORK
from ringrift.work.tries import TRIES

_AMBIGUOUS_MAX = 5  # jobs that an ambiguous id lists
_ORIGINS_MAX = 10_000  # newest blobs among which the outputs of a job are looked for
_OUTPUTS = {"play": "games", "export": "samples", "train": "model", "import": "model"}


class JobFacts(Value):
    """What is known about a job."""

    id: str
    kind: str
    variant: str
    state: str  #: *ready*, *claimed*, *done*, *dead* or *cancelled*.
    purpose: str
    key: str
    node: str  #: The node that holds it, or that made its outputs or failed last; empty if none has.
    only_node: str  #: The only node that may do it, if there is one.
    priority: int
    attempts: int
    tries: dict[str, int]  #: Failed attempts by node.
    enqueued: float
    pause: float  #: Seconds from its last failure until it is tried again.
    lease_seconds: float
    renewals: int  #: Of the lease it has, or had last.
    progress: float
    error: str
    parameters: dict[str, Any]
    inputs: dict[str, tuple[str, ...]]  #: Role → blobs.
    outputs: tuple[Origin, ...]
    failures: tuple[JobFailure, ...]  #: Oldest first.


async def find_job(view: Reads, text: str) -> JobRow:
    """The only job whose id begins or ends with *text*.  Raises UnknownName, or InputError if there are several."""
    rows = await view.list_jobs(JobQuery(begins=text), _AMBIGUOUS_MAX) if text else ()
    if len(rows) > 1:  # an id that another one begins with is still meant
        rows = [row for row in rows if row.id == text] or rows
    rows = rows or (await view.list_jobs(JobQuery(ends=text), _AMBIGUOUS_MAX) if text else ())
    if not rows:
        raise UnknownName("job", text)
    if len(rows) > 1:
        names = ", ".join(row.id for row in rows)
        raise InputError(f"job {text:.30} is ambiguous: {names}{', …' if len(rows) == _AMBIGUOUS_MAX else ''}")
    return rows[0]


async def job_facts(view: Reads, job: str) -> JobFacts:
    """All about the job whose id begins or ends with *job*.  Raises UnknownName, InputError."""
    row = await find_job(view, job)
    failures, tries = await failures_of(view, row.id), await TRIES.get(view, row.id)
    outputs = await _outputs(view, row) if row.state == "done" else ()
    body = jobs.decode_if_known(row.kind, row.body)
    parameters = msgspec.to_builtins(body) if body else {"body": row.body.decode(errors="replace")}
    inputs = dict(body.inputs) if body is not None else {}
    line = await LINE_WORK.get(view, row.variant)
    if line is not None and body is not None and body.runs_in == "workload":
        parameters["params"] = dict(line.params)
    nodes = [origin.node for origin in outputs] or [failure.node for failure in failures]
    names = ("id", "kind", "variant", "state", "key", "priority", "attempts", "pause", "renewals", "progress")
    facts: dict[str, Any] = {name: getattr(row, name) for name in names}
    facts |= {"only_node": row.node or "", "enqueued": row.time, "lease_seconds": row.seconds, "error": row.error or ""}
    facts["node"] = row.holder or (nodes[-1] if nodes else "")
    facts["tries"] = dict(tries.failures) if tries else dict(Counter(failure.node for failure in failures))
    facts["parameters"] = {name: value for name, value in parameters.items() if name not in inputs}
    facts |= {"inputs": inputs, "outputs": tuple(outputs), "failures": tuple(failures)}
    return JobFacts(purpose=jobs.purpose_of(body), **facts)


async def _outputs(view: Reads, row: JobRow) -> Sequence[Origin]:
    """The blobs that the job made, as far as they are among the newest of their kind."""
    if row.kind not in _OUTPUTS:
        return ()
    origins = await view.list_origins(_OUTPUTS[row.kind], _ORIGINS_MAX, variant=row.variant)
    return [origin for origin in origins if origin.job == row.id]
