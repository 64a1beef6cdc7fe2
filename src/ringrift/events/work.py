"""Events about jobs."""

from typing import Any

from ringrift.events.base import Event, JobEvent, LineEvent

GIVEN_BACK = ("stopped", "lost")  #: Causes of an end that says nothing about the job.


class Enqueued(LineEvent, tag="work.enqueued", for_people=True, keep="detail"):
    """Jobs of one kind were enqueued."""

    kind: str
    jobs: tuple[str, ...]
    purpose: str = ""  #: What they are for: see :func:`ringrift.jobs.purpose_of`.


class Cancelled(LineEvent, tag="work.cancelled", keep="detail"):
    """Live jobs of one kind were cancelled because nothing needs their results any more."""

    kind: str
    jobs: tuple[str, ...]
    purpose: str = ""


class Started(JobEvent, tag="work.started"):
    """A node started a job that it had claimed."""

    attempts: int
    resumed: bool = False  #: Whether it goes on from the checkpoint of an earlier holder.


class Progressed(JobEvent, tag="work.progressed"):
    """A job made progress; *done* goes from 0 to 1."""

    done: float
    metrics: dict[str, float] = {}
    before: dict[str, float] = {}  #: The metrics of the event before this one.
    first: bool = False  #: Whether it is the first sign of life of its worker.
    checkpoint: str = ""  #: The blob from which another node could go on, if one was registered just now.


class Finished(JobEvent, tag="work.finished"):
    """A node finished a job; its result is an event of its own."""

    seconds: float


class Failed(JobEvent, tag="work.failed"):
    """An attempt at a job ended without a result: the job is retried, buried, or was returned to the queue."""

    error: str
    again: bool = True
    attempt: int = 0
    seconds: float = 0.0
    traceback: str = ""  #: Its end, with file and line of every frame, where the workload raised; else empty.
    cause: str = "error"
    """*error*, *spawn* (no worker could be started), *child_died*, *timeout* (past the deadline), *silent* (no
    progress), *no_room*, *away* (an input's disk is not there), *folder_away* (its own is not), *busy* (the store was),
    *stopped* (given back) or *lost* (another node holds it now, or it was cancelled).  After *spawn*, *no_room* and the
    last five no try is used up."""


class Buried(LineEvent, tag="work.buried", evidence=True):
    """A job used up its attempts, or its error is permanent.  *blob* names the input at fault, if one is known."""

    job: str
    kind: str
    key: str
    error: str
    attempts: int
    blob: str | None = None
    purpose: str = ""  #: What it was for: see :func:`ringrift.jobs.purpose_of`.
    candidate: str = ""  #: The first player of a match.
    target: str = ""  #: The only node that was to do it, if it was for one.
    traceback: str = ""  #: Of the last attempt: see :class:`Failed`.
    cause: str = "error"  #: Of the last attempt; *refused*: by the workload; *cancelled*: by a person.


class Rescued(Event, tag="work.rescued", for_people=True):
    """Leases expired without renewal; their jobs are ready again."""

    jobs: tuple[str, ...]


class PressureChanged(Event, tag="work.pressure_changed", evidence=True):
    """A queue came to another level of pressure: see :mod:`ringrift.work.pressure`."""

    queue: str = ""
    level: str
    before: str = ""
    depth: int = 0  #: Items that wait.
    drain_seconds: float | None = None  #: How long the queue takes to drain, where a rate is known.
    limit: int  #: Where the level *stop* begins: seconds if *drain_seconds* is known, otherwise items.
    backpressure: str = ""  #: *activated* if it came to *hard* or above, *released* if it fell below; else empty.
    ready: int = 0  #: Of events from when all queues were one, as the next.
    claimed: int = 0


class RunStateChanged(Event, tag="work.run_state_changed", evidence=True):
    """A scope was paused, drained, stopped or resumed: see :mod:`ringrift.work.run_states`."""

    scope: str
    state: str
    before: str
    reason: str = ""
    by: str = ""
    until: float | None = None


class TaskChanged(Event, tag="work.task_changed", evidence=True, for_people=True):
    """A task of a program got a place or ended: see :mod:`ringrift.work.tasks`."""

    task: str
    kind: str  #: The type of the task.
    node: str
    state: str  #: *running*, *completed*, *failed*, *cancelled*, *timed_out* or *orphaned*.
    seconds: float = 0.0  #: How long it ran.
    reason: str = ""
    variant: str = ""
    metadata: dict[str, Any] = {}
