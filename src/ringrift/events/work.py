"""What happened to jobs."""

from ringrift.events.base import Event, LineEvent


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
