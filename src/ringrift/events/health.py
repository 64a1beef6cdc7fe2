"""How parts of the system are."""

from ringrift.events.base import Event


class Changed(Event, tag="health.changed"):
    """A node became better or worse: its status is that of its worst part."""

    node: str
    status: str
    before: str
    reasons: tuple[str, ...] = ()
