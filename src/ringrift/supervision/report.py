"""DaemonReport: what is known of one daemon, as a value for people and programs."""

from ringrift.kernel.health import Health
from ringrift.kernel.value import Value

HISTORY_MAX = 20
"""Failures of a daemon that are remembered, the latest last."""


class Ending(Value):
    """One failure: when, and with which error."""

    time: float
    error: str


class DaemonReport(Value):
    """Counts and moments of one daemon since its node started; moments are wall time, for people."""

    name: str
    category: str
    critical: bool
    group: str
    state: str
    since: float
    """From when on it has been in this state."""
    health: Health
    ready: bool
    wanted: bool = False
    """Whether it is to run."""
    runs: int = 0
    """Ticks, reactions, or starts of one that serves."""
    failures: int = 0
    """Runs that ended with an error."""
    restarts: int = 0
    """Starts after the first, whatever they were for."""
    waits: int = 0
    """How often it had to wait for room on the disk: no failure of its own."""
    stalls: int = 0
    """How often it held up the event loop."""
    last_error: str = ""
    last_error_time: float | None = None
    last_success: float | None = None
    last_seconds: float | None = None
    """How long the last run took."""
    history: tuple[Ending, ...] = ()
    """Failures after which it was started again or given up."""
    pid: int | None = None
    """Of a program, while it runs."""
