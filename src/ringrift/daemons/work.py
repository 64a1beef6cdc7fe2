"""Claims jobs, has them done, and says what came of them."""

from collections.abc import Callable

from ringrift.supervision.spec import Daemon
from ringrift.work.runner import Runner


async def work(*, runner: Runner, alive: Callable[[], None]) -> None:
    """Serve for as long as the node runs."""
    await runner.run(alive)


# Stopping takes as long as the grace period of the jobs, and a little longer to give the rest back.
SPEC = Daemon(
    name="work",
    run=work,
    serve=True,
    after=("beat", "pipeline"),
    seconds_max=1800.0,
    stop_seconds_max="work.grace_seconds",
    category="core",
    critical=True,
)
