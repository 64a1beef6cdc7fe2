"""Events about training."""

from ringrift.events.base import LineEvent


class Locked(LineEvent, tag="training.locked"):
    """A program holds the training lock of the line: no other program and no job trains it meanwhile."""

    node: str
    owner: str  #: The process, as other programs see it.
    fence: int


class LockTimedOut(LineEvent, tag="training.lock_timed_out"):
    """A program did not get the training lock of the line within its time."""

    node: str
    seconds: float
    owner: str = ""  #: The process that held it, if one did.
    reason: str = ""


class Finished(LineEvent, tag="training.finished", evidence=True):
    """Training produced a model, which is not verified yet.  A model without samples is generation 0."""

    model: str
    generation: int
    node: str
    samples: str | None = None
    parent: str | None = None
    metrics: dict[str, float] = {}
    job: str = ""  #: Key of the training job.
