"""Backpressure: the levels of the loop's queues, measured in the store at every call by the rule of the loop."""

import logging

from ringrift.pipeline.queues import measure_pressures
from ringrift.store.ports import Reads
from ringrift.work.pressure import QueuePressure, hardest
from ringrift_compat.embedded_node import embedded
from ringrift_compat.health.protocols import UNREAD
from ringrift_compat.types import BackpressureLevel, QueueType

log = logging.getLogger(__name__)


def check_backpressure(queue_type: QueueType | str | None = None) -> BackpressureLevel:
    """The level of a queue, or the highest of all.  STOP if the store cannot be read."""
    queues = list(QueueType) if queue_type is None else [QueueType(queue_type)]
    try:
        pressures = embedded.query(_measure)
    except UNREAD as error:
        log.warning("the queues cannot be measured, so each counts as full: %s", error)
        return BackpressureLevel.STOP
    return BackpressureLevel(hardest(pressures[queue] for queue in queues).level)


def should_throttle_production(queue_type: QueueType | str | None = None) -> bool:
    """Whether production for the queue, or for any, should slow down."""
    return check_backpressure(queue_type) > BackpressureLevel.NONE


async def _measure(view: Reads) -> dict[str, QueuePressure]:
    node = embedded.node()
    return await measure_pressures(view, node.settings.work.drain_patience, node.clock.now())
