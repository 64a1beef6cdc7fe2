"""A daemon that crashes, waits or will not stop is detected, named and handled, and no other is disturbed."""

import asyncio
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from random import Random

import pytest

from ringrift.events.daemon import Failed
from ringrift.kernel.errors import GaveUp, NoRoom, SupervisionError
from ringrift.kernel.health import Health, Status
from ringrift.supervision.hang_detector import _CHECK_SECONDS_MAX
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
from wait import wait_until

PATIENT = 10_000.0
"""Seconds of virtual time in which a story must come to its end."""
SLOW = Restart(times=2, seconds=3000.0, first_seconds=1.0, seconds_max=8.0)


@pytest.mark.parametrize("working", [0, 3])
def test_a_crashing_daemon_is_named_and_given_up(tmp_path: Path, working: int) -> None:
    """The budget and the record are the same, whether it never worked or worked for a while."""

    async def story(world: World) -> None:
        runs, sup = count(), supervisor(world, clock=loop_clock())

        async def crashes() -> None:
            if next(runs) >= working:
                raise ValueError("no more")

        async with sup.run([serving("sound"), ticking("weak", crashes, every=1.0)], PARTS, "full"):
            await wait_until(lambda: sup.status("weak").state == "failed", PATIENT)

            report = sup.status("weak")
            assert [entry.error for entry in report.history] == ["ValueError: no more"] * 3
            assert (report.runs, report.failures, report.restarts) == (working + 3, 3, 2)
            assert health(sup, "weak").reason == "given up: ValueError: no more"
            with pytest.raises(GaveUp, match="'weak' failed more than 2 times"):
                await sup.start("weak")
            assert undisturbed(sup, "sound")

    play(tmp_path, story, simulated=True)


def test_a_crash_at_the_start_is_unhealthy_at_once(tmp_path: Path) -> None:
    """A daemon that has never worked is unhealthy, not unknown."""

    async def story(world: World) -> Health:
        body, _ = failing(10**9, asyncio.Event())
        sup = supervisor(world, clock=loop_clock())
        async with sup.run([ticking("weak", body, restart=SLOW)], PARTS, "full"):
            return health(sup, "weak")

    weak = play(tmp_path, story, simulated=True)

    assert (weak.status, weak.reason) == (Status.UNHEALTHY, "fails at its start: ValueError: failure 1")


@pytest.mark.parametrize("end", [SystemExit(3), asyncio.CancelledError(), ExceptionGroup("two", [ValueError("x")])])
def test_every_error_of_a_daemon_is_its_own_failure(tmp_path: Path, end: BaseException) -> None:
    """SystemExit, an unrequested cancellation and a group of errors all restart it."""

    async def story(world: World) -> None:
        runs, done, sup = count(), asyncio.Event(), supervisor(world, clock=loop_clock())

        async def ends() -> None:
            if next(runs) == 0:
                raise end
            done.set()

        async with sup.run([serving("sound"), ticking("odd", ends)], PARTS, "full"):
            await done.wait()

            assert len(sup.status("odd").history) == 1
            assert undisturbed(sup, "sound")

    play(tmp_path, story, simulated=True)


def test_a_daemon_that_raises_while_stopping_is_not_restarted(tmp_path: Path) -> None:
    """An error in the last moment is recorded and changes nothing."""

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

            assert sup.status("clumsy").last_error == "ValueError: stumbled"
            assert (health(sup, "clumsy").status, health(sup, "clumsy").reason) == (Status.UNKNOWN, "stopped")
            assert next(lives) == 1
            assert undisturbed(sup, "sound")

    play(tmp_path, story, simulated=True)


def test_a_daemon_that_ignores_its_stop_is_named_until_it_ends(tmp_path: Path) -> None:
    """It runs on after the stop: stop reports it in time, health names it, and it cannot be started beside itself."""

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
            stopping = asyncio.ensure_future(sup.stop("leaky"))
            await wait_until(lambda: health(sup, "leaky").reason == "stopped", PATIENT)  # it still has time: no fault
            assert not await stopping
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
    """As long as there is no room, the daemon is degraded with the reason, and its budget is untouched."""

    async def story(world: World) -> None:
        room, done, sup = asyncio.Event(), asyncio.Event(), supervisor(world, clock=loop_clock())

        async def writes() -> None:
            if not room.is_set():
                raise NoRoom("/data")
            done.set()

        async with sup.run([serving("sound"), ticking("writer", writes)], PARTS, "full"):
            await wait_until(lambda: sup.status("writer").waits > 20, PATIENT)
            writer = health(sup, "writer")
            assert (writer.status, writer.reason) == (
                Status.DEGRADED,
                "waits: no room left at /data: free some space and try again",
            )
            assert sup.status("writer").state == "waiting"
            room.set()
            await done.wait()
            await wait_until(lambda: health(sup, "writer").status is Status.HEALTHY, PATIENT)

            assert (sup.status("writer").failures, sup.status("writer").history) == (0, ())
            assert undisturbed(sup, "sound")
        assert await world.events(Failed) == []

    play(tmp_path, story, simulated=True)


def test_a_daemons_own_check_enters_its_health(tmp_path: Path) -> None:
    """Its result counts; raising and hanging are unhealthy, and no other check is delayed."""

    async def story(world: World) -> None:
        calls, sup = count(), supervisor(world, clock=loop_clock())

        async def answers() -> Health:
            status = Status.DEGRADED if next(calls) == 0 else Status.HEALTHY
            return Health(part="own", status=status, reason="half the games are missing")

        async def raises() -> Health:
            raise ValueError("no licence")

        async def hangs() -> Health:
            await asyncio.Event().wait()
            raise AssertionError

        daemons = [
            serving("answers", check=answers, critical=True),
            serving("raises", check=raises),
            serving("hangs", check=hangs),
            serving("sound"),
        ]
        async with sup.run(daemons, PARTS, "full"):
            await wait_until(lambda: health(sup, "answers").status is Status.DEGRADED, PATIENT)
            assert health(sup, "answers").reason == "half the games are missing"
            await wait_until(lambda: health(sup, "answers").status is Status.HEALTHY, PATIENT)
            await wait_until(lambda: health(sup, "hangs").status is Status.UNHEALTHY, PATIENT)

            assert health(sup, "raises").reason == "its check failed: ValueError: no licence"
            assert health(sup, "hangs").reason == f"its check did not answer within {_CHECK_SECONDS_MAX:g} s"
            assert sup.status("hangs").restarts == 0
            await sup.clear("raises")
            assert health(sup, "raises").status is Status.HEALTHY, "no check has run since"
            assert undisturbed(sup, "sound")

    play(tmp_path, story, simulated=True)


def test_a_tick_may_return_a_health(tmp_path: Path) -> None:
    """The returned health stands until its next tick."""

    async def story(world: World) -> None:
        ticks, sup = count(), supervisor(world)

        async def looks() -> Health | None:
            return Health(part="x", status=Status.DEGRADED, reason="low on paper") if next(ticks) < 9 else None

        async with sup.run([ticking("looks", looks)], PARTS, "full"):
            assert health(sup, "looks").reason == "low on paper"
            await wait_until(lambda: health(sup, "looks").status is Status.HEALTHY)

    play(tmp_path, story)


def test_pauses_have_jitter_and_repeat_with_the_seed(tmp_path: Path) -> None:
    """Two nodes with other seeds restart at other moments; the same seed gives the same times."""

    def pauses(seed: int, folder: Path) -> list[float]:
        async def story(world: World) -> list[float]:
            moments: list[float] = []
            sup = supervisor(world, clock=loop_clock(), rng=Random(seed))

            async def crashes() -> None:
                moments.append(asyncio.get_running_loop().time())
                raise ValueError("no")

            spec = Daemon(name="weak", run=crashes, every=1.0, restart=Restart(times=4, first_seconds=1.0))
            async with sup.run([spec], PARTS, "full"):
                await wait_until(lambda: sup.status("weak").state == "failed", PATIENT)
            return [round(after - before, 6) for before, after in pairwise(moments)]

        return play(folder, story, simulated=True)

    first, again, other = (pauses(seed, tmp_path / str(number)) for number, seed in enumerate((1, 1, 2)))

    assert first == again != other
    assert all(plain <= pause <= 1.2 * plain for plain, pause in zip((1.0, 2.0, 4.0, 8.0), first, strict=True))
