"""One daemon can be stopped, started and restarted while the others run, and groups share their fate."""

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from ringrift.cluster.daemon_summary import summarize
from ringrift.events.daemon import Cleared, Failed
from ringrift.kernel.errors import SettingsError, UnknownName
from ringrift.kernel.health import Health, Status
from ringrift.supervision.spec import Restart
from ringrift.supervision.unit import _HISTORY_MAX
from unit.supervision.watched import (
    LIFE_SECONDS,
    PARTS,
    QUICK,
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


def test_a_daemon_is_stopped_started_and_restarted_alone(tmp_path: Path) -> None:
    """Each command has its effect once, and daemons that start after it do not notice."""

    async def story(world: World) -> None:
        sup = supervisor(world, clock=loop_clock())
        async with sup.run([serving("first"), serving("second", after=("first",))], PARTS, "full"):
            assert not await sup.start("first"), "it runs"
            assert await sup.stop("first")
            assert sup.status("first").state == "stopped"
            await asyncio.sleep(LIFE_SECONDS)
            assert undisturbed(sup, "second")
            assert await sup.start("first")
            assert health(sup, "first").status is Status.HEALTHY
            await sup.restart("first")

            assert (sup.status("first").state, sup.status("first").restarts) == ("running", 2)
            assert undisturbed(sup, "second")
            for call in (sup.start, sup.stop, sup.restart):
                with pytest.raises(UnknownName, match="unknown daemon 'third'; known: first, second"):
                    await call("third")
            with pytest.raises(UnknownName):
                sup.status("third")

    play(tmp_path, story, simulated=True)


def test_a_report_has_every_figure(tmp_path: Path) -> None:
    """Runs, failures with their moments, the last error, and since when."""

    async def story(world: World) -> None:
        clock, runs = world.clock, count(1)
        sup = supervisor(world)
        many = Restart(times=_HISTORY_MAX + 10, first_seconds=0.0, seconds_max=0.0)

        async def works() -> None:
            number = next(runs)
            clock.seconds += 2.5
            if number <= _HISTORY_MAX + 5:
                raise ValueError(f"failure {number}")
            await asyncio.Event().wait() if number > _HISTORY_MAX + 6 else None

        start = clock.now()
        spec = ticking("works", works, restart=many, category="sync", critical=True, group="files")
        async with sup.run([spec], PARTS, "full"):
            await wait_until(lambda: sup.status("works").runs == _HISTORY_MAX + 7)

            report = sup.status("works")
            assert [report] == sup.statuses()
            assert (report.name, report.category, report.critical) == ("works", "sync", True)
            assert (report.state, report.ready) == ("running", True)
            assert (report.failures, report.restarts, report.waits, report.stalls) == (_HISTORY_MAX + 5,) * 2 + (0, 0)
            assert report.last_error == f"ValueError: failure {_HISTORY_MAX + 5}"
            assert [entry.error for entry in report.history][:1] == ["ValueError: failure 6"]
            assert len(report.history) == _HISTORY_MAX
            assert report.since == report.history[-1].time == start + 2.5 * (_HISTORY_MAX + 5)
            assert report.health.status is Status.DEGRADED

    play(tmp_path, story)


def test_health_has_the_time_of_its_last_change(tmp_path: Path) -> None:
    """The time is that of the last change of status, and not of the last check."""

    async def story(world: World) -> None:
        sup = supervisor(world)
        async with sup.run([serving("one")], PARTS, "full"):
            first = health(sup, "one").since
            world.clock.seconds += 5.0
            assert health(sup, "one").since == first
            await sup.stop("one")
            stopped = health(sup, "one").since
            world.clock.seconds += 5.0

            assert first is not None
            assert stopped == health(sup, "one").since == first + 5.0

    play(tmp_path, story)


def test_probes_check_only_critical_daemons(tmp_path: Path) -> None:
    """An unhealthy critical daemon ends liveness with its name; any other does not."""

    async def story(world: World) -> None:
        sup = supervisor(world)

        async def crashes() -> None:
            raise ValueError("no")

        heart, hobby = ticking("heart", crashes, critical=True), ticking("hobby", crashes)
        async with sup.run([hobby, serving("sound", critical=True)], PARTS, "full"):
            await wait_until(lambda: sup.status("hobby").state == "failed")
            assert summarize(sup.statuses(), sup.health()).liveness()
            assert summarize(sup.statuses(), sup.health()).readiness()
            await sup.stop("sound")
            assert summarize(sup.statuses(), sup.health()).liveness()
            assert not summarize(sup.statuses(), sup.health()).readiness(), "unknown is not ready"
        sup = supervisor(world)
        async with sup.run([heart, serving("sound", critical=True)], PARTS, "full"):
            await wait_until(lambda: sup.status("heart").state == "failed")

            assert not summarize(sup.statuses(), sup.health()).liveness()
            assert summarize(sup.statuses(), sup.health()).liveness().reasons == ("heart: given up: ValueError: no",)

    play(tmp_path, story)


def test_a_plugin_that_cannot_be_used_is_in_the_health(tmp_path: Path) -> None:
    """The node runs without it, and reports it."""

    async def story(world: World) -> list[tuple[str, Status]]:
        sup = supervisor(world)
        broken = Health(part="plugin foreign", status=Status.UNHEALTHY, reason="ImportError: no")
        async with sup.run([serving("one")], PARTS, "full", [broken]):
            return [(entry.part, entry.status) for entry in sup.health()]

    assert play(tmp_path, story) == [("one", Status.HEALTHY), ("plugin foreign", Status.UNHEALTHY)]


def test_a_group_is_started_again_together_and_in_order(tmp_path: Path) -> None:
    """When one of a group fails, all of it stop in reverse and start in order; daemons outside do not notice."""

    async def story(world: World) -> list[str]:
        steps: list[str] = []
        crash = asyncio.Event()
        sup = supervisor(world, clock=loop_clock())

        def member(name: str) -> Callable[..., object]:
            async def body(*, alive: Callable[[], None]) -> None:
                steps.append(f"+{name}")
                alive()
                try:
                    if name == "b":
                        await crash.wait()
                        crash.clear()
                        raise ValueError("no")
                    await serve(alive=alive)
                finally:
                    steps.append(f"-{name}")

            return body

        daemons = [serving(name, member(name), group="g") for name in "abc"]  # type: ignore[arg-type]  # as it is
        async with sup.run([*daemons, serving("apart")], PARTS, "full"):
            crash.set()
            await wait_until(lambda: steps[-1:] == ["+c"] and len(steps) == 9, PATIENT)

            assert [sup.status(name).restarts for name in "abc"] == [1, 1, 1]
            assert [sup.status(name).failures for name in "abc"] == [0, 1, 0]
            assert undisturbed(sup, "apart")
            await sup.stop("c")
            crash.set()
            await wait_until(lambda: sup.status("b").restarts == 2 and sup.status("b").ready, PATIENT)
            assert sup.status("c").state == "stopped", "what was stopped by hand stays so"
            assert undisturbed(sup, "apart")
        return steps[:9]

    assert play(tmp_path, story, simulated=True) == ["+a", "+b", "+c", "-b", "-c", "-a", "+a", "+b", "+c"]


def test_a_group_is_given_up_and_cleared_together(tmp_path: Path) -> None:
    """When one of it is beyond its budget the others rest too, and one command brings all of them back."""

    async def story(world: World) -> None:
        mended = asyncio.Event()
        sup = supervisor(world, clock=loop_clock())

        async def crashes() -> None:
            if not mended.is_set():
                raise ValueError("no")

        daemons = [serving("a", group="g"), ticking("b", crashes, group="g", restart=QUICK), serving("apart")]
        async with sup.run(daemons, PARTS, "full"):
            await wait_until(lambda: sup.status("a").state == sup.status("b").state == "failed", PATIENT)
            assert health(sup, "a").reason == "given up: with b, of its group: ValueError: no"
            await wait_until(lambda: sup._units["a"].task.done(), PATIENT)  # type: ignore[union-attr]  # it has one
            assert undisturbed(sup, "apart")
            mended.set()
            await sup.clear("a")

            assert [health(sup, name).status for name in ("a", "b")] == [Status.HEALTHY] * 2
            assert undisturbed(sup, "apart")
        failed = [event.daemon for event in await world.events(Failed) if isinstance(event, Failed)]
        cleared = [event.daemon for event in await world.events(Cleared) if isinstance(event, Cleared)]
        assert sorted(failed) == cleared == ["a", "b"]

    play(tmp_path, story, simulated=True)


def test_a_hard_need_must_run_on_this_node(tmp_path: Path) -> None:
    """A hard need that is absent in this profile is an error that names both, before anything has started."""

    async def story(world: World) -> None:
        sup = supervisor(world)
        heart = serving("heart", profiles=frozenset({"full"}))
        async with sup.run([serving("body", needs=("heart",)), heart], PARTS, "full"):
            assert [entry.name for entry in sup.statuses()] == ["heart", "body"]
        with pytest.raises(SettingsError, match=r"daemon body 'heart' .*needs this daemon, which does not run here"):
            async with sup.run([heart, serving("body", needs=("heart",))], PARTS, "minimal"):
                pass

    play(tmp_path, story)


def test_a_duplicate_name_is_refused_in_every_profile(tmp_path: Path) -> None:
    """This holds also if only one of the two would run: the node may have the other profile later."""

    async def story(world: World) -> None:
        one, two = serving("x", profiles=frozenset({"full"})), serving("x", profiles=frozenset({"minimal"}))
        with pytest.raises(SettingsError, match=r"\['x'\].*names must differ"):
            async with supervisor(world).run([one, two], PARTS, "full"):
                pass

    play(tmp_path, story)
