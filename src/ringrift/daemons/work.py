"""Claims jobs, has them done, and says what came of them."""

from collections.abc import Callable

from ringrift.supervision.spec import Daemon
from ringrift.work.runner import Runner


async def work(*, runner: Runner, alive: Callable[[], None]) -> None:
    """Serve for as long as the node runs."""
    await runner.run(alive)


# Stopping takes as long as the grace period of the jobs, so the supervisor must be patient with this one.
SPEC = Daemon(name="work", run=work, serve=True, after=("pipeline",), seconds_max=3600.0)
