"""A daemon may have its own interval for health checks, and some errors end it at once."""

import asyncio
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path

import pytest

from ringrift.kernel.errors import SettingsError
from ringrift.kernel.health import Health, Status
from ringrift.supervision.hang_detector import CheckIntervals
from ringrift.supervision.spec import Daemon
from unit.supervision.watched import PARTS, health, loop_clock, serve, serving, supervisor, ticking
from unit.work.world import World, play
from wait import wait_until

PATIENT, A_WHILE = 10_000.0, 100.0
"""Seconds of the simulated loop."""


def recording(times: "list[float]", now: Callable[[], float]) -> Callable[[], object]:
    """A check that records when it is called."""

    async def check() -> Health:
        times.append(now())
        return Health(part="x", status=Status.HEALTHY)

    return check


def test_each_is_checked_in_its_own_interval(tmp_path: Path) -> None:
    """One that was added while the others rest is checked at once in its seconds, and the others as before."""

    async def story(world: World) -> tuple[list[float], list[float]]:
        clock = loop_clock()
        often: list[float] = []
        seldom: list[float] = []
        sup = supervisor(world, clock=clock, intervals=CheckIntervals(critical_seconds=15.0, routine_seconds=30.0))
        rare = serving("rare", check=recording(seldom, clock.tick))
        async with sup.run([rare], PARTS, "full"):
            await asyncio.sleep(A_WHILE)
            sup.add(serving("quick", check=recording(often, clock.tick), check_seconds=1.0))
            await sup.start("quick")
            await asyncio.sleep(A_WHILE)
            await sup.stop("quick")
            before = len(often)
            await asyncio.sleep(A_WHILE)
            assert len(often) == before
        return often, seldom

    often, seldom = play(tmp_path, story, simulated=True)

    assert 95 <= len(often) <= 105
    assert 8 <= len(seldom) <= 12
    assert min(later - earlier for earlier, later in pairwise(seldom)) >= 15.0


def test_a_hang_is_noticed_within_its_own_interval(tmp_path: Path) -> None:
    """A lack of progress is noticed at its next check, long before that of the others."""

    async def story(world: World) -> float:
        clock = loop_clock()
        sup = supervisor(world, clock=clock)

        async def falls_silent(*, alive: Callable[[], None]) -> None:
            alive()
            await asyncio.Event().wait()

        spec = serving("one", falls_silent, seconds_max=2.0, check_seconds=0.5)
        async with sup.run([spec, serving("other", serve)], PARTS, "full"):
            begun = clock.tick()
            await wait_until(lambda: sup.status("one").failures >= 1, PATIENT)
            return clock.tick() - begun

    assert play(tmp_path, story, simulated=True) < 5.0


def test_a_final_error_is_the_last(tmp_path: Path) -> None:
    """Another start could not help, so there is none, until it is cleared; any other error has its budget."""

    async def story(world: World) -> None:
        runs = {"final": count(1), "usual": count(1)}

        async def ends() -> None:
            next(runs["final"])
            raise KeyError("gone for good")

        async def fails() -> None:
            next(runs["usual"])
            raise ValueError("no")

        sup = supervisor(world)
        specs = [ticking(name, body, final=(KeyError,)) for name, body in (("final", ends), ("usual", fails))]
        async with sup.run(specs, PARTS, "full"):
            await wait_until(lambda: {status.state for status in sup.statuses()} == {"failed"})
            assert health(sup, "final").reason == "given up: KeyError: 'gone for good'"
            assert [next(runs[name]) for name in ("final", "usual")] == [2, 4]
            await sup.clear("final")
            await wait_until(lambda: sup.status("final").state == "failed")
            assert next(runs["final"]) == 4

    play(tmp_path, story)


def test_an_interval_has_a_minimum(tmp_path: Path) -> None:
    """Looking all the time would be all that the node does."""
    with pytest.raises(SettingsError, match=r"checked every 0\.01 s at most"):
        Daemon(name="x", run=serve, serve=True, check_seconds=0.001)
