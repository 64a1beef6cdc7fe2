"""A daemon that crashes, waits or will not stop is found, named and handled, and nobody else is disturbed."""

import asyncio
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from random import Random

import pytest

from ringrift.events.daemon import Failed
from ringrift.kernel.errors import GaveUp, NoRoom, SupervisionError
from ringrift.kernel.health import Health, Status
from ringrift.supervision.lookout import CHECK_SECONDS_MAX
from ringrift.supervision.spec import Daemon, Restart
from unit.supervision.watched import (
    LIFE_SECONDS,
    PARTS,
    failing,
    health,
    loop_clock,
    serving,
    supervisor,
    ticking,
    undisturbed,
)
from unit.work.world import World, play
from waiting import wait_until

PATIENT = 10_000.0
"""Seconds of virtual time in which a story must come to its end."""
SLOW = Restart(times=2, seconds=3000.0, first_seconds=1.0, seconds_max=8.0)


@pytest.mark.parametrize("working", [0, 3])
def test_one_that_crashes_at_its_start_or_later_is_named_and_given_up(tmp_path: Path, working: int) -> None:
    """The budget and the record are the same, whether it never worked or worked for a while."""

    async def story(world: World) -> None:
        runs, sup = count(), supervisor(world, clock=loop_clock())

        async def crashes() -> None:
            if next(runs) >= working:
                raise ValueError("no more")

        async with sup.run([serving("sound"), ticking("weak", crashes, every=1.0)], PARTS, "full"):
            await wait_until(lambda: sup.report("weak").state == "failed", PATIENT)

            report = sup.report("weak")
            assert [one.error for one in report.history] == ["ValueError: no more"] * 3
            assert (report.runs, report.failures, report.restarts) == (working + 3, 3, 2)
            assert health(sup, "weak").reason == "given up: ValueError: no more"
            with pytest.raises(GaveUp, match="'weak' failed more than 2 times"):
                await sup.start("weak")
            assert undisturbed(sup, "sound")

    play(tmp_path, story, simulated=True)


def test_a_crash_at_the_start_is_unhealthy_at_once(tmp_path: Path) -> None:
    """One that has never worked is not unknown: it is known not to work."""

    async def story(world: World) -> Health:
        body, _ = failing(10**9, asyncio.Event())
        sup = supervisor(world, clock=loop_clock())
        async with sup.run([ticking("weak", body, restart=SLOW)], PARTS, "full"):
            return health(sup, "weak")

    found = play(tmp_path, story, simulated=True)

    assert (found.status, found.reason) == (Status.UNHEALTHY, "fails at its start: ValueError: failure 1")


@pytest.mark.parametrize("end", [SystemExit(3), asyncio.CancelledError(), ExceptionGroup("two", [ValueError("x")])])
def test_whatever_a_daemon_raises_is_its_own_failure(tmp_path: Path, end: BaseException) -> None:
    """The end of the program, a cancellation that nobody ordered and a group of errors all start it again."""

    async def story(world: World) -> None:
        runs, done, sup = count(), asyncio.Event(), supervisor(world, clock=loop_clock())

        async def ends() -> None:
            if next(runs) == 0:
                raise end
            done.set()

        async with sup.run([serving("sound"), ticking("odd", ends)], PARTS, "full"):
            await done.wait()

            assert len(sup.report("odd").history) == 1
            assert undisturbed(sup, "sound")

    play(tmp_path, story, simulated=True)


def test_one_that_raises_while_it_stops_is_not_started_again(tmp_path: Path) -> None:
    """An error in the last moment is written down and changes nothing."""

    async def story(world: World) -> None:
        lives, sup = count(), supervisor(world, clock=loop_clock())

        async def stumbles(*, alive: Callable[[], None]) -> None:
            next(lives)
            alive()
            try:
                await asyncio.Event().wait()
            finally:
                raise ValueError("stumbled")

        async with sup.run([serving("sound"), serving("clumsy", stumbles)], PARTS, "full"):
            assert await sup.stop("clumsy")
            await asyncio.sleep(LIFE_SECONDS)

            assert sup.report("clumsy").last_error == "ValueError: stumbled"
            assert (health(sup, "clumsy").status, health(sup, "clumsy").reason) == (Status.UNKNOWN, "stopped")
            assert next(lives) == 1
            assert undisturbed(sup, "sound")

    play(tmp_path, story, simulated=True)


def test_one_that_leaks_its_stop_is_named_until_it_is_gone(tmp_path: Path) -> None:
    """Told to stop it runs on: stop says so in time, health names it, and it cannot be started beside itself."""

    async def story(world: World) -> None:
        release, sup = asyncio.Event(), supervisor(world, clock=loop_clock())

        async def clings(*, alive: Callable[[], None]) -> None:
            alive()
            try:
                await asyncio.Event().wait()
            finally:
                await release.wait()

        async with sup.run([serving("sound"), serving("leaky", clings, stop_seconds_max=2.0)], PARTS, "full"):
            begun = asyncio.get_running_loop().time()
            assert not await sup.stop("leaky")
            assert asyncio.get_running_loop().time() - begun == pytest.approx(2.0)
            assert health(sup, "leaky").status is Status.UNHEALTHY
            assert "still runs" in health(sup, "leaky").reason
            with pytest.raises(SupervisionError, match="cannot run twice"):
                await sup.start("leaky")
            assert undisturbed(sup, "sound")
            release.set()
            await wait_until(lambda: health(sup, "leaky").reason == "stopped", PATIENT)

    play(tmp_path, story, simulated=True)


def test_a_full_disk_is_waited_for_and_costs_nothing(tmp_path: Path) -> None:
    """However long there is no room, the daemon is degraded with the reason, and its budget is untouched."""

    async def story(world: World) -> None:
        room, done, sup = asyncio.Event(), asyncio.Event(), supervisor(world, clock=loop_clock())

        async def writes() -> None:
            if not room.is_set():
                raise NoRoom("/data")
            done.set()

        async with sup.run([serving("sound"), ticking("writer", writes)], PARTS, "full"):
            await wait_until(lambda: sup.report("writer").waits > 20, PATIENT)
            found = health(sup, "writer")
            assert (found.status, found.reason) == (
                Status.DEGRADED, "waits: no room left at /data: free some space and try again",
            )  # fmt: skip
            assert sup.report("writer").state == "waiting"
            room.set()
            await done.wait()
            await wait_until(lambda: health(sup, "writer").status is Status.HEALTHY, PATIENT)

            assert (sup.report("writer").failures, sup.report("writer").history) == (0, ())
            assert undisturbed(sup, "sound")
        assert await world.told(Failed) == []

    play(tmp_path, story, simulated=True)


def test_a_daemons_own_check_is_asked_and_enters_its_health(tmp_path: Path) -> None:
    """What it answers counts; raising and hanging are unhealthy, and keep no other check from being asked."""

    async def story(world: World) -> None:
        asked, sup = count(), supervisor(world, clock=loop_clock())

        async def answers() -> Health:
            status = Status.DEGRADED if next(asked) == 0 else Status.HEALTHY
            return Health(part="own", status=status, reason="half the games are missing")

        async def raises() -> Health:
            raise ValueError("no licence")

        async def hangs() -> Health:
            await asyncio.Event().wait()
            raise AssertionError

        daemons = [
            serving("answers", check=answers, critical=True), serving("raises", check=raises),
            serving("hangs", check=hangs), serving("sound"),
        ]  # fmt: skip
        async with sup.run(daemons, PARTS, "full"):
            await wait_until(lambda: health(sup, "answers").status is Status.DEGRADED, PATIENT)
            assert health(sup, "answers").reason == "half the games are missing"
            await wait_until(lambda: health(sup, "answers").status is Status.HEALTHY, PATIENT)
            await wait_until(lambda: health(sup, "hangs").status is Status.UNHEALTHY, PATIENT)

            assert health(sup, "raises").reason == "its check failed: ValueError: no licence"
            assert health(sup, "hangs").reason == f"its check did not answer within {CHECK_SECONDS_MAX:g} s"
            assert sup.report("hangs").restarts == 0
            await sup.clear("raises")
            assert health(sup, "raises").status is Status.HEALTHY, "nobody has asked since"
            assert undisturbed(sup, "sound")

    play(tmp_path, story, simulated=True)


def test_a_tick_may_say_how_it_found_things(tmp_path: Path) -> None:
    """A daemon with more to say returns a health, which stands until its next tick."""

    async def story(world: World) -> None:
        ticks, sup = count(), supervisor(world)

        async def looks() -> Health | None:
            return Health(part="x", status=Status.DEGRADED, reason="low on paper") if next(ticks) < 9 else None

        async with sup.run([ticking("looks", looks)], PARTS, "full"):
            assert health(sup, "looks").reason == "low on paper"
            await wait_until(lambda: health(sup, "looks").status is Status.HEALTHY)

    play(tmp_path, story)


def test_pauses_are_spread_by_chance_and_repeat_with_the_seed(tmp_path: Path) -> None:
    """Two nodes with other seeds start again at other moments; the same seed tells the same story."""

    def pauses(seed: int, folder: Path) -> list[float]:
        async def story(world: World) -> list[float]:
            moments: list[float] = []
            sup = supervisor(world, clock=loop_clock(), rng=Random(seed))

            async def crashes() -> None:
                moments.append(asyncio.get_running_loop().time())
                raise ValueError("no")

            spec = Daemon(name="weak", run=crashes, every=1.0, restart=Restart(times=4, first_seconds=1.0))
            async with sup.run([spec], PARTS, "full"):
                await wait_until(lambda: sup.report("weak").state == "failed", PATIENT)
            return [round(after - before, 6) for before, after in pairwise(moments)]

        return play(folder, story, simulated=True)

    one, again, other = (pauses(seed, tmp_path / str(number)) for number, seed in enumerate((1, 1, 2)))

    assert one == again != other
    assert all(plain <= found <= 1.2 * plain for plain, found in zip((1.0, 2.0, 4.0, 8.0), one, strict=True))
