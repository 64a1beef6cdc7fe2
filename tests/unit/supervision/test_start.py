"""Daemons start one after the other, each when its predecessors are ready, and none waits for ever."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from ringrift.kernel.health import Status
from ringrift.supervision.hang_detector import _READY_SECONDS_MAX, CheckIntervals
from unit.supervision.watched import PARTS, QUICK, failing, health, loop_clock, serve, serving, supervisor, ticking
from unit.work.world import World, play

WARM_UP_SECONDS = 12.0


def test_a_daemon_starts_once_its_predecessor_is_ready(tmp_path: Path) -> None:
    """Being started is not being ready: the successor of a slow daemon waits for its readiness."""

    async def story(world: World) -> float:
        loop, begun = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
        sup = supervisor(world, clock=loop_clock())

        async def warms_up(*, alive: Callable[[], None]) -> None:
            await asyncio.sleep(WARM_UP_SECONDS)
            await serve(alive=alive)

        async def next_one(*, alive: Callable[[], None]) -> None:
            begun.set_result(loop.time())
            await serve(alive=alive)

        async with sup.run([serving("next", next_one, after=("slow",)), serving("slow", warms_up)], PARTS, "full"):
            return float(await begun)

    assert play(tmp_path, story, simulated=True) == pytest.approx(WARM_UP_SECONDS)


@pytest.mark.parametrize("seconds", [_READY_SECONDS_MAX, 3.0])
def test_a_daemon_that_is_never_ready_blocks_no_other(tmp_path: Path, seconds: float) -> None:
    """It is waited for up to a limit, and is unknown meanwhile."""

    async def story(world: World) -> float:
        sup = supervisor(world, clock=loop_clock(), intervals=CheckIntervals(ready_seconds_max=seconds))

        async def never(*, alive: Callable[[], None]) -> None:
            await asyncio.Event().wait()

        async with sup.run([serving("never", never), serving("sound", after=("never",))], PARTS, "full"):
            assert health(sup, "never").status is Status.UNKNOWN
            assert health(sup, "never").reason == "not ready yet"
            assert health(sup, "sound").status is Status.HEALTHY
            return asyncio.get_running_loop().time()

    assert play(tmp_path, story, simulated=True) == pytest.approx(seconds)


def test_a_daemon_that_fails_at_its_start_is_not_waited_for(tmp_path: Path) -> None:
    """Its first failure ends the wait: its successors start, and do not need it."""

    async def story(world: World) -> float:
        body, _ = failing(10**9, asyncio.Event())
        sup = supervisor(world, clock=loop_clock())
        async with sup.run([ticking("weak", body, restart=QUICK), serving("sound", after=("weak",))], PARTS, "full"):
            assert health(sup, "sound").status is Status.HEALTHY
            return asyncio.get_running_loop().time()

    assert play(tmp_path, story, simulated=True) < 1.0
