"""A supervisor on a node whose roles the test sets, and daemons that tick as fast as they can."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any

from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import NotLeader
from ringrift.kernel.health import Health, Status
from ringrift.kernel.settings import Settings
from ringrift.store.ports import Tx
from ringrift.supervision.spec import Daemon, Restart, in_order
from ringrift.supervision.supervisor import Supervisor
from unit.work.world import World

QUICK = Restart(times=2, seconds=300.0, first_seconds=0.001, seconds_max=0.002)
LIFE_SECONDS = 1.0
PARTS: dict[str, Any] = {"settings": Settings()}
Body = Callable[..., Awaitable[None]]


def ticking(name: str, body: Body, **changes: Any) -> Daemon:
    """A daemon that ticks as fast as it can."""
    return Daemon(**{"name": name, "run": body, "every": 0.001, "restart": QUICK} | changes)


def supervisor(
    world: World, roles: set[str] | None = None, *, clock: Clock | None = None, **options: Any
) -> Supervisor:
    """A supervisor on a node that holds *roles*, which the test may change."""
    held_roles = set() if roles is None else roles

    async def check(role: str, tx: Tx) -> None:
        if role not in held_roles:
            raise NotLeader(role, "another node")

    return Supervisor("here", world.router, clock or world.clock, holds=held_roles.__contains__, check=check, **options)


def stop_seconds_max(daemons: Sequence[Daemon], settings: Settings) -> float:
    """Return how long stopping *daemons* may take: each waits for those that started after it, and for no other."""
    last: dict[str, float] = {}
    for daemon in reversed(in_order(daemons)):
        later = [last[other.name] for other in daemons if other.name in last and daemon.name in other.follows]
        last[daemon.name] = max(later, default=0.0) + daemon.stop_seconds(settings)
    return max(last.values(), default=0.0)


def loop_clock() -> Clock:
    """The clock of the simulated loop, on which time goes on while all tasks wait."""
    loop: Any = asyncio.get_running_loop()
    clock: Clock = loop.clock("world")
    return clock


async def serve(*, alive: Callable[[], None]) -> None:
    """A healthy serving body: it shows progress every second until it is stopped."""
    while True:
        alive()
        await asyncio.sleep(LIFE_SECONDS)


def serving(name: str, body: Body = serve, **changes: Any) -> Daemon:
    """A daemon that serves."""
    return Daemon(**{"name": name, "run": body, "serve": True, "restart": QUICK} | changes)


def undisturbed(sup: Supervisor, *names: str) -> bool:
    """Return whether the daemons *names* are healthy, and have started once and failed never."""
    statuses = [sup.status(name) for name in names]
    return all((s.health.status, s.restarts, s.failures) == (Status.HEALTHY, 0, 0) for s in statuses)


def health(sup: Supervisor, name: str) -> Health:
    """The health of the daemon *name*."""
    [health] = [health for health in sup.health() if health.part == name]
    return health


def failing(times: int, done: asyncio.Event) -> tuple[Body, Callable[[], int]]:
    """A body that fails *times* times and then sets *done* whenever it runs; and how often it ran."""
    runs = count(1)
    last = 0

    async def body() -> None:
        nonlocal last
        last = next(runs)
        if last <= times:
            raise ValueError(f"failure {last}")
        done.set()

    return body, lambda: last
