"""Events of parameter tuning."""

from ringrift.events.base import LineEvent


class TrialFinished(LineEvent, tag="tuning.trial_finished", for_people=True):
    """A node measured the fitness of a vector of parameters: higher is better."""

    vector: tuple[float, ...]
    fitness: float
    node: str
    job: str = ""
