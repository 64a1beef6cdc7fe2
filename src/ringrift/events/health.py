"""Events about the health of nodes, and about the breakers of nodes, stages and workloads."""

from ringrift.events.base import Event


class Changed(Event, tag="health.changed"):
    """The health of a node changed: its status is that of its worst part."""

    node: str
    status: str
    before: str
    reasons: tuple[str, ...] = ()
    profile: str = ""  #: Profile of the node.


class RecoveryStarted(Event, tag="health.recovery_started"):
    """A step of recovery began: see :mod:`ringrift.cluster.recovery` for subjects and steps."""

    subject: str
    step: str
    by: str  #: The part of the system or the person that carries the step out.
    reason: str = ""
    number: int = 1  #: Steps against this trouble so far, with this one.


class RecoveryFinished(Event, tag="health.recovery_finished"):
    """The outcome of a step of recovery: the trouble is over, or it goes on and another step is due."""

    subject: str
    step: str
    helped: bool
    by: str = ""
    reason: str = ""
    number: int = 1


class BreakerChanged(Event, tag="health.breaker_changed"):
    """A circuit breaker opened, was given one job that decides, or closed: see :mod:`ringrift.work.breakers`."""

    subject: str  #: ``node:<id>``, ``stage:<stage>`` or ``workload:<name>``.
    state: str  #: open, half_open or closed.
    before: str
    failures: int = 0  #: Failures in a row.
    error: str = ""  #: The last of them.
