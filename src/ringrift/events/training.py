"""What happened in training."""

from ringrift.events.base import LineEvent


class Finished(LineEvent, tag="training.finished"):
    """A model came out of training; nobody has vouched for it yet.  Without samples it is generation 0."""

    model: str
    generation: int
    node: str
    samples: str | None = None
    parent: str | None = None
    metrics: dict[str, float] = {}
    job: str = ""
    """Key of the job that did it."""
