"""The health of the system: a score from nodes, circuits, errors and recoveries, and what to do about trouble."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ringrift.cluster import error_reports, score
from ringrift.cluster.alerts import Alert, open_alerts, rank
from ringrift.cluster.error_reports import ErrorReport, Recovery, RecoveryLimits
from ringrift.kernel.errors import InputError, UnknownName
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.health.circuit_breaker import CircuitBreaker, CircuitState
from ringrift_compat.health.node_health import NodeHealthState, NodeMonitoringStatus, NodeSurvey
from ringrift_compat.health.protocols import UNREAD, CoordinatorStatus, HealthCheckResult
from ringrift_compat.types import RecoveryAction

_ISSUES_MAX = 20
_FAILURES = ("error", "critical")
_SEVERITIES = ("info", "warning", *_FAILURES)
_LIMITS = RecoveryLimits()
_STEPS = {"node": ("restart_node_services", "reboot_node"), "job": ("restart_job", "kill_job")}
"""The order in which to try.  Removing a node is left to a person."""
_STATUSES = {"healthy": CoordinatorStatus.RUNNING, "degraded": CoordinatorStatus.DEGRADED}


@dataclass(frozen=True)
class _SystemHealthScore:
    """The health of the system from 0 to 100, the word for it, and what it is made of; true only when healthy."""

    score: float
    level: str
    """healthy, degraded, unhealthy or critical."""
    components: Mapping[str, float] = field(default_factory=dict)
    """nodes, circuits, errors and recoveries, each from 0 to 1."""
    issues: Sequence[str] = ()

    def __bool__(self) -> bool:
        return self.level == "healthy"


class _Memory:
    """The memory of one program about the system."""

    def __init__(self, node: EmbeddedNode) -> None:
        self.breaker = CircuitBreaker(clock=node.clock)
        self.pausing = score.PauseState()


class UnifiedHealthManager:
    """Errors and recoveries that are recorded in the store, and the score that they and the nodes come to.

    It records and advises; the caller acts.
    """

    @classmethod
    def get_instance(cls) -> "UnifiedHealthManager":
        """A manager like any other: all of them share what the store has."""
        return cls()

    def record_error(self, component: str, error: object, severity: str = "error", node_id: str = "") -> None:
        """Record that *component* failed, which also counts for its circuit.  Raises if it cannot be written."""
        node = embedded.node()
        if severity not in _SEVERITIES:
            raise UnknownName("severity", severity, _SEVERITIES)
        text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error)
        where, id = node_id or node.settings.node.id, node.ids.next()
        report = ErrorReport(
            id=id, component=component, error=text, severity=severity, node=where, time=node.clock.now()
        )
        embedded.call(_report(node, report))
        if severity in _FAILURES:
            node.extension(_Memory).breaker.record_failure(component, text)

    def record_success(self, component: str) -> None:
        """Record that *component* works, which closes its circuit."""
        embedded.node().extension(_Memory).breaker.record_success(component)

    def is_circuit_open(self, component: str) -> bool:
        """Whether *component* failed so often in this program that it should not be tried for a while."""
        return embedded.node().extension(_Memory).breaker.get_state(component) is CircuitState.OPEN

    def get_recovery_action(self, target: str, kind: str = "node") -> RecoveryAction:
        """The action to try next with *target*, a node or job: NONE while it must rest, a person after the last try."""
        limits = {"node": _LIMITS.node_tries_max, "job": _LIMITS.job_tries_max}
        if kind not in limits:
            raise InputError(f"a {kind!r} cannot be recovered: kind must be node or job")
        limit = limits[kind]
        tries = embedded.query(error_reports.RECOVERIES.all)
        failures = len(error_reports.failed_recoveries(target, tries))
        if error_reports.may_recover(target, tries, limit, embedded.node().clock.now(), _LIMITS).allowed:
            return RecoveryAction(error_reports.next_step(failures, limit, _STEPS[kind]))
        return RecoveryAction.NONE if failures < limit else RecoveryAction.ESCALATE_HUMAN

    def record_recovery_attempt(
        self, target: str, action: RecoveryAction | str, success: bool | None = None, detail: str = ""
    ) -> None:
        """Record what was tried with *target*, and whether it helped, if that is known."""
        node, word = embedded.node(), RecoveryAction(action).value
        id, now = node.ids.next(), node.clock.now()
        attempt = Recovery(id=id, target=target, action=word, time=now, helped=success, detail=detail)
        embedded.call(_record(node, attempt))

    def get_system_health(self) -> _SystemHealthScore:
        """The health of the system; critical with 0 points if the store cannot be read."""
        try:
            return embedded.call(_score(embedded.node()))
        except UNREAD as error:
            return _SystemHealthScore(0.0, "critical", issues=(f"the store cannot be read: {error}",))

    def should_pause_pipeline(self) -> bool:
        """Whether the loop should pause: below 40 points, until they have been at least 60 for two minutes."""
        points = self.get_system_health().score
        try:
            node = embedded.node()
        except UNREAD:
            return True
        memory = node.extension(_Memory)
        memory.pausing = score.next_pause_state(memory.pausing, points, node.clock.tick())
        return memory.pausing.paused

    def health_check(self) -> HealthCheckResult:
        """The same as a result."""
        health = self.get_system_health()
        details: dict[str, Any] = {"score": health.score, "level": health.level, **health.components}
        status = _STATUSES.get(health.level, CoordinatorStatus.ERROR)
        return HealthCheckResult(bool(health), status, "; ".join(health.issues), details)


async def _report(node: EmbeddedNode, report: ErrorReport) -> None:
    async with node.store.begin() as tx:
        await error_reports.record_error(tx, report)


async def _record(node: EmbeddedNode, recovery: Recovery) -> None:
    async with node.store.begin() as tx:
        await error_reports.record_recovery(tx, recovery)


async def _score(node: EmbeddedNode) -> _SystemHealthScore:
    statuses = (await node.extension(NodeSurvey).read()).values()
    nodes = [status for status in statuses if status.state is not NodeHealthState.RETIRED]
    async with node.store.read() as view:
        alerts = [alert for alert in await open_alerts(view) if rank(alert.level) >= rank("warning")]
        errors, recoveries = await error_reports.ERRORS.all(view), await error_reports.RECOVERIES.all(view)
    now, circuits = node.clock.now(), node.extension(_Memory).breaker.get_circuits()
    opened = [name for name, circuit in circuits.items() if circuit["state"] == CircuitState.OPEN]
    recent = [error for error in error_reports.recent(errors, now) if error.severity in _FAILURES]
    results = [recovery.helped for recovery in error_reports.recent(recoveries, now) if recovery.helped is not None]
    measures = score.Measures(
        nodes=sum(status.points for status in nodes) / len(nodes) if nodes else 0.0,
        circuits=score.share(len(circuits) - len(opened), len(circuits)),
        errors=score.error_measure(len(recent) + len(alerts)),
        recoveries=score.share(sum(results), len(results)),
    )
    available = sum(status.is_available for status in nodes)
    is_broken = bool(opened) or available < len(nodes) or any(rank(alert.level) >= rank("severe") for alert in alerts)
    points = score.points(measures)
    level = score.level(points, broken=is_broken, idle=not available)
    issues = _issues(nodes, alerts, opened, recent)[:_ISSUES_MAX]
    return _SystemHealthScore(points, level, msgspec.to_builtins(measures), tuple(issues))


def _issues(
    nodes: Sequence[NodeMonitoringStatus], alerts: Sequence[Alert], opened: Sequence[str], recent: Sequence[ErrorReport]
) -> list[str]:
    """The trouble, in sentences."""
    issues = [] if nodes else ["no node is running: start one with  ringrift run"]
    issues += [f"{status.node_id}: {status.message or status.state}" for status in nodes if not status.healthy]
    issues += [f"{alert.kind} {alert.subject}: {alert.detail}" for alert in alerts]
    issues += [f"{name}: its circuit is open" for name in opened]
    if recent:
        last = recent[-1]
        issues.append(f"{len(recent)} errors in the last hour, last: {last.component}: {last.error}")
    return issues
