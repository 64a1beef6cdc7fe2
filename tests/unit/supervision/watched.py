"""Watched: a supervisor on a node whose roles the test hands out, and daemons that tick as fast as they can."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import NotLeader
from ringrift.kernel.health import Health, Status
from ringrift.kernel.settings import Settings
from ringrift.store.ports import Tx
from ringrift.supervision.spec import Daemon, Restart
from ringrift.supervision.supervisor import Supervisor
from unit.work.world import World

QUICK = Restart(times=2, seconds=300.0, first_seconds=0.001, seconds_max=0.002)
LIFE_SECONDS = 1.0
PARTS: dict[str, Any] = {"settings": Settings()}
Body = Callable[..., Awaitable[None]]


def ticking(name: str, body: Body, **changes: Any) -> Daemon:
    """A daemon that ticks as fast as it can."""
    return Daemon(**{"name": name, "run": body, "every": 0.001, "restart": QUICK} | changes)


def supervisor(world: World, held: set[str] | None = None, *, clock: Clock | None = None, **options: Any) -> Supervisor:
    """A supervisor on a node that holds the roles in *held*, which the test may change."""
    roles = set() if held is None else held

    async def check(role: str, tx: Tx) -> None:
        if role not in roles:
            raise NotLeader(role, "another node")

    return Supervisor("here", world.router, clock or world.clock, holds=roles.__contains__, check=check, **options)


def loop_clock() -> Clock:
    """The clock of the simulated loop, on which time goes on while everybody waits."""
    loop: Any = asyncio.get_running_loop()
    clock: Clock = loop.clock("world")
    return clock


async def serve(*, alive: Callable[[], None]) -> None:
    """A serving body that is well: it shows life every second until it is told to stop."""
    while True:
        alive()
        await asyncio.sleep(LIFE_SECONDS)


def serving(name: str, body: Body = serve, **changes: Any) -> Daemon:
    """A daemon that serves."""
    return Daemon(**{"name": name, "run": body, "serve": True, "restart": QUICK} | changes)


def undisturbed(sup: Supervisor, *names: str) -> bool:
    """Whether the daemons *names* are well, and have started once and failed never."""
    found = [sup.report(name) for name in names]
    return all((one.health.status, one.restarts, one.failures) == (Status.HEALTHY, 0, 0) for one in found)


def health(sup: Supervisor, name: str) -> Health:
    """How the daemon *name* is."""
    [found] = [one for one in sup.health() if one.part == name]
    return found


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
