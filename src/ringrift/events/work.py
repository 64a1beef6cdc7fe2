"""Events about jobs."""

from typing import ClassVar

from ringrift.events.base import Event, LineEvent, MemoryEvent, evidence, for_people


@for_people
class Enqueued(LineEvent, tag="work.enqueued"):
    """Jobs of one kind were enqueued."""

    KEEP: ClassVar[str] = "detail"

    kind: str
    jobs: tuple[str, ...]


class Started(MemoryEvent, tag="work.started"):
    """A node started a job that it had claimed."""

    job: str
    kind: str
    variant: str
    node: str
    attempts: int


class Progressed(MemoryEvent, tag="work.progressed"):
    """A job made progress; *done* goes from 0 to 1."""

    job: str
    kind: str
    variant: str
    node: str
    done: float
    metrics: dict[str, float] = {}


class Finished(MemoryEvent, tag="work.finished"):
    """A node finished a job; its result is an event of its own."""

    job: str
    kind: str
    variant: str
    node: str
    seconds: float


class Failed(MemoryEvent, tag="work.failed"):
    """An attempt at a job ended without a result: the job is retried, buried, or was returned to the queue."""

    job: str
    kind: str
    variant: str
    node: str
    error: str
    again: bool = True


@evidence
class Buried(LineEvent, tag="work.buried"):
    """A job used up its attempts, or its error is permanent.  *blob* names the input at fault, if one is known."""

    job: str
    kind: str
    key: str
    error: str
    attempts: int
    blob: str | None = None
    purpose: str = ""  #: What a match was for: see :class:`ringrift.jobs.Match`.
    candidate: str = ""  #: The first player of a match.
    target: str = ""  #: The only node that was to do it, if it was for one.


@for_people
class Rescued(Event, tag="work.rescued"):
    """Leases expired without renewal; their jobs are ready again."""

    jobs: tuple[str, ...]


@evidence
class PressureChanged(Event, tag="work.pressure_changed"):
    """The queue crossed a level of backpressure: *none*, *soft* or *hard*."""

    level: str
    ready: int
    claimed: int
    limit: int
