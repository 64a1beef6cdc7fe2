"""Params: a job's params, checked, and its heartbeat; ``ringrift.workload.kit`` has those of whole numbers."""

from dataclasses import dataclass, field

from ringrift.workload.api import JobContext, JobSpec, Refused
from ringrift.workload.clock import Clock

_BEAT_SECONDS = 0.5


def float_param(job: JobSpec, name: str, default: float, least: float, most: float) -> float:
    """The param *name*.  Raises Refused unless it is a number from *least* to *most*."""
    value = job.params.get(name, default)
    if isinstance(value, str | bool | None) or not least <= value <= most:
        raise Refused(f"{job.stage} needs {name} from {least:g} to {most:g}, not {value!r:.80}")
    return float(value)


def choice_param(job: JobSpec, name: str, choices: tuple[str, ...]) -> str:
    """The param *name*, by default the first of *choices*.  Raises Refused if it is none of them."""
    value = job.params.get(name, choices[0])
    if not isinstance(value, str) or value not in choices:
        raise Refused(f"{job.stage} needs {name} as one of {', '.join(choices)}, not {value!r:.80}")
    return value


@dataclass(slots=True)
class Heartbeat:
    """The job's heartbeat: long work calls it often, and it reaches the node twice a second at most."""

    ctx: JobContext
    clock: Clock
    done: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    _last: float | None = None

    def __call__(self) -> None:
        """Report the progress if the last report is old enough."""
        now = self.clock.tick()
        if self._last is None or now - self._last >= _BEAT_SECONDS:
            self._last = now
            self.ctx.heartbeat(min(1.0, self.done), **self.metrics)
