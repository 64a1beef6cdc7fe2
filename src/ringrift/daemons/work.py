"""Claims jobs, has them done, and publishes their results."""

from collections.abc import Callable

from ringrift.supervision.spec import Daemon
from ringrift.work.runner import Runner


async def work(*, runner: Runner, alive: Callable[[], None]) -> None:
    """Serve for as long as the node runs."""
    await runner.run(alive)


# Stopping takes as long as the grace period of the jobs, and a little longer to give the rest back.
_GRACE, _AFTER = "work.grace_seconds", ("beat", "pipeline")
SPEC = Daemon(
    name="work",
    run=work,
    serve=True,
    after=_AFTER,
    seconds_max=1800,
    stop_seconds_max=_GRACE,
    category="core",
    critical=True,
)
