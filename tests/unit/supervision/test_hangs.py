"""A daemon that hangs is detected by its lack of progress and ended, and an idle one is left alone."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from ringrift.events.daemon import Failed
from ringrift.events.node import Joined, Left
from ringrift.kernel.errors import NotLeader, SupervisionError
from ringrift.kernel.health import Status
from ringrift.store.ports import Tx
from ringrift.supervision.hang_detector import CheckIntervals
from ringrift.supervision.spec import Daemon, Restart
from ringrift.supervision.supervisor import Supervisor
from unit.supervision.watched import (
    LIFE_SECONDS,
    PARTS,
    health,
    loop_clock,
    serve,
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
INTERVALS = CheckIntervals()


@pytest.mark.parametrize(("critical", "look"), [(True, INTERVALS.critical_seconds), (False, INTERVALS.routine_seconds)])
def test_a_silent_serving_daemon_is_cancelled_and_restarted(tmp_path: Path, critical: bool, look: float) -> None:
    """Without progress it is named at the next check, cancelled and started again."""

    async def story(world: World) -> float:
        lives, sup = count(), supervisor(world, clock=loop_clock())
        again: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        async def falls_silent(*, alive: Callable[[], None]) -> None:
            alive()
            if next(lives) == 0:
                await asyncio.Event().wait()
            again.set_result(asyncio.get_running_loop().time())
            await serve(alive=alive)

        silent = serving("silent", falls_silent, seconds_max=20.0, restart=SLOW, critical=critical)
        async with sup.run([serving("sound"), silent], PARTS, "full"):
            at = await again
            await wait_until(lambda: health(sup, "silent").status is Status.DEGRADED, PATIENT)

            assert sup.status("silent").last_error == "TimeoutError: no progress for more than 20 s"
            assert sup.status("silent").restarts == 1
            assert undisturbed(sup, "sound")
        return at

    at = play(tmp_path, story, simulated=True)

    assert 20.0 < at <= 20.0 + look + SLOW.seconds_max


def test_a_hanging_daemon_that_ignores_cancellation_is_given_up_and_not_doubled(tmp_path: Path) -> None:
    """It ignores its cancellation: it is named, never runs beside itself, and cannot be cleared meanwhile."""

    async def story(world: World) -> None:
        release, lives = asyncio.Event(), count()
        sup = supervisor(world, clock=loop_clock())

        async def clings(*, alive: Callable[[], None]) -> None:
            alive()
            next(lives)
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        stuck = serving("stuck", clings, seconds_max=20.0, stop_seconds_max=1.0)
        async with sup.run([serving("sound"), stuck], PARTS, "full"):
            await wait_until(lambda: health(sup, "stuck").reason.startswith("given up"), PATIENT)

            assert "hangs and does not stop" in health(sup, "stuck").reason
            assert [event.daemon for event in await world.events(Failed) if isinstance(event, Failed)] == ["stuck"]
            with pytest.raises(SupervisionError, match="cannot run twice"):
                await sup.clear("stuck")
            assert next(lives) == 1
            assert undisturbed(sup, "sound")
            release.set()
            await wait_until(lambda: sup._units["stuck"].task.done(), PATIENT)  # type: ignore[union-attr]  # it has one
            release.clear()
            await sup.clear("stuck")
            assert next(lives) == 3
            release.set()

    play(tmp_path, story, simulated=True)


@pytest.mark.parametrize("others_write", [True, False])
def test_a_hanging_reaction_is_detected_by_its_position(tmp_path: Path, others_write: bool) -> None:
    """A reaction that blocks other writers is cut off by the store, its delivery is parked, and its reader goes on;
    without other writers the reader's position does not move, and the supervisor detects it."""

    async def story(world: World) -> list[str]:
        seen: list[str] = []
        sup = supervisor(world, clock=loop_clock())

        async def reacts(event: Left, envelope: object, tx: Tx) -> None:
            if event.node == "stuck":
                await asyncio.Event().wait()
            seen.append(event.node)

        async def writes() -> None:
            if others_write:
                await world.router.publish(Joined(node="x", profile="full"))

        reader = Daemon(name="reader", run=reacts, on=(Left,), restart=SLOW)
        async with sup.run([serving("sound"), reader, ticking("writer", writes, every=1.0)], PARTS, "full"):
            await world.router.publish_many([Left(node="stuck"), Left(node="next")])
            await wait_until(lambda: "next" in seen or sup.status("reader").state == "failed", PATIENT)

            report = sup.status("reader")
            assert report.failures >= 1
            assert report.restarts == (0 if others_write else SLOW.times)
            expected = (
                "TimeoutError: it was cut off" if others_write else "TimeoutError: no progress for more than 60 s"
            )
            assert report.last_error == expected
            assert undisturbed(sup, "sound", "writer")
        return seen

    assert play(tmp_path, story, simulated=True) == (["next"] if others_write else [])


def test_a_daemon_that_rests_between_its_ticks_does_not_hang(tmp_path: Path) -> None:
    """Silence is measured against the ticks that were declared, and not only against the length of one."""

    async def story(world: World) -> None:
        loop, ticks = asyncio.get_running_loop(), count()
        sup = supervisor(world, clock=loop_clock())

        async def rests() -> None:
            next(ticks)

        async with sup.run([ticking("seldom", rests, every=200.0, seconds_max=1.0)], PARTS, "full"):
            await wait_until(lambda: loop.time() > 500.0, PATIENT)

            assert undisturbed(sup, "seldom")
            assert next(ticks) == 3

    play(tmp_path, story, simulated=True)


def test_a_reader_without_its_role_does_not_hang(tmp_path: Path) -> None:
    """It still assumes its role and is refused again and again: it has nothing to do, which is not its failure."""

    async def story(world: World) -> None:
        loop, refused = asyncio.get_running_loop(), count()

        async def check(role: str, tx: Tx) -> None:
            next(refused)
            raise NotLeader(role, "another node")

        async def reacts(event: Left, envelope: object, tx: Tx) -> None:
            raise AssertionError

        sup = Supervisor("here", world.router, loop_clock(), holds=lambda role: True, check=check)
        reader = Daemon(name="reader", run=reacts, on=(Left,), role="fill", restart=SLOW)
        async with sup.run([reader], PARTS, "full"):
            await world.router.publish(Left(node="a"))
            await wait_until(lambda: loop.time() > 300.0, PATIENT)

            assert undisturbed(sup, "reader")
            assert next(refused) > 100

    play(tmp_path, story, simulated=True)


def test_a_tick_that_swallows_its_cancellation_is_the_last(tmp_path: Path) -> None:
    """Whatever its body does with the cancellation, a ticking daemon stops after it."""

    async def story(world: World) -> None:
        runs, sup = count(), supervisor(world, clock=loop_clock())

        async def swallows() -> None:
            if next(runs) == 1:
                with suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()

        async with sup.run([ticking("deaf", swallows, every=1.0)], PARTS, "full"):
            await wait_until(lambda: sup.status("deaf").runs == 2, PATIENT)
            assert await sup.stop("deaf")
            await asyncio.sleep(10 * LIFE_SECONDS)

            assert next(runs) == 2

    play(tmp_path, story, simulated=True)


def test_a_suspended_node_blames_no_daemon(tmp_path: Path) -> None:
    """After a pause of the whole process every daemon gets its full time again."""

    async def story(world: World) -> None:
        loop = asyncio.get_running_loop()
        sup = supervisor(world, clock=loop_clock())

        async def seldom(*, alive: Callable[[], None]) -> None:
            while True:
                alive()
                await asyncio.sleep(2 * INTERVALS.routine_seconds - LIFE_SECONDS)

        async with sup.run([serving("one"), serving("two", seldom)], PARTS, "full"):
            await asyncio.sleep(LIFE_SECONDS)
            loop.clock("world").ticks += 3600.0  # type: ignore[attr-defined]  # the simulated loop has clocks
            before = loop.time()
            await wait_until(lambda: loop.time() > before + 2 * INTERVALS.routine_seconds, PATIENT)

            assert undisturbed(sup, "one", "two")

    play(tmp_path, story, simulated=True)
