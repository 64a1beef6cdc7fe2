"""Backpressure: the levels of the loop's queues, measured in the store at every call."""

import logging
from collections.abc import Mapping

from ringrift.pipeline.line import LINES
from ringrift.store.ports import Reads
from ringrift.work import limits
from ringrift_compat.embedded_node import embedded
from ringrift_compat.health.protocols import UNREAD
from ringrift_compat.types import BackpressureLevel, QueueType

log = logging.getLogger(__name__)


def check_backpressure(queue_type: QueueType | str | None = None) -> BackpressureLevel:
    """The level of a queue, or the highest of all.  STOP if the store cannot be read."""
    queues = list(QueueType) if queue_type is None else [QueueType(queue_type)]
    try:
        depths: Mapping[str, int | None] = embedded.query(_measure)
    except UNREAD as error:
        log.warning("the queues cannot be measured, so each counts as full: %s", error)
        depths = {}
    levels = [limits.level(depths.get(queue), limits.BOUNDS[queue]) for queue in queues]
    return BackpressureLevel(limits.hardest(levels))


def should_throttle_production(queue_type: QueueType | str | None = None) -> bool:
    """Whether production for the queue, or for any, should slow down."""
    return check_backpressure(queue_type) > BackpressureLevel.NONE


async def _measure(view: Reads) -> dict[str, int]:
    tally, every = await view.count_jobs(), await LINES.all(view)
    return limits.depths(tally, sum(line.fresh for line in every), sum(len(line.pending) for line in every))
