"""What needs a person's eye, and what no longer does."""

from ringrift.events.base import Event


class Raised(Event, tag="alert.raised"):
    """Something is wrong and stays open until it is cleared.  The same kind and subject again is the same alert."""

    kind: str
    subject: str = ""
    level: str = "warning"
    """info, minor, warning, severe or critical."""
    detail: str = ""


class Cleared(Event, tag="alert.cleared"):
    """What was wrong is right again."""

    kind: str
    subject: str = ""
    detail: str = ""
