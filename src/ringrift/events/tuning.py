"""Events of parameter tuning."""

from ringrift.events.base import LineEvent, for_people


@for_people
class TrialFinished(LineEvent, tag="tuning.trial_finished"):
    """A node measured the fitness of a vector of parameters: higher is better."""

    vector: tuple[float, ...]
    fitness: float
    node: str
    job: str = ""
