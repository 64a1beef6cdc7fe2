"""Params: a job's params and inputs, checked, and its heartbeat."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ringrift.workload.api import JobContext, JobSpec, Refused
from ringrift.workload.clock import Clock
from ringrift_reversi import tensors

_BEAT_SECONDS = 0.5
T = TypeVar("T")


def int_param(job: JobSpec, name: str, default: int | None, least: int, most: int) -> int:
    """The param *name*.  Raises Refused unless it is a whole number from *least* to *most*."""
    value = job.params.get(name, default)
    if type(value) is not int or not least <= value <= most:
        raise Refused(f"{job.stage} needs {name} from {least} to {most}, not {value!r:.80}")
    return value


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


def only_input(job: JobSpec, role: str) -> str:
    """The one blob of *role*.  Raises Refused if there are more or fewer."""
    blobs = job.inputs.get(role, ())
    if len(blobs) != 1:
        raise Refused(f"{job.stage} needs exactly one {role}, not {len(blobs)}")
    return blobs[0]


def read_input(ctx: JobContext, role: str, blob: str, bytes_max: int, decode: Callable[[bytes], T]) -> T:
    """*blob*, decoded.  Raises Refused, which names it, if *decode* raises ValueError."""
    try:
        return decode(tensors.read(ctx.open_input(blob), bytes_max))
    except ValueError as error:
        raise Refused(f"{role} {blob[:12]} is refused: {error}", blob) from error


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
