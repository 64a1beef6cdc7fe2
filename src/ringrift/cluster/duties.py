"""Duties: what a node says of its daemons with every beat, few words for each, and how the node is by that."""

from collections.abc import Iterable, Sequence

from ringrift.kernel.errors import told
from ringrift.kernel.health import Answer, Health, Status, liveness, readiness
from ringrift.kernel.value import Value
from ringrift.supervision.report import DaemonReport
from ringrift.supervision.unit import RESTING

DUTIES_MAX = 64
"""Daemons that go with a beat; of more than that the critical ones and the worst."""
REASON_CHARACTERS_MAX, ERROR_CHARACTERS_MAX = 160, 120
UNUSABLE = "unusable"
"""The state of a plug-in that could not be loaded."""


class Duty(Value, omit_defaults=True):
    """One daemon of a node, as it goes with a beat."""

    name: str
    category: str = "other"
    critical: bool = False
    state: str = "running"
    status: str = "healthy"
    """A word for its health; one that this version does not have is unknown."""
    reason: str = ""
    since: float | None = None
    """Wall time from which on its health has been like this."""
    runs: int = 0
    failures: int = 0
    restarts: int = 0
    error: str = ""
    """The last one, shortened."""

    @property
    def health(self) -> Health:
        """How it is."""
        status = Status.__members__.get(self.status.upper(), Status.UNKNOWN)
        return Health(part=self.name, status=status, reason=self.reason, since=self.since)


class Duties(Value, omit_defaults=True):
    """The daemons of a node."""

    shown: tuple[Duty, ...] = ()
    more: int = 0
    """Daemons beyond those."""

    def names(self) -> list[str]:
        """Of those that an order can be given to."""
        return [duty.name for duty in self.shown if duty.state != UNUSABLE]

    def health(self) -> list[Health]:
        """How every daemon is that was ever started, and every plug-in that is not there."""
        return [duty.health for duty in self._begun()]

    def liveness(self) -> Answer:
        """Whether no critical daemon is unhealthy; false where nothing is said of any."""
        return self._answer(liveness(self.health(), self._critical()))

    def readiness(self) -> Answer:
        """Whether every critical daemon works; false where nothing is said of any."""
        return self._answer(readiness(self.health(), self._critical()))

    def _answer(self, found: Answer) -> Answer:
        return found if self._critical() else Answer(ok=False, reasons=("says nothing of its critical daemons",))

    def _begun(self) -> list[Duty]:
        return [duty for duty in self.shown if duty.state != RESTING]

    def _critical(self) -> frozenset[str]:
        return frozenset(duty.name for duty in self._begun() if duty.critical)


def duties(reports: Iterable[DaemonReport], health: Iterable[Health] = ()) -> Duties:
    """What is said of *reports*; parts of *health* that none of them is about are plug-ins that cannot be used."""
    found = [_duty(report) for report in reports]
    names = {duty.name for duty in found}
    found += [_unusable(one) for one in health if one.part not in names]
    if len(found) <= DUTIES_MAX:
        return Duties(shown=tuple(found))
    return Duties(shown=_chosen(found), more=len(found) - DUTIES_MAX)


def _chosen(found: Sequence[Duty]) -> tuple[Duty, ...]:
    first = sorted(found, key=lambda duty: (not duty.critical, duty.health.status))[:DUTIES_MAX]
    names = {duty.name for duty in first}
    return tuple(duty for duty in found if duty.name in names)


def _duty(report: DaemonReport) -> Duty:
    return Duty(
        name=report.name, category=report.category, critical=report.critical, state=report.state,
        status=report.health.status.name.lower(), reason=told(report.health.reason, REASON_CHARACTERS_MAX),
        since=report.health.since, runs=report.runs, failures=report.failures, restarts=report.restarts,
        error=told(report.last_error, ERROR_CHARACTERS_MAX),
    )  # fmt: skip


def _unusable(health: Health) -> Duty:
    reason = told(health.reason, REASON_CHARACTERS_MAX)
    status = health.status.name.lower()
    return Duty(name=health.part, state=UNUSABLE, status=status, reason=reason, since=health.since)
