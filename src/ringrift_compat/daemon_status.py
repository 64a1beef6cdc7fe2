"""Daemon status: what was started under which old name, and how each of them is now."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ringrift.kernel.errors import UnknownName
from ringrift.kernel.health import Answer, Status
from ringrift.supervision.report import DaemonReport
from ringrift.supervision.spec import Daemon
from ringrift.supervision.unit import RESTING
from ringrift_compat.ambient import Embedded
from ringrift_compat.daemon_duties import DUTIES, OF_THE_BUS, Duty
from ringrift_compat.daemon_own import Own
from ringrift_compat.daemon_registry import DAEMON_REGISTRY
from ringrift_compat.daemon_types import DaemonInfo, DaemonState, DaemonType, state_of
from ringrift_compat.hosting import hosted

KEPT = "daemons"
UNKNOWN = "nothing is registered under this name: register_factory() does"
UNTOUCHABLE: frozenset[DaemonType] = frozenset(
    DaemonType[name] for name, duty in DUTIES.items() if duty.kind == "part" or name == duty.target.upper()
)
"""Names that nobody can register a factory for: parts of every node, and our own daemons."""


class Probe(Answer):
    """What a probe answers: true only when it is so.  The documented fields can be read by name."""

    timestamp: float = 0.0
    uptime_seconds: float = 0.0

    @property
    def alive(self) -> bool:
        """As its truth."""
        return self.ok

    ready = alive

    def __getitem__(self, field: str) -> Any:
        if field not in ("alive", "ready", *self.__struct_fields__):
            raise KeyError(field)
        return getattr(self, field)

    def get(self, field: str, default: Any = None) -> Any:
        """The field of that name, or *default*."""
        return self[field] if field in ("alive", "ready", *self.__struct_fields__) else default


@dataclass(frozen=True)
class Begun:
    """Who started a name, and whether by this name or with a profile, or for another daemon that depends on it."""

    manager: object
    by_name: bool


class Book:
    """What managers have done on one node, for as long as it is open.  Only the ambient loop changes it."""

    def __init__(self, node: Embedded) -> None:
        self._node, self._opened = node, node.clock.tick()
        self.begun: dict[DaemonType, Begun] = {}
        self.own: dict[DaemonType, Own] = {}
        self.declared: dict[DaemonType, tuple[Own, object, Daemon]] = {}
        self.touched: set[DaemonType] = set()
        self.let_go: dict[DaemonType, str] = {}
        """Names that were stopped while their duty goes on for others."""
        self.tasks: set[asyncio.Task[None]] = set()
        """What goes on when nobody waits for it."""
        self.reasons: dict[DaemonType, str] = {}
        """Why the last wish about a name was not granted."""

    @classmethod
    def of(cls, node: Embedded) -> "Book":
        """That of *node*."""
        found: Book = node.kept.get(KEPT) or node.kept.setdefault(KEPT, cls(node))
        return found

    def unit(self, kind: DaemonType, own: Mapping[DaemonType, Own]) -> str | None:
        """The daemon of the node that does the duty of *kind*, if one does."""
        if kind in own or kind in self.own:
            return kind.value
        duty = DUTIES.get(kind.name)
        return duty.target if duty is not None and duty.kind == "daemon" else None

    def report(self, unit: str | None) -> DaemonReport | None:
        """How a daemon of the node is; None as long as there is no such one."""
        whole = hosted(self._node)
        if whole is None or unit is None:
            return None
        try:
            return whole.supervisor.report(unit)
        except UnknownName:
            return None

    def infos(self, own: Mapping[DaemonType, Own]) -> dict[DaemonType, DaemonInfo]:
        """What is known of everything that was touched, is registered, or runs."""
        whole = hosted(self._node)
        running = [one.name for one in whole.supervisor.reports() if one.state != RESTING] if whole else []
        known = {self.unit(kind, own) for kind in self.touched}
        others = {DaemonType[name.upper()] for name in running if name not in known and name.upper() in DUTIES}
        listed = self.touched | set(own) | others
        order = [*DAEMON_REGISTRY, *own, *sorted(listed)]
        return {kind: self.info(kind, own) for kind in dict.fromkeys(order) if kind in listed}

    def info(self, kind: DaemonType, own: Mapping[DaemonType, Own]) -> DaemonInfo:
        """What is known of one name."""
        mine, duty = own.get(kind) or self.own.get(kind), DUTIES.get(kind.name)
        if mine is None and duty is None:
            return DaemonInfo(kind, DaemonState.STOPPED, "nobody", reason=self.reasons.get(kind, UNKNOWN))
        if mine is None and duty is not None and duty.kind != "daemon":
            return self._without_unit(kind, duty)
        unit = self.unit(kind, own)
        assert unit is not None
        spec = DAEMON_REGISTRY.get(kind)
        depends_on = mine.depends_on if mine else spec.depends_on if spec else ()
        plain = DaemonInfo(
            kind, DaemonState.STOPPED, unit, depends_on=depends_on, reason=self.reasons.get(kind, ""),
            category=mine.category if mine else duty.category if duty else "other",
            critical=mine.critical if mine else bool(spec and spec.critical),
        )  # fmt: skip
        report = self.report(unit)
        if kind in self.let_go:
            return _changed(plain, reason=self.let_go[kind])
        return plain if report is None or report.state == RESTING else self._from_report(plain, unit, report)

    def _without_unit(self, kind: DaemonType, duty: Duty) -> DaemonInfo:
        """What is known of a part of every node, or of what is not built yet."""
        reason, needs = self.reasons.get(kind, ""), DAEMON_REGISTRY[kind].depends_on
        if duty.kind == "later":
            state = DaemonState.IMPORT_FAILED if kind in self.touched else DaemonState.STOPPED
            return DaemonInfo(
                kind, state, duty.target, duty.category, depends_on=needs, reason=reason or duty.target,
                last_error=duty.target, import_error=duty.target,
            )  # fmt: skip
        if kind.name not in OF_THE_BUS and hosted(self._node) is None:
            return DaemonInfo(kind, DaemonState.STOPPED, duty.target, duty.category, reason="nothing was started yet")
        uptime = self._node.clock.tick() - self._opened
        return DaemonInfo(
            kind, DaemonState.RUNNING, duty.target, duty.category, depends_on=needs, healthy=True, health="healthy",
            reason=reason, started_at=self._node.clock.now() - uptime, uptime_seconds=uptime,
        )  # fmt: skip

    def _from_report(self, plain: DaemonInfo, unit: str, report: DaemonReport) -> DaemonInfo:
        whole, state = hosted(self._node), state_of(report)
        assert whole is not None
        declared = whole.supervisor.spec(unit)
        since = report.since if report.state == "running" else None
        return _changed(
            plain, state=state, healthy=report.health.status is Status.HEALTHY,
            health=report.health.status.name.lower(), reason=plain.reason or report.health.reason, started_at=since,
            uptime_seconds=0.0 if since is None else max(0.0, self._node.clock.now() - since),
            restart_count=report.restarts, last_error=report.last_error, last_error_time=report.last_error_time,
            auto_restart=declared.restart.times > 0, max_restarts=declared.restart.times,
            health_check_interval=declared.look_seconds,
        )  # fmt: skip

    def liveness(self) -> Probe:
        """Whether no critical daemon is unhealthy, and the store is there."""
        whole = hosted(self._node)
        if whole is None:
            return self._probe(Answer(ok=True))
        broken = whole.supervisor.broken
        if broken.done() and not broken.cancelled() and (gone := broken.exception()) is not None:
            return self._probe(Answer(ok=False, reasons=(str(gone),)))
        return self._probe(whole.supervisor.liveness())

    def readiness(self) -> Probe:
        """Whether something was started, and every critical daemon is known to work."""
        whole = hosted(self._node)
        if whole is None:
            return self._probe(Answer(ok=False, reasons=("nobody has started a daemon",)))
        alive = self.liveness()
        return self._probe(whole.supervisor.readiness()) if alive else alive

    def _probe(self, answer: Answer) -> Probe:
        uptime = self._node.clock.tick() - self._opened
        return Probe(ok=answer.ok, reasons=answer.reasons, timestamp=self._node.clock.now(), uptime_seconds=uptime)


def _changed(info: DaemonInfo, **fields: Any) -> DaemonInfo:
    return DaemonInfo(**{**info.__dict__, **fields})


def health_of(info: DaemonInfo) -> dict[str, Any]:
    """The documented health of one daemon."""
    return {
        "healthy": info.healthy, "state": info.state.value, "status": info.health, "message": info.reason,
        "reason": info.reason, "critical": info.critical, "category": info.category,
        "uptime_seconds": info.uptime_seconds, "restart_count": info.restart_count, "last_error": info.last_error,
    }  # fmt: skip


def summary(infos: Mapping[DaemonType, DaemonInfo]) -> dict[str, Any]:
    """Counts over many daemons."""
    states = [info.state for info in infos.values()]
    return {
        "total": len(states), "running": sum(info.is_running for info in infos.values()),
        "failed": states.count(DaemonState.FAILED), "stopped": states.count(DaemonState.STOPPED),
        "not_yet": states.count(DaemonState.IMPORT_FAILED),
        "by_state": {state.value: states.count(state) for state in DaemonState if state in states},
        "restarts": sum(info.restart_count for info in infos.values()),
        "healthy": sum(info.healthy for info in infos.values()),
    }  # fmt: skip
