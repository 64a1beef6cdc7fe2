"""The documented health of the system: a score from nodes, circuits, errors and recoveries, and what to do about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import msgspec

from ringrift.cluster import score, trouble
from ringrift.cluster.alerts import Alert, open_alerts, rank
from ringrift.cluster.trouble import Recovery, RecoveryLimits, Reported
from ringrift.kernel import breaker
from ringrift.kernel.breaker import Breaker, Limits
from ringrift.kernel.errors import InputError
from ringrift_compat.ambient import Embedded, ambient
from ringrift_compat.health import UNREAD, CoordinatorStatus, HealthCheckResult
from ringrift_compat.levels import ErrorSeverity, RecoveryAction, SystemHealthLevel
from ringrift_compat.node_health import Eyes, NodeHealth

KEPT = "system_health"
COMPONENTS_MAX = 1000
"""Components whose circuits are remembered."""
ISSUES_MAX = 20
LIMITS = RecoveryLimits()
CIRCUIT = Limits()
STEPS = {"node": ("restart_node_services", "reboot_node"), "job": ("restart_job", "kill_job")}
"""What to try first and then.  Taking a node away is left to a person."""
CircuitState = breaker.State


@dataclass(frozen=True)
class SystemHealthScore:
    """How the system is: from 0 to 100, the word for it, and what it is made of."""

    score: float
    level: SystemHealthLevel
    components: Mapping[str, float] = field(default_factory=dict)
    """nodes, circuits, errors and recoveries, each from 0 to 1."""
    issues: Sequence[str] = ()
    timestamp: float = 0.0

    def __bool__(self) -> bool:
        return self.level is SystemHealthLevel.HEALTHY


class Advice(NamedTuple):
    """An answer with its reasons; true only when the answer is yes."""

    yes: bool
    reasons: list[str]

    def __bool__(self) -> bool:
        return self.yes


class _Kept:
    """What one program remembers of the system.  Only the ambient loop changes it."""

    def __init__(self) -> None:
        self.circuits: dict[str, Breaker] = {}
        self.pausing = score.Pausing()

    @classmethod
    def of(cls, node: Embedded) -> "_Kept":
        found: _Kept = node.kept.get(KEPT) or node.kept.setdefault(KEPT, cls())
        return found

    def change(self, component: str, circuit: Breaker) -> None:
        """Remember how the circuit of *component* is; one that never failed need not be, and the oldest goes."""
        self.circuits.pop(component, None)
        if circuit.failures:
            self.circuits[component] = circuit
        while len(self.circuits) > COMPONENTS_MAX:
            del self.circuits[next(iter(self.circuits))]


class UnifiedHealthManager:
    """Errors and recoveries as they are written down in the store, and what they and the nodes come to.

    It advises and writes down; what it advises is done by whoever asked.
    """

    # -- errors and circuits -------------------------------------------------------------------------------------------

    def record_error(
        self, component: str, error: object, severity: ErrorSeverity | str = ErrorSeverity.ERROR, node_id: str = ""
    ) -> None:
        """Write down that *component* failed, which also counts for its circuit.  Raises if it cannot be written."""
        node, word = ambient.node(), ErrorSeverity(severity)
        text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error)
        ambient.call(_report(node, component, text, word, node_id or node.settings.node.id))

    def record_success(self, component: str) -> None:
        """Say that *component* works: nothing is left of earlier failures."""
        node = ambient.node()
        ambient.call(_succeed(node, component))

    def get_recent_errors(self, limit: int = 100, component: str | None = None) -> list[dict[str, Any]]:
        """The last errors, newest first."""
        node = ambient.node()
        found = [one for one in ambient.call(_errors(node)) if component in (None, one.component)]
        return [msgspec.to_builtins(one) for one in reversed(found)][: max(limit, 0)]

    def get_circuit_state(self, component: str) -> CircuitState:
        """Whether the circuit of *component* is open, after failures in this program."""
        node = ambient.node()
        return breaker.state(_Kept.of(node).circuits.get(component, Breaker()), CIRCUIT, node.clock.tick())

    def is_circuit_open(self, component: str) -> bool:
        """Whether *component* failed so often that it is better left alone for a while."""
        return self.get_circuit_state(component) is CircuitState.OPEN

    # -- recovery ------------------------------------------------------------------------------------------------------

    def should_attempt_recovery(self, target: str, kind: str = "node") -> Advice:
        """Whether something may be tried with *target*, a node or a job; no, if nobody can tell."""
        limit = _tries_max(kind)
        try:
            node = ambient.node()
            tries = ambient.call(_recoveries(node))
        except UNREAD as unread:
            return Advice(False, [f"the store cannot be read: {unread}"])
        verdict = trouble.may_recover(target, tries, limit, node.clock.now(), LIMITS)
        return Advice(verdict.allowed, [] if verdict.allowed else [str(verdict)])

    def get_recovery_action(self, target: str, kind: str = "node") -> RecoveryAction:
        """What to try next with *target*; nothing while it may not be tried, a person after the last try."""
        node, limit = ambient.node(), _tries_max(kind)
        tries = ambient.call(_recoveries(node))
        vain = len(trouble.in_vain(target, tries))
        if trouble.may_recover(target, tries, limit, node.clock.now(), LIMITS).allowed:
            return RecoveryAction(trouble.next_step(vain, limit, STEPS[kind]))
        return RecoveryAction.NONE if vain < limit else RecoveryAction.ESCALATE_HUMAN

    def record_recovery_attempt(
        self, target: str, action: RecoveryAction | str, success: bool | None = None, detail: str = ""
    ) -> None:
        """Write down what was tried with *target*, and whether it helped, if that is known."""
        node, word = ambient.node(), RecoveryAction(action)
        ambient.call(_try(node, target, word, success, detail))

    def get_recovery_history(self, limit: int = 100, target: str | None = None) -> list[dict[str, Any]]:
        """What was tried, newest first."""
        node = ambient.node()
        found = [one for one in ambient.call(_recoveries(node)) if target in (None, one.target)]
        return [msgspec.to_builtins(one) for one in reversed(found)][: max(limit, 0)]

    # -- the whole -----------------------------------------------------------------------------------------------------

    def get_system_health(self) -> SystemHealthScore:
        """How the system is; critical with 0 points if the store cannot be read."""
        try:
            node = ambient.node()
            return ambient.call(_judged(node))
        except UNREAD as unread:
            issue = f"the store cannot be read: {unread}"
            return SystemHealthScore(0.0, SystemHealthLevel.CRITICAL, issues=(issue,))

    calculate_system_health = get_system_health

    def get_system_health_score(self) -> float:
        """From 0 to 100."""
        return self.get_system_health().score

    def get_system_health_level(self) -> SystemHealthLevel:
        """The word for it."""
        return self.get_system_health().level

    def should_pause_pipeline(self) -> Advice:
        """Whether the loop should pause: below 40 points, until they have been at least 60 for two minutes."""
        found = self.get_system_health()
        try:
            node = ambient.node()
            paused = ambient.call(_pause(node, found.score))
        except UNREAD:
            paused = True
        reasons = [f"system health {found.score:.0f} of 100", *found.issues]
        return Advice(paused, reasons if paused else [])

    def health_check(self) -> HealthCheckResult:
        """The same as a result."""
        found = self.get_system_health()
        worse = CoordinatorStatus.ERROR if found.level < SystemHealthLevel.DEGRADED else CoordinatorStatus.DEGRADED
        return HealthCheckResult(
            healthy=bool(found), status=CoordinatorStatus.RUNNING if found else worse, message="; ".join(found.issues),
            details={"score": found.score, "level": found.level.value, **found.components},
        )  # fmt: skip


def _tries_max(kind: str) -> int:
    limits = {"node": LIMITS.node_tries_max, "job": LIMITS.job_tries_max}
    if kind not in limits:
        raise InputError(f"{kind!r} is nothing to recover: it is a node or a job")
    return limits[kind]


async def _report(node: Embedded, component: str, error: str, severity: ErrorSeverity, where: str) -> None:
    said = Reported(
        id=node.ids.next(), component=component, error=error, severity=severity.value, node=where,
        time=node.clock.now(),
    )  # fmt: skip
    async with node.store.begin() as tx:
        await trouble.report(tx, said)
    if severity >= ErrorSeverity.ERROR:
        kept = _Kept.of(node)
        before = kept.circuits.get(component, Breaker())
        kept.change(component, breaker.failed(before, CIRCUIT, node.clock.tick(), said.error))


async def _succeed(node: Embedded, component: str) -> None:
    kept = _Kept.of(node)
    kept.change(component, breaker.succeeded(kept.circuits.get(component, Breaker())))


async def _try(node: Embedded, target: str, action: RecoveryAction, helped: bool | None, detail: str) -> None:
    said = Recovery(
        id=node.ids.next(), target=target, action=action.value, time=node.clock.now(), helped=helped, detail=detail
    )
    async with node.store.begin() as tx:
        await trouble.tried(tx, said)


async def _errors(node: Embedded) -> list[Reported]:
    async with node.store.read() as view:
        return await trouble.errors(view)


async def _recoveries(node: Embedded) -> list[Recovery]:
    async with node.store.read() as view:
        return await trouble.recoveries(view)


async def _pause(node: Embedded, points: float) -> bool:
    kept = _Kept.of(node)
    kept.pausing = score.pausing(kept.pausing, points, node.clock.tick())
    return kept.pausing.paused


async def _judged(node: Embedded) -> SystemHealthScore:
    nodes = [one for one in (await Eyes.of(node).look()).values() if not one.is_absent]
    async with node.store.read() as view:
        alerts = [one for one in await open_alerts(view) if rank(one.level) >= rank("warning")]
        errors, tries = await trouble.errors(view), await trouble.recoveries(view)
    now, tick = node.clock.now(), node.clock.tick()
    known = _Kept.of(node).circuits
    shut = [name for name, one in known.items() if breaker.state(one, CIRCUIT, tick) is CircuitState.OPEN]
    recent = [one for one in trouble.lately(errors, now) if one.severity in ("error", "critical")]
    ended = [one for one in trouble.lately(tries, now) if one.helped is not None]
    measures = score.Measures(
        nodes=sum(one.points for one in nodes) / len(nodes) if nodes else 0.0,
        circuits=score.share(len(known) - len(shut), len(known)), errors=score.spared(len(recent) + len(alerts)),
        recoveries=score.share(sum(bool(one.helped) for one in ended), len(ended)),
    )  # fmt: skip
    severe = any(rank(one.level) >= rank("severe") for one in alerts)
    working = [one for one in nodes if one.is_available]
    broken = severe or bool(shut) or len(working) < len(nodes)
    points = score.points(measures)
    word = score.level(points, broken=broken, idle=not working)
    return SystemHealthScore(
        points, SystemHealthLevel(word), msgspec.to_builtins(measures),
        tuple(_issues(nodes, alerts, shut, recent)[:ISSUES_MAX]), now,
    )  # fmt: skip


def _issues(
    nodes: Sequence[NodeHealth], alerts: Sequence[Alert], shut: Sequence[str], recent: Sequence[Reported]
) -> list[str]:
    """What is wrong, in sentences."""
    return [
        *([] if nodes else ["no node is there: start one with  ringrift run"]),
        *(f"{one.node_id}: {one.message or one.state}" for one in nodes if not one.healthy),
        *(f"{one.kind} {one.subject}: {one.detail}" for one in alerts),
        *(f"{name}: its circuit is open" for name in shut),
        *(
            [f"{len(recent)} errors in the last hour, last: {recent[-1].component}: {recent[-1].error}"]
            if recent
            else []
        ),
    ]


@cache
def get_health_manager() -> UnifiedHealthManager:
    """The health of this program's home."""
    return UnifiedHealthManager()


def get_system_health_score() -> float:
    """As :meth:`UnifiedHealthManager.get_system_health_score`."""
    return get_health_manager().get_system_health_score()


def get_system_health_level() -> SystemHealthLevel:
    """As :meth:`UnifiedHealthManager.get_system_health_level`."""
    return get_health_manager().get_system_health_level()


def should_pause_pipeline() -> Advice:
    """As :meth:`UnifiedHealthManager.should_pause_pipeline`."""
    return get_health_manager().should_pause_pipeline()
