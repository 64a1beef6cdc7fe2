"""What happened to jobs."""

from typing import ClassVar

from ringrift.events.base import Event, LineEvent, MemoryEvent


class Enqueued(LineEvent, tag="work.enqueued"):
    """Jobs of one kind were asked for."""

    KEEP: ClassVar[str] = "detail"

    kind: str
    jobs: tuple[str, ...]


class Started(MemoryEvent, tag="work.started"):
    """A node began a job that it had claimed."""

    job: str
    kind: str
    variant: str
    node: str
    attempts: int


class Progressed(MemoryEvent, tag="work.progressed"):
    """A job has come further; *done* goes from 0 to 1."""

    job: str
    kind: str
    variant: str
    node: str
    done: float
    metrics: dict[str, float] = {}


class Finished(MemoryEvent, tag="work.finished"):
    """A node finished a job; what came of it is an event of its own."""

    job: str
    kind: str
    variant: str
    node: str
    seconds: float


class Failed(MemoryEvent, tag="work.failed"):
    """A try of a job ended without a result: the job is tried again, buried, or was given back."""

    job: str
    kind: str
    variant: str
    node: str
    error: str
    again: bool = True


class Buried(LineEvent, tag="work.buried"):
    """A job ran out of tries, or no try can help.  *blob* names the input at fault, if one is known."""

    job: str
    kind: str
    key: str
    error: str
    attempts: int
    blob: str | None = None


class Rescued(Event, tag="work.rescued"):
    """Leases that nobody renewed were taken back; the jobs are ready again."""

    jobs: tuple[str, ...]


class PressureChanged(Event, tag="work.pressure_changed"):
    """The queue passed a level: *none*, *soft* or *hard*."""

    level: str
    ready: int
    claimed: int
    limit: int
