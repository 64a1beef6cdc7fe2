"""Trouble: errors that programs report, what was tried against them, and whether to try once more."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from ringrift.kernel.errors import told
from ringrift.kernel.value import Value
from ringrift.kernel.verdict import Verdict
from ringrift.store.ports import Put, Reads, Tx

ERROR, RECOVERY = "reported_error", "recovery"
KEPT_MAX = 500
"""Errors, and recoveries, that are remembered; the oldest go first."""
DROPPED_MAX = 100
"""How many may go at once: two programs may have added theirs."""
NAME_CHARACTERS_MAX, ERROR_CHARACTERS_MAX = 200, 500
RECENT_SECONDS = 3600.0
"""Within which an error counts."""


class Reported(Value):
    """An error that somebody reported."""

    id: str
    component: str
    error: str
    severity: str
    node: str
    time: float


class Recovery(Value):
    """Something that was tried against trouble with *target*, a node or a job."""

    id: str
    target: str
    action: str
    time: float
    helped: bool | None = None
    """None until somebody knows."""
    detail: str = ""


class RecoveryLimits(Value):
    """How often recovery may be tried."""

    node_tries_max: int = 3
    job_tries_max: int = 2
    cooldown_seconds: float = 300.0
    escalate_seconds: float = 3600.0
    """After the last try a person has to look; so long nothing more is tried."""


R = TypeVar("R", Reported, Recovery)


async def report(tx: Tx, error: Reported) -> None:
    """Write down an error; the oldest ones go."""
    said = msgspec.structs.replace(
        error, component=told(error.component, NAME_CHARACTERS_MAX), error=told(error.error, ERROR_CHARACTERS_MAX)
    )
    await _keep(tx, ERROR, said)


async def tried(tx: Tx, recovery: Recovery) -> None:
    """Write down what was tried; the oldest tries go."""
    said = msgspec.structs.replace(
        recovery, target=told(recovery.target, NAME_CHARACTERS_MAX), detail=told(recovery.detail, ERROR_CHARACTERS_MAX)
    )
    await _keep(tx, RECOVERY, said)


async def _keep(tx: Tx, kind: str, value: Reported | Recovery) -> None:
    await tx.put([Put(kind=kind, id=value.id, body=msgspec.json.encode(value))])
    ids = [record.id for record in await tx.scan(kind, "", KEPT_MAX + DROPPED_MAX)]
    await tx.delete(kind, ids[: max(len(ids) - KEPT_MAX, 0)])


async def errors(view: Reads) -> list[Reported]:
    """Every error that is remembered, oldest first: ids sort by time."""
    return [msgspec.json.decode(record.body, type=Reported) for record in await view.scan(ERROR, "", KEPT_MAX)]


async def recoveries(view: Reads) -> list[Recovery]:
    """Every try that is remembered, oldest first."""
    return [msgspec.json.decode(record.body, type=Recovery) for record in await view.scan(RECOVERY, "", KEPT_MAX)]


def lately(found: Iterable[R], now: float) -> list[R]:
    """Those of *found* that are recent; one from the future was written by a clock that runs ahead."""
    return [one for one in found if now - one.time < RECENT_SECONDS]


def in_vain(target: str, tries: Iterable[Recovery]) -> list[Recovery]:
    """What was tried with *target* since something last helped."""
    found: list[Recovery] = []
    for one in tries:
        if one.target == target:
            found = [] if one.helped else [*found, one]
    return found


def may_recover(target: str, tries: Sequence[Recovery], tries_max: int, now: float, limits: RecoveryLimits) -> Verdict:
    """Whether something may be tried with *target* now: not too soon behind the last try, and not over and over."""
    vain = in_vain(target, tries)
    last = max((one.time for one in tries if one.target == target), default=None)
    idle = float("inf") if last is None else max(now - last, 0.0)
    spent = len(vain) >= tries_max
    wait = limits.escalate_seconds if spent else limits.cooldown_seconds
    if last is None or idle >= wait:
        return Verdict(gate="recover", allowed=True, rule="tries in vain", value=len(vain), limit=tries_max, since=now)
    rule = f"{len(vain)} tries in vain, a person has to look; seconds since" if spent else "seconds since the last try"
    return Verdict(gate="recover", allowed=False, rule=rule, value=idle, limit=wait, since=last, until=last + wait)


def next_step(tries: int, tries_max: int, steps: Sequence[str]) -> str:
    """What to try after so many *tries* in vain: one step after the other; behind the long pause it begins anew."""
    return steps[min(tries % tries_max, len(steps) - 1)]
