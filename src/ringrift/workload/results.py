"""Results: the checks of what a job has made, before anything counts it."""

from collections.abc import Mapping
from typing import Any

from ringrift.events.base import Event
from ringrift.events.data import Imported
from ringrift.events.selfplay import BatchFinished
from ringrift.kernel.errors import JobFailed
from ringrift.workload.api import Artifact, JobResult

_ERRORS_CHARACTERS_MAX = 1000


def only_artifact(result: JobResult, kind: str) -> Artifact:
    """The one artifact of *kind*.  Raises JobFailed."""
    artifacts = [output for output in result.outputs if output.kind == kind]
    if len(artifacts) != 1:
        raise JobFailed(f"the workload made {len(artifacts)} artifacts of kind {kind}, not 1")
    return artifacts[0]


def count_in(artifact: Artifact, key: str, least: int = 1) -> int:
    """The number that the workload reports under *key*: whole, and at least *least*.  Raises JobFailed."""
    number = artifact.meta.get(key)
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        reason = f"the workload reports {key} = {number!r}: a whole number above {least - 1} is needed"
        raise JobFailed(reason, blob=artifact.blob)
    return number


def imported_events(
    result: JobResult, facts: Mapping[str, str], *, pending: bool, ephemeral: bool
) -> tuple[Event, ...]:
    """The events of a file of games: one for each batch, and then that of the file.  Raises JobFailed.

    *facts*: variant, node and source of all of them.
    """
    report = only_artifact(result, "report")
    batches = {out.blob: count_in(out, "games") for out in result.outputs if out.kind == "games"}
    shared: dict[str, Any] = {**facts, "model": "", "ephemeral": ephemeral}
    events = [BatchFinished(batch=blob, games=games, **shared) for blob, games in batches.items()]
    counts = {name: count_in(report, name, least=0) for name in ("repeated", "refused", "other")}
    about: dict[str, Any] = {**facts, **counts, "batches": tuple(batches), "games": sum(batches.values())}
    errors = str(report.meta.get("errors", ""))[:_ERRORS_CHARACTERS_MAX]
    return (*events, Imported(errors=errors, pending=pending, **about))
