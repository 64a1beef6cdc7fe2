"""Events about alerts: conditions that need a person's attention."""

from ringrift.events.base import Event


class Raised(Event, tag="alert.raised"):
    """A condition needs attention and stays open until it is cleared.  Kind and subject identify the alert."""

    kind: str
    subject: str = ""
    level: str = "warning"  #: info, minor, warning, severe or critical.
    detail: str = ""


class Cleared(Event, tag="alert.cleared"):
    """The condition of an alert is over."""

    kind: str
    subject: str = ""
    detail: str = ""
