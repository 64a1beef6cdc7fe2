"""Events about the health of nodes."""

from ringrift.events.base import Event


class Changed(Event, tag="health.changed"):
    """The health of a node changed: its status is that of its worst part."""

    node: str
    status: str
    before: str
    reasons: tuple[str, ...] = ()
