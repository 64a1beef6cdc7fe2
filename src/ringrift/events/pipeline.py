"""What happened to lines."""

from ringrift.events.base import LineEvent


class Opened(LineEvent, tag="pipeline.opened"):
    """Somebody wants this variant to be learnt.  Said again for an open line it changes nothing."""

    workload: str


class Moved(LineEvent, tag="pipeline.moved"):
    """A line went from one stage of its loop to the next."""

    stage: str
    before: str


class Requested(LineEvent, tag="pipeline.requested"):
    """Somebody asked for a stage out of turn.  The gates decide, and their verdict is kept."""

    stage: str
    reason: str = ""


class Overdue(LineEvent, tag="pipeline.overdue"):
    """A line has been in one stage for longer than that stage should take."""

    stage: str
    seconds: float
    limit: float
