"""A daemon may be looked at in a pace of its own, and some errors end it at once."""

import asyncio
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path

import pytest

from ringrift.kernel.errors import SettingsError
from ringrift.kernel.health import Health, Status
from ringrift.supervision.lookout import Pace
from ringrift.supervision.spec import Daemon
from unit.supervision.watched import PARTS, health, loop_clock, serve, serving, supervisor, ticking
from unit.work.world import World, play
from waiting import wait_until

PATIENT, A_WHILE = 10_000.0, 100.0
"""Seconds of the simulated loop."""


def asked(times: "list[float]", now: Callable[[], float]) -> Callable[[], object]:
    """A check that notes when it is asked."""

    async def check() -> Health:
        times.append(now())
        return Health(part="x", status=Status.HEALTHY)

    return check


def test_each_is_asked_in_its_own_pace(tmp_path: Path) -> None:
    """One that was added while the others rest is asked at once in its seconds, and the others as before."""

    async def story(world: World) -> tuple[list[float], list[float]]:
        clock = loop_clock()
        often: list[float] = []
        seldom: list[float] = []
        sup = supervisor(world, clock=clock, pace=Pace(critical_seconds=15.0, routine_seconds=30.0))
        rare = serving("rare", check=asked(seldom, clock.tick))
        async with sup.run([rare], PARTS, "full"):
            await asyncio.sleep(A_WHILE)
            sup.add(serving("quick", check=asked(often, clock.tick), look_seconds=1.0))
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


def test_one_that_hangs_is_found_in_its_own_pace(tmp_path: Path) -> None:
    """Silence is noticed at its next look, long before that of the others."""

    async def story(world: World) -> float:
        clock = loop_clock()
        sup = supervisor(world, clock=clock)

        async def falls_silent(*, alive: Callable[[], None]) -> None:
            alive()
            await asyncio.Event().wait()

        spec = serving("one", falls_silent, seconds_max=2.0, look_seconds=0.5)
        async with sup.run([spec, serving("other", serve)], PARTS, "full"):
            begun = clock.tick()
            await wait_until(lambda: sup.report("one").failures >= 1, PATIENT)
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
            await wait_until(lambda: {one.state for one in sup.reports()} == {"failed"})
            assert health(sup, "final").reason == "given up: KeyError: 'gone for good'"
            assert [next(runs[name]) for name in ("final", "usual")] == [2, 4]
            await sup.clear("final")
            await wait_until(lambda: sup.report("final").state == "failed")
            assert next(runs["final"]) == 4

    play(tmp_path, story)


def test_a_pace_has_a_least(tmp_path: Path) -> None:
    """Looking all the time would be all that the node does."""
    with pytest.raises(SettingsError, match=r"looked at every 0\.01 s at most"):
        Daemon(name="x", run=serve, serve=True, look_seconds=0.001)
