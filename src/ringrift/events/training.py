"""Events about training."""

from ringrift.events.base import LineEvent


class Finished(LineEvent, tag="training.finished", evidence=True):
    """Training produced a model, which is not verified yet.  A model without samples is generation 0."""

    model: str
    generation: int
    node: str
    samples: str | None = None
    parent: str | None = None
    metrics: dict[str, float] = {}
    job: str = ""  #: Key of the training job.
