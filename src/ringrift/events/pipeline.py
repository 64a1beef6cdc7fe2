"""Events about lines: the training loop of one variant each."""

from ringrift.events.base import LineEvent


class Opened(LineEvent, tag="pipeline.opened"):
    """A line was requested for this variant.  For a line that is open already it changes nothing."""

    workload: str


class Moved(LineEvent, tag="pipeline.moved", evidence=True):
    """A line moved from one stage of its loop to the next."""

    stage: str
    before: str
    late: bool = False  #: Whether it was in the stage before for longer than that should take.
    requested: bool = False  #: Whether an operator requested it out of turn.


class Requested(LineEvent, tag="pipeline.requested"):
    """A stage was requested out of turn.  The gates decide, and their verdict is stored."""

    stage: str
    reason: str = ""


class Overdue(LineEvent, tag="pipeline.overdue"):
    """A line has been in one stage for longer than that stage should take."""

    stage: str
    seconds: float
    limit: float
