"""Errors that programs report, the recovery attempts against them, and whether another attempt is allowed."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from ringrift.kernel.errors import printable
from ringrift.kernel.value import Value
from ringrift.kernel.verdict import Verdict
from ringrift.store.ports import Tx
from ringrift.store.records import Records

_STORED_MAX = 500  # errors, and recoveries, that are stored; the oldest are deleted first
_DELETED_MAX = 100  # how many are deleted at once: two programs may have added some at the same time
NAME_CHARACTERS_MAX, ERROR_CHARACTERS_MAX = 200, 500
_RECENT_SECONDS = 3600.0  # for how long an error counts


class ErrorReport(Value):
    """An error that a program reported."""

    id: str
    component: str
    error: str
    severity: str
    node: str
    time: float


class Recovery(Value):
    """An attempt to repair *target*, a node or a job."""

    id: str
    target: str
    action: str
    time: float
    helped: bool | None = None  # None until the outcome is reported
    detail: str = ""


class RecoveryLimits(Value):
    """How often recovery may be attempted."""

    node_tries_max: int = 3
    job_tries_max: int = 2
    cooldown_seconds: float = 300.0
    escalate_seconds: float = 3600.0  # how long to wait for an operator after the last attempt


_R = TypeVar("_R", ErrorReport, Recovery)
ERRORS = Records("reported_error", ErrorReport, id="id", limit=_STORED_MAX)
RECOVERIES = Records("recovery", Recovery, id="id", limit=_STORED_MAX)


async def record_error(tx: Tx, report: ErrorReport) -> None:
    """Store *report* and delete the oldest ones."""
    component = printable(report.component, NAME_CHARACTERS_MAX)
    error = printable(report.error, ERROR_CHARACTERS_MAX)
    await _put(tx, ERRORS, msgspec.structs.replace(report, component=component, error=error))


async def record_recovery(tx: Tx, recovery: Recovery) -> None:
    """Store *recovery* and delete the oldest ones."""
    target = printable(recovery.target, NAME_CHARACTERS_MAX)
    detail = printable(recovery.detail, ERROR_CHARACTERS_MAX)
    await _put(tx, RECOVERIES, msgspec.structs.replace(recovery, target=target, detail=detail))


async def _put(tx: Tx, records: Records[_R], value: _R) -> None:
    await records.put(tx, [value])
    ids = list(await records.scan(tx, limit=_STORED_MAX + _DELETED_MAX))
    await records.delete(tx, ids[: max(len(ids) - _STORED_MAX, 0)])


def recent(values: Iterable[_R], now: float) -> list[_R]:
    """Those of *values* that are recent; one from the future was written by a clock that runs ahead."""
    return [value for value in values if now - value.time < _RECENT_SECONDS]


def failed_recoveries(target: str, recoveries: Iterable[Recovery]) -> list[Recovery]:
    """The attempts on *target* since the last one that helped."""
    failed: list[Recovery] = []
    for recovery in recoveries:
        if recovery.target == target:
            failed = [] if recovery.helped else [*failed, recovery]
    return failed


def may_recover(target: str, tries: Sequence[Recovery], tries_max: int, now: float, limits: RecoveryLimits) -> Verdict:
    """Whether another attempt on *target* is allowed now: not too soon after the last one, and not over and over."""
    failed = len(failed_recoveries(target, tries))
    last = max((recovery.time for recovery in tries if recovery.target == target), default=None)
    idle = float("inf") if last is None else max(now - last, 0.0)
    exhausted = failed >= tries_max
    wait = limits.escalate_seconds if exhausted else limits.cooldown_seconds
    if last is None or idle >= wait:
        return Verdict(gate="recover", allowed=True, rule="failed tries", value=failed, limit=tries_max, since=now)
    after = f"{failed} failed tries: an operator has to look" if exhausted else "the last try"
    rule = f"seconds after {after}"
    return Verdict(gate="recover", allowed=False, rule=rule, value=idle, limit=wait, since=last, until=last + wait)


def next_step(tries: int, tries_max: int, steps: Sequence[str]) -> str:
    """The action after so many failed *tries*: one step after the other; after the long pause it begins anew."""
    return steps[min(tries % tries_max, len(steps) - 1)]
