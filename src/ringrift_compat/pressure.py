"""The documented backpressure: the levels of the loop's queues, measured from the store at every question."""

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from ringrift.pipeline.records import lines
from ringrift.work import pressure
from ringrift.work.pressure import BOUNDS, Depth
from ringrift_compat.ambient import Embedded, ambient
from ringrift_compat.health import UNREAD, CoordinatorStatus, HealthCheckResult
from ringrift_compat.levels import BackpressureLevel, QueueType

KEPT = "pressure"
SAMPLE_SECONDS_MIN = 5.0
"""Between depths that are remembered for the trend."""
SAMPLES_MAX = int(pressure.TREND_SECONDS_MAX / SAMPLE_SECONDS_MIN) + 1
JOBS_LOOKED_AT_MAX = 1000
"""Jobs that wait, the oldest first, among which the oldest of a queue is looked for."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class QueueStatus:
    """How one queue is: what waits in it, against which limits, and where it is going."""

    queue_type: QueueType
    current_depth: int | None
    """None if the store could not be read."""
    backpressure: BackpressureLevel
    soft_limit: int
    hard_limit: int
    target_depth: int
    throttle_factor: float
    trend: str = "unknown"
    """rising, falling or stable against five to ten minutes ago, unknown if this program did not look then."""
    estimated_drain_seconds: float | None = None
    """Until it stands at its target at its usual pace."""
    oldest_seconds: float | None = None
    """How long the oldest of its jobs has waited, where jobs wait in it."""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain words and numbers."""
        return asdict(self) | {"queue_type": self.queue_type.value, "backpressure": self.backpressure.value}


class QueueMonitor:
    """The queues as the store has them.  It keeps nothing but a few depths, for the trend."""

    def check_backpressure(self, queue_type: QueueType | str | None = None) -> BackpressureLevel:
        """How hard the queue presses back; of all queues, the hardest.  A stop if the store cannot be read."""
        depths = _depths()
        wanted = list(QueueType) if queue_type is None else [QueueType(queue_type)]
        return BackpressureLevel(pressure.hardest(_level(queue, depths) for queue in wanted))

    get_backpressure_level = check_backpressure

    def should_throttle(self, queue_type: QueueType | str | None = None) -> bool:
        """Whether production for the queue is to slow down."""
        return self.check_backpressure(queue_type).should_throttle()

    def should_stop(self, queue_type: QueueType | str | None = None) -> bool:
        """Whether production for the queue is to stop."""
        return self.check_backpressure(queue_type).should_stop()

    def get_throttle_factor(self, queue_type: QueueType | str | None = None) -> float:
        """The share of its usual pace that production for the queue keeps."""
        return self.check_backpressure(queue_type).factor

    def get_queue_depth(self, queue_type: QueueType | str) -> int:
        """How many wait in the queue.  Raises what reading the store raises: no number would be true then."""
        node = ambient.node()
        return ambient.call(_measure(node))[QueueType(queue_type)]

    def get_status(self, queue_type: QueueType | str) -> QueueStatus:
        """How one queue is."""
        return self.get_all_status()[QueueType(queue_type)]

    def get_all_status(self) -> dict[QueueType, QueueStatus]:
        """How every queue is."""
        depths = _depths()
        ages = _ages() if depths is not None else {}
        return {queue: _status(queue, depths, ages) for queue in QueueType}

    def health_check(self) -> HealthCheckResult:
        """Healthy while no queue has to stop production; slower production is degraded."""
        found = self.get_all_status()
        level = BackpressureLevel(pressure.hardest(status.backpressure for status in found.values()))
        details = {queue.value: status.to_dict() for queue, status in found.items()}
        pressing = [
            f"{queue.value}: {status.backpressure}" for queue, status in found.items() if status.backpressure > "none"
        ]
        if not pressing:
            return HealthCheckResult(healthy=True, details=details)
        status = CoordinatorStatus.ERROR if level.should_stop() else CoordinatorStatus.DEGRADED
        return HealthCheckResult(healthy=False, status=status, message="; ".join(pressing), details=details)


def _level(queue: QueueType, depths: Mapping[str, int] | None) -> str:
    return pressure.level(None if depths is None else depths[queue], BOUNDS[queue])


def _depths() -> Mapping[str, int] | None:
    """How deep every queue is; None, and a line in the log, if nobody can tell."""
    try:
        node = ambient.node()
        return ambient.call(_measure(node))
    except UNREAD as unread:
        log.warning("no queue can be measured, so each counts as full: %s", unread)
        return None


async def _measure(node: Embedded) -> Mapping[str, int]:
    async with node.store.read() as view:
        tally, every = await view.tally(), await lines(view)
    fresh = sum(line.fresh for line in every)
    pending = sum(len(line.pending) for line in every)
    found = pressure.depths(tally, fresh, pending)
    tick = node.clock.tick()
    for queue, depth in found.items():
        seen = _seen(node, queue)
        if not seen or tick - seen[-1].tick >= SAMPLE_SECONDS_MIN:
            seen.append(Depth(tick=tick, depth=depth))
    return found


def _seen(node: Embedded, queue: str) -> deque[Depth]:
    """The depths of *queue* that this program remembers."""
    kept: dict[str, deque[Depth]] = node.kept.setdefault(KEPT, {})
    return kept.setdefault(queue, deque(maxlen=SAMPLES_MAX))


def _ages() -> dict[str, float]:
    """Kind of job → how long its oldest has waited."""
    node = ambient.node()

    async def look() -> dict[str, float]:
        async with node.store.read() as view:
            waiting = await view.jobs(("ready",), JOBS_LOOKED_AT_MAX)
        now = node.clock.now()
        return {job.kind: max(now - job.time, 0.0) for job in reversed(waiting)}

    return ambient.call(look())


def _status(queue: QueueType, depths: Mapping[str, int] | None, ages: Mapping[str, float]) -> QueueStatus:
    bounds, level = BOUNDS[queue], BackpressureLevel(_level(queue, depths))
    known: dict[str, Any] = {}
    if depths is not None:
        node, depth = ambient.node(), depths[queue]
        waits = [age for kind, age in ages.items() if kind in pressure.KINDS.get(queue, ())]
        known = {
            "trend": pressure.trend(tuple(_seen(node, queue)), depth, node.clock.tick()),
            "estimated_drain_seconds": pressure.drain_seconds(depth, bounds),
            "oldest_seconds": max(waits, default=None),
        }
    return QueueStatus(
        queue_type=queue, current_depth=None if depths is None else depths[queue], backpressure=level,
        soft_limit=bounds.soft, hard_limit=bounds.hard, target_depth=bounds.target, throttle_factor=level.factor,
        **known,
    )  # fmt: skip


@cache
def get_queue_monitor() -> QueueMonitor:
    """The queues of this program's home."""
    return QueueMonitor()


def check_backpressure(queue_type: QueueType | str | None = None) -> BackpressureLevel:
    """As :meth:`QueueMonitor.check_backpressure`."""
    return get_queue_monitor().check_backpressure(queue_type)


def should_throttle_production(queue_type: QueueType | str | None = None) -> bool:
    """Whether production for the queue, or for any, is to slow down."""
    return get_queue_monitor().should_throttle(queue_type)


def should_stop_production(queue_type: QueueType | str | None = None) -> bool:
    """Whether production for the queue, or for any, is to stop."""
    return get_queue_monitor().should_stop(queue_type)


def get_throttle_factor(queue_type: QueueType | str | None = None) -> float:
    """The share of its usual pace that production for the queue, or for the fullest, keeps."""
    return get_queue_monitor().get_throttle_factor(queue_type)


def get_queue_status(queue_type: QueueType | str) -> QueueStatus:
    """How one queue is."""
    return get_queue_monitor().get_status(queue_type)
