"""Tries parked deliveries again when their pause is over."""

from collections.abc import Mapping

from ringrift.bus.delivery import Reader
from ringrift.bus.router import Router
from ringrift.kernel.clock import Clock
from ringrift.kernel.stall_detector import StallDetector
from ringrift.supervision.spec import Daemon


async def redeliver(*, router: Router, readers: Mapping[str, Reader], memory: StallDetector, clock: Clock) -> None:
    """Try what is due once more, each with the reader that failed and no other."""
    await router.deliverer.retry_due(readers, memory, clock.tick())


_SECONDS = "bus.redeliver_seconds"
SPEC = Daemon(name="redeliver", run=redeliver, role="redeliver", memory=StallDetector, every=_SECONDS, category="core")
