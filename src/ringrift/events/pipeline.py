"""What happened to lines."""

from ringrift.events.base import LineEvent


class Opened(LineEvent, tag="pipeline.opened"):
    """Somebody wants this variant to be learnt.  Said again for an open line it changes nothing."""

    workload: str


class Moved(LineEvent, tag="pipeline.moved"):
    """A line went from one stage of its loop to the next."""

    stage: str
    before: str
