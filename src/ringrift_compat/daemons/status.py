"""The status of daemons: what was started under which documented name, and the state of each now."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from ringrift.kernel.errors import UnknownName
from ringrift.kernel.health import ALIVE, ProbeResult, Status, probe
from ringrift.supervision.spec import Daemon
from ringrift.supervision.status import RESTING, DaemonStatus
from ringrift_compat.daemons.duties import DUTIES, OF_THE_BUS, Duty
from ringrift_compat.daemons.registry import DAEMON_REGISTRY
from ringrift_compat.daemons.types import DaemonInfo, DaemonState, DaemonType, state_of
from ringrift_compat.daemons.user_daemon import UserDaemon
from ringrift_compat.embedded_host import get_host
from ringrift_compat.embedded_node import EmbeddedNode

UNREGISTERED = "no daemon is registered under this name: register one with register_factory()"
_OFF = "off"
Users = Mapping[DaemonType, UserDaemon]


@dataclass(frozen=True)
class Start:
    """The manager that started a name, and whether by this name or for a profile or another daemon."""

    manager: object
    by_name: bool


class Book:
    """The work of the managers of one program on its node.  Only the loop of the node changes it."""

    def __init__(self, node: EmbeddedNode) -> None:
        self._node, self._opened = node, node.clock.tick()
        self.started: dict[DaemonType, Start] = {}
        self.users: dict[DaemonType, UserDaemon] = {}
        """User daemons that were started, by any manager."""
        self.specs: dict[DaemonType, tuple[UserDaemon, object, Daemon]] = {}
        """Their specs, with the values of the manager that governs them."""
        self.touched: set[DaemonType] = set()
        self.released: dict[DaemonType, str] = {}
        """Names that were stopped while their duty goes on for others."""
        self.reasons: dict[DaemonType, str] = {}
        """Why the last call about a name was refused."""
        self.tasks: set[asyncio.Task[None]] = set()

    def daemon(self, kind: DaemonType, users: Users) -> str | None:
        """The name of the node's daemon that does the duty of *kind*, if there is one."""
        if kind in users or kind in self.users:
            return kind.value
        duty = DUTIES.get(kind.name)
        return duty.target if duty is not None and duty.kind == "daemon" else None

    def unset(self, duty: Duty) -> str:
        """Why the daemon of *duty* would have nothing to do on this node; "" if it has."""
        value = attrgetter(duty.setting)(self._node.settings) if duty.setting else True
        if value and value != _OFF:
            return ""
        return f"the setting {duty.setting} is {value!r}, so {duty.target} does nothing: set it and open the node again"

    def status(self, daemon: str | None) -> DaemonStatus | None:
        """The status of a daemon of the node; None as long as there is none of this name."""
        host = get_host(self._node)
        if host is None or daemon is None:
            return None
        try:
            return host.supervisor.status(daemon)
        except UnknownName:
            return None

    def infos(self, users: Users) -> dict[DaemonType, DaemonInfo]:
        """The status of everything that was touched, is registered, or runs."""
        host = get_host(self._node)
        running = {status.name for status in host.supervisor.statuses() if status.state != RESTING} if host else set()
        running -= {self.daemon(kind, users) for kind in self.touched}
        others = {DaemonType[name.upper()] for name in running if name.upper() in DUTIES}
        listed = self.touched | set(users) | others
        order = dict.fromkeys([*DAEMON_REGISTRY, *users, *sorted(listed)])
        return {kind: self.info(kind, users) for kind in order if kind in listed}

    def info(self, kind: DaemonType, users: Users) -> DaemonInfo:
        """The status of one name."""
        user, spec = users.get(kind) or self.users.get(kind), DAEMON_REGISTRY.get(kind)
        reason, stopped = self.reasons.get(kind, ""), DaemonState.STOPPED
        if user is not None:
            info = DaemonInfo(kind, stopped, kind.value, user.category, user.critical, user.depends_on, reason=reason)
        elif spec is None:
            return DaemonInfo(kind, stopped, "none", reason=reason or UNREGISTERED)
        else:
            duty = spec.duty
            info = DaemonInfo(kind, stopped, duty.target, duty.category, spec.critical, spec.depends_on, reason=reason)
            if duty.kind == "part":
                return self._part(info)
            if not duty.is_done:
                state = DaemonState.IMPORT_FAILED if kind in self.touched else stopped
                return replace(info, state=state, reason=reason or duty.target, last_error=duty.target)
            if unset := self.unset(duty):
                return replace(info, reason=unset)
        if kind in self.released:
            return replace(info, reason=self.released[kind])
        status = self.status(info.duty)
        return info if status is None or status.state == RESTING else self._supervised(info, status)

    def _part(self, info: DaemonInfo) -> DaemonInfo:
        """The status of a part of every node."""
        if info.daemon_type.name not in OF_THE_BUS and get_host(self._node) is None:
            return replace(info, reason="no daemon has been started yet")
        uptime = self._node.clock.tick() - self._opened
        return replace(info, state=DaemonState.RUNNING, healthy=True, health="healthy", uptime_seconds=uptime)

    def _supervised(self, info: DaemonInfo, status: DaemonStatus) -> DaemonInfo:
        host, health = get_host(self._node), status.health
        assert host is not None
        spec = host.supervisor.spec(status.name)
        uptime = self._node.clock.now() - status.since if status.state == "running" else 0.0
        return replace(
            info,
            state=state_of(status),
            healthy=health.status is Status.HEALTHY,
            health=health.status.name.lower(),
            reason=info.reason or health.reason,
            uptime_seconds=max(0.0, uptime),
            restart_count=status.restarts,
            last_error=status.last_error,
            max_restarts=spec.restart.times,
            health_check_interval=spec.check_seconds,
        )

    def liveness(self) -> ProbeResult:
        """Whether no critical daemon is unhealthy, and the store is there."""
        host = get_host(self._node)
        if host is None:
            return ProbeResult(ok=True)
        broken = host.supervisor.broken
        if broken.done() and not broken.cancelled() and (error := broken.exception()) is not None:
            return ProbeResult(ok=False, reasons=(str(error),))
        started = [status for status in host.supervisor.statuses() if status.state != RESTING]
        return probe(host.supervisor.health(), {status.name for status in started if status.critical}, ALIVE)
