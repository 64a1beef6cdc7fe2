"""The health of a daemon, judged by its progress and never by its existence, and its one status for all readers."""

from ringrift.kernel.backoff import DEGRADED_SECONDS
from ringrift.kernel.health import Health, Status
from ringrift.kernel.value import Value

RESTING = "resting"  #: The state of a daemon that was never started.
ACTIVE = ("running", "waiting")  #: States in which the body of a daemon runs, or is about to be tried again.


class DaemonFailure(Value):
    """When a daemon failed, and with which error."""

    time: float
    error: str


class DaemonStatus(Value, omit_defaults=True):
    """Counts and times of one daemon since its node started; times are wall time, for people."""

    name: str
    health: Health
    category: str = "other"
    critical: bool = False
    state: str = "running"
    since: float = 0.0  #: When it entered this state.
    ready: bool = False
    should_run: bool = False
    disabled: bool = False  #: The settings of its node forbid it to start.
    runs: int = 0  #: Ticks, reactions, or starts of one that serves.
    failures: int = 0  #: Runs that ended with an error.
    restarts: int = 0  #: Starts after the first, whatever they were for.
    waits: int = 0  #: How often it had to wait for the store or for room on the disk: no failure of its own.
    waits_often: str = ""  #: The reason of the last wait of one that had to wait several times lately.
    stalls: int = 0  #: How often it blocked the event loop.
    last_error: str = ""
    history: tuple[DaemonFailure, ...] = ()
    """The latest failures after which it was started again or given up, the last one last."""
    pid: int | None = None  #: Process id of a program, while it runs.


LATE_TICKS = 3


class Vitals(Value):
    """The facts about one daemon from which its health follows."""

    state: str
    """resting before its first start, starting, running, pausing after a failure, waiting for the store or for room,
    stopped, or failed when it was given up."""
    progress: float | None  #: Tick of the last success, None before the first.
    started: float  #: Tick from which on a lack of progress counts.
    patience: float  #: Seconds it may go without progress.
    failures: int
    error: str = ""
    waits: str = ""  #: The reason of a wait that is not its failure.
    waits_since: float = 0.0  #: Tick of its last progress before that wait.
    left: bool = False  #: It was stopped, and still runs although its time is over.
    stall: str = ""  #: How it blocked the event loop, if it did lately.
    reports: tuple[Health, ...] = ()  #: Its own report, and the one of its check.
    disabled: bool = False  #: The settings of the node forbid it to start.

    def seconds_without_progress(self, tick: float) -> float:
        return tick - max(self.started, self.started if self.progress is None else self.progress)

    def is_hanging(self, tick: float) -> bool:
        """Whether it runs and has made no progress for longer than it may."""
        return self.state in ACTIVE and self.seconds_without_progress(tick) > self.patience


def assess(vitals: Vitals, tick: float) -> tuple[Status, str]:
    """The health of the daemon at *tick*: its status and the reason."""
    if vitals.state == "failed":
        return Status.UNHEALTHY, f"given up: {vitals.error}"
    if vitals.state == "resting":
        return Status.UNKNOWN, "disabled by settings" if vitals.disabled else "not started"
    if vitals.state == "stopped" and vitals.left:
        return Status.UNHEALTHY, "was told to stop and still runs: only a restart of the node helps"
    if vitals.state == "stopped":
        return Status.UNKNOWN, "stopped"
    if vitals.waits and tick - vitals.waits_since > DEGRADED_SECONDS:
        return Status.DEGRADED, f"waits: {vitals.waits}"
    if vitals.is_hanging(tick):
        return Status.UNHEALTHY, f"no progress for {vitals.seconds_without_progress(tick):.0f} s"
    if vitals.progress is None and vitals.failures:
        return Status.UNHEALTHY, f"fails at its start: {vitals.error}"
    if vitals.progress is None:
        return Status.UNKNOWN, "not ready yet"
    return min(_complaints(vitals), key=lambda complaint: complaint[0], default=(Status.HEALTHY, ""))


def _complaints(vitals: Vitals) -> list[tuple[Status, str]]:
    reports = [report for report in vitals.reports if report.status is not Status.HEALTHY]
    complaints = [(report.status, report.reason) for report in reports]
    if vitals.stall:
        complaints.append((Status.DEGRADED, vitals.stall))
    if vitals.failures:
        complaints.append((Status.DEGRADED, f"{vitals.failures} recent failures, last: {vitals.error}"))
    return complaints
