"""Daemons stop in good order, and the end of one is noticed by those that need to know."""

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from ringrift.kernel.errors import Unreachable
from ringrift.kernel.health import Status
from ringrift.supervision.spec import Daemon
from unit.supervision.watched import PARTS, QUICK, health, loop_clock, supervisor, ticking
from unit.work.world import World, play
from wait import wait_until


def test_daemons_stop_in_reverse_order_each_before_the_next(tmp_path: Path) -> None:
    """The last started stops first, and is done before its predecessor gets the stop."""

    async def story(world: World) -> list[str]:
        steps: list[str] = []

        def serving(name: str, *after: str) -> Daemon:
            async def body(*, alive: Callable[[], None]) -> None:
                steps.append(f"{name} starts")
                alive()
                try:
                    await asyncio.Event().wait()
                finally:
                    for _ in range(20 if after else 1):  # one that started later takes longer, and is waited for
                        await asyncio.sleep(0)
                    steps.append(f"{name} stops")

            return Daemon(name=name, run=body, serve=True, after=after)

        async with supervisor(world).run([serving("b", "a"), serving("a"), serving("c", "b")], PARTS, "full"):
            steps.append("body")
        return steps

    steps = play(tmp_path, story)

    assert steps == ["a starts", "b starts", "c starts", "body", "c stops", "b stops", "a stops"]


def test_a_slow_stop_delays_only_its_predecessors(tmp_path: Path) -> None:
    """Two slow ones side by side end in the time of one; the one that both started after waits for them."""

    async def story(world: World) -> tuple[list[str], float]:
        clock, steps = loop_clock(), []

        def slow(name: str, seconds: float, *after: str) -> Daemon:
            async def body(*, alive: Callable[[], None]) -> None:
                alive()
                try:
                    await asyncio.Event().wait()
                finally:
                    await asyncio.sleep(seconds)  # of virtual time
                    steps.append(name)

            return Daemon(name=name, run=body, serve=True, after=after, stop_seconds_max=100.0)

        daemons = [slow("first", 5.0), slow("long", 60.0, "first"), slow("longer", 80.0, "first"), slow("alone", 1.0)]
        async with supervisor(world, clock=clock).run(daemons, PARTS, "full"):
            start = clock.tick()
        return steps, clock.tick() - start

    steps, seconds = play(tmp_path, story, simulated=True)

    assert steps == ["alone", "long", "longer", "first"]
    assert seconds == pytest.approx(85.0, abs=0.1)


def test_a_daemon_that_does_not_stop_is_left_behind(tmp_path: Path) -> None:
    """Stopping has its own limit: a daemon that does not end cannot keep the others from stopping."""

    async def story(world: World) -> list[str]:
        steps: list[str] = []
        release = asyncio.Event()

        async def clings(*, alive: Callable[[], None]) -> None:
            alive()
            try:
                await asyncio.Event().wait()
            finally:
                await release.wait()
                steps.append("clinging stops")

        async def plain() -> None:
            await asyncio.sleep(0)

        stubborn = Daemon(name="stubborn", run=clings, serve=True, stop_seconds_max=0.01)
        sup = supervisor(world)
        async with sup.run([ticking("plain", plain), stubborn], PARTS, "full"):
            pass
        steps.append("stopped")
        release.set()
        await wait_until(lambda: len(steps) == 2)
        return steps

    assert play(tmp_path, story) == ["stopped", "clinging stops"]


def test_a_single_daemon_can_be_stopped_and_started(tmp_path: Path) -> None:
    """Stopping one leaves the others alone; clearing starts it again."""

    async def story(world: World) -> None:
        async def body() -> None:
            pass

        sup = supervisor(world)
        async with sup.run([ticking("one", body), ticking("two", body)], PARTS, "full"):
            await sup.stop("one")
            assert [(health.part, health.status) for health in sup.health()] == [
                ("one", Status.UNKNOWN),
                ("two", Status.HEALTHY),
            ]

            await sup.clear("one")
            await wait_until(lambda: health(sup, "one").status is Status.HEALTHY)

    play(tmp_path, story)


def test_a_broken_store_is_everybodys_end(tmp_path: Path) -> None:
    """A daemon that finds the store gone is not started again: the process learns that it must end."""

    async def story(world: World) -> None:
        runs, sup = count(1), supervisor(world)

        async def body() -> None:
            if next(runs) == 2:
                raise Unreachable("the disk is gone")

        async with sup.run([ticking("daemon", body)], PARTS, "full"):
            with pytest.raises(Unreachable, match="the disk is gone"):
                await sup.broken

        assert next(runs) == 3

    play(tmp_path, story)


def test_a_store_that_breaks_at_the_start_is_reported_at_once(tmp_path: Path) -> None:
    """A daemon that ended because the store is gone is not waited for."""

    async def story(world: World) -> None:
        async def body() -> None:
            raise Unreachable("the disk is gone")

        sup = supervisor(world)
        async with sup.run([ticking("one", body), ticking("two", body)], PARTS, "full"):
            assert asyncio.get_running_loop().time() < 1.0
            with pytest.raises(Unreachable):
                await sup.broken

    play(tmp_path, story, simulated=True)


def test_a_serving_daemon_that_ends_by_itself_has_failed(tmp_path: Path) -> None:
    """A serving daemon that returns while the node runs is restarted like any other that failed."""

    async def story(world: World) -> None:
        runs, sup = count(), supervisor(world)

        async def body() -> None:
            next(runs)

        async with sup.run([Daemon(name="server", run=body, serve=True, restart=QUICK)], PARTS, "full"):
            await wait_until(lambda: health(sup, "server").reason.startswith("given up"), seconds=100.0)

            assert asyncio.get_running_loop().time() < 10.0
            assert next(runs) == 3
            assert health(sup, "server").status is Status.UNHEALTHY

    play(tmp_path, story, simulated=True)
