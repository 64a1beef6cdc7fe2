"""The documented health manager: errors and recoveries that the core acts upon, and the one health in percent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ringrift.cluster import recovery as rules
from ringrift.cluster.recovery import ASK, BY_OTHERS, ERRORS, RECOVERIES, STORED_MAX, Attempt, ErrorReport, Recovery
from ringrift.kernel.errors import InputError, printable, require_name
from ringrift.kernel.value import changed
from ringrift.store.ports import Reads, Tx
from ringrift.work.run_states import load_run_states
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.health.protocols import UNREAD, CoordinatorStatus, HealthCheckResult
from ringrift_compat.health.survey import read_system_health
from ringrift_compat.types import RecoveryAction

_SEVERITIES = ("info", "warning", *rules.FAILURES)
_STATUSES = {"healthy": CoordinatorStatus.RUNNING, "degraded": CoordinatorStatus.DEGRADED}
_JOB_ACTIONS = {RecoveryAction.RESTART_JOB: rules.RETRY, RecoveryAction.KILL_JOB: rules.RESTART_CHILD}
_NODE_ACTIONS = {
    RecoveryAction.RESTART_NODE_SERVICES: rules.RESTART_DAEMON,
    RecoveryAction.REMOVE_NODE: rules.QUARANTINE,
    RecoveryAction.ESCALATE_HUMAN: ASK,
}
_STEPS = _JOB_ACTIONS | _NODE_ACTIONS
"""Documented action → the step of the core that it is; any other action counts as an attempt of its own."""
_ACTIONS = {step: action for action, step in _STEPS.items()}
_KINDS = ("node", "job")
_NAME_CHARACTERS_MAX, _ERROR_CHARACTERS_MAX = 200, 500
_DELETED_MAX = 100  # how many errors are deleted at once: two programs may have added some at the same time


@dataclass(frozen=True)
class _SystemHealthScore:
    """The health of the system from 0 to 100, the word for it, and what it is made of; true only when healthy."""

    score: float
    level: str
    """healthy, degraded, unhealthy or critical."""
    components: Mapping[str, float] = field(default_factory=dict)
    """The parts of the system, each from 0 to 1."""
    issues: Sequence[str] = ()

    def __bool__(self) -> bool:
        return self.level == "healthy"


class UnifiedHealthManager:
    """Errors and recoveries that are stored, where the core acts upon them, and the health that they lead to."""

    @classmethod
    def get_instance(cls) -> "UnifiedHealthManager":
        """A manager like any other: all of them share what the store has."""
        return cls()

    def record_error(self, component: str, error: object, severity: str = "error", node_id: str = "") -> None:
        """Record that *component* failed: several failures in a row open its circuit.  Raises what writing raises."""
        require_name("severity", severity, _SEVERITIES)
        text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error)
        node = embedded.node()
        embedded.call(_report(node, component, text or "no text", severity, node_id or node.settings.node.id))

    def record_success(self, component: str) -> None:
        """Record that *component* works, which closes its circuit."""
        if self.is_circuit_open(component):
            node = embedded.node()
            embedded.call(_report(node, component, "", "info", node.settings.node.id))

    def is_circuit_open(self, component: str) -> bool:
        """Whether *component* failed so often in a row that it should not be tried for a while."""
        return component in embedded.query(_failing_components)

    def get_recovery_action(self, target: str, kind: str = "node") -> RecoveryAction:
        """The step that the core takes next with *target*, a node or job: NONE while it rests, a person at the end."""
        if kind not in _KINDS:
            raise InputError(f"a {kind!r} cannot be recovered: kind must be node or job")
        subject, node = f"{kind}:{target}", embedded.node()

        async def read(view: Reads) -> Sequence[Attempt]:
            recovery = await RECOVERIES.get(view, subject)
            return recovery.attempts if recovery else ()

        attempts = embedded.query(read)
        # The desk retries the jobs of a node and the runner restarts its children without being asked.
        step = rules.next_step(subject, attempts, BY_OTHERS if kind == "node" else ())
        if step in (None, ASK):
            return RecoveryAction.ESCALATE_HUMAN
        rest = node.settings.cluster.heal_rest_seconds
        is_resting = bool(attempts) and node.clock.now() - attempts[-1].time < rest
        return RecoveryAction.NONE if is_resting else _ACTIONS[step]

    def record_recovery_attempt(
        self, target: str, action: RecoveryAction | str, success: bool | None = None, detail: str = ""
    ) -> None:
        """Record what was tried with *target*, and whether it helped, if that is known: the core goes on from there."""
        member, node = RecoveryAction(action), embedded.node()
        subject = f"{'job' if member in _JOB_ACTIONS else 'node'}:{target}"
        step = _STEPS.get(member, member.value)
        now, by = node.clock.now(), node.settings.node.id
        embedded.call(_record(node, subject, Attempt(step=step, by=by, time=now, helped=success, detail=detail)))

    def get_system_health(self) -> _SystemHealthScore:
        """The health of the system; critical with 0 points if the store cannot be read."""
        health = read_system_health()
        level = "critical" if health.is_critical else health.status.name.lower()
        components = {part.part: part.points for part in health.parts}
        return _SystemHealthScore(round(100 * health.score, 2), level, components, tuple(health.reasons()))

    def should_pause_pipeline(self) -> bool:
        """Whether the loop is paused, or is about to be because health is critical; it resumes by itself."""
        try:
            return embedded.query(_is_braked) or read_system_health().is_critical
        except UNREAD:
            return True

    def health_check(self) -> HealthCheckResult:
        """The same as a result."""
        health = self.get_system_health()
        details: dict[str, Any] = {"score": health.score, "level": health.level, **health.components}
        status = _STATUSES.get(health.level, CoordinatorStatus.ERROR)
        return HealthCheckResult(bool(health), status, "; ".join(health.issues), details)


async def _report(node: EmbeddedNode, component: str, error: str, severity: str, where: str) -> None:
    id, now, tick = node.ids.next(), node.clock.now(), node.clock.tick()
    report = ErrorReport(id=id, component=component, error=error, severity=severity, node=where, time=now, tick=tick)
    async with node.store.begin() as tx:
        await _record_error(tx, report)


async def _record(node: EmbeddedNode, subject: str, attempt: Attempt) -> None:
    async with node.store.begin() as tx:
        await _record_attempt(tx, subject, attempt)


async def _record_error(tx: Tx, report: ErrorReport) -> None:
    """Store *report* and delete the oldest ones."""
    component = printable(report.component, _NAME_CHARACTERS_MAX)
    error = printable(report.error, _ERROR_CHARACTERS_MAX)
    await ERRORS.put(tx, [changed(report, component=component, error=error)])
    ids = list(await ERRORS.scan(tx, limit=STORED_MAX + _DELETED_MAX))
    await ERRORS.delete(tx, ids[: max(len(ids) - STORED_MAX, 0)])


async def _record_attempt(tx: Tx, subject: str, attempt: Attempt) -> None:
    """Store a step that a program or a person took: the ladder goes on behind it."""
    before = await RECOVERIES.get(tx, subject)
    recovery = before or Recovery(subject=subject, error=attempt.detail, since=attempt.time)
    await RECOVERIES.put(tx, [recovery.with_attempt(attempt)])


async def _failing_components(view: Reads) -> Mapping[str, ErrorReport]:
    return rules.failing_components(await rules.recent_errors(view, embedded.node().clock.tick()))


async def _is_braked(view: Reads) -> bool:
    return (await load_run_states(view)).find(now=embedded.node().clock.now()) is not None
