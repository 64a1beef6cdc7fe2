"""The daemons of a node as its heartbeat reports them: one status each, shortened, and the node's health by them."""

from collections.abc import Iterable

from ringrift.kernel.errors import printable
from ringrift.kernel.health import ALIVE, READY, Health, ProbeResult, Status, probe
from ringrift.kernel.value import Value, changed
from ringrift.supervision.status import RESTING, DaemonStatus

_STATUSES_MAX = 64  # daemons that one heartbeat lists; of more than that the critical ones and the worst
REASON_CHARACTERS_MAX, ERROR_CHARACTERS_MAX = 160, 120
_UNUSABLE = "unusable"  # the state of a plug-in that could not be loaded, or of a handler in trouble


class DaemonSummary(Value, omit_defaults=True):
    """The daemons of a node."""

    statuses: tuple[DaemonStatus, ...] = ()
    more: int = 0  # daemons beyond those

    @property
    def running(self) -> int:
        return self.more + sum(status.state == "running" for status in self.statuses)

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the daemons that ended with an error and have not started again."""
        return tuple(status.name for status in self.statuses if status.state in ("failed", "pausing", "waiting"))

    @property
    def disabled(self) -> tuple[str, ...]:
        """Names of the daemons that the settings of the node forbid to start."""
        return tuple(sorted(status.name for status in self.statuses if status.disabled))

    def names(self) -> list[str]:
        return [status.name for status in self.statuses if status.state != _UNUSABLE]

    def health(self) -> list[Health]:
        """The health of every daemon that was ever started and of every plug-in that could not be loaded."""
        return [status.health for status in self._started()]

    def liveness(self) -> ProbeResult:
        """Whether no critical daemon is unhealthy; false if none is listed."""
        return self._probe(ALIVE)

    def readiness(self) -> ProbeResult:
        """Whether every critical daemon works; false if none is listed."""
        return self._probe(READY)

    def _probe(self, required: Status) -> ProbeResult:
        critical = {status.name for status in self._started() if status.critical}
        none = ProbeResult(ok=False, reasons=("reports no critical daemon",))
        return probe(self.health(), critical, required) if critical else none

    def _started(self) -> list[DaemonStatus]:
        return [status for status in self.statuses if status.state != RESTING]


def summarize(reports: Iterable[DaemonStatus], health: Iterable[Health] = ()) -> DaemonSummary:
    """Shorten *reports*; a part of *health* that has no report is a plug-in that could not be loaded."""
    statuses = [_shorten(report) for report in reports]
    names = {status.name for status in statuses}
    broken = [DaemonStatus(name=part.part, state=_UNUSABLE, health=part) for part in health if part.part not in names]
    statuses += map(_shorten, broken)
    worst_first = sorted(statuses, key=lambda status: (not status.critical, status.health.status))
    listed = {status.name for status in worst_first[:_STATUSES_MAX]}
    first = tuple(status for status in statuses if status.name in listed)
    return DaemonSummary(statuses=first, more=len(statuses) - len(listed))


def _shorten(status: DaemonStatus) -> DaemonStatus:
    health = changed(status.health, reason=printable(status.health.reason, REASON_CHARACTERS_MAX))
    return changed(status, health=health, last_error=printable(status.last_error, ERROR_CHARACTERS_MAX), history=())
