"""Claims jobs, has them done, and publishes their results."""

from collections.abc import Callable
from typing import Any

from ringrift.supervision.spec import Daemon
from ringrift.work.runner import Runner


async def work(*, runner: Runner, alive: Callable[[], None]) -> None:
    """Serve for as long as the node runs."""
    await runner.run(alive)


# Stopping takes as long as the grace period of the jobs, and a little longer to give the rest back.
_LIMITS: dict[str, Any] = {"store": False, "seconds_max": 1800, "stop_seconds_max": "work.grace_seconds"}
SPEC = Daemon(name="work", run=work, serve=True, after=("beat", "pipeline"), category="core", critical=True, **_LIMITS)
