"""The supervisor keeps daemons alive, gives up in time, and stops them in good order."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ringrift.events.daemon import Failed
from ringrift.events.node import Joined, Left
from ringrift.kernel.errors import NotLeader, Unbound, UnknownName, Unreachable
from ringrift.kernel.health import Health, Status
from ringrift.kernel.settings import Settings
from ringrift.store.ports import Tx
from ringrift.supervision.spec import Daemon, Restart
from ringrift.supervision.supervisor import Supervisor
from unit.work.world import World, play
from waiting import wait_until

QUICK = Restart(times=2, seconds=300.0, first_seconds=0.001, seconds_max=0.002)
PARTS: dict[str, Any] = {"settings": Settings()}
Body = Callable[..., Awaitable[None]]


def ticking(name: str, body: Body, **changes: Any) -> Daemon:
    """A daemon that ticks as fast as it can."""
    return Daemon(**{"name": name, "run": body, "every": 0.001, "restart": QUICK} | changes)


def supervisor(world: World, held: set[str] | None = None) -> Supervisor:
    """A supervisor on a node that holds the roles in *held*, which the test may change."""
    roles = set() if held is None else held

    async def check(role: str, tx: Tx) -> None:
        if role not in roles:
            raise NotLeader(role, "another node")

    return Supervisor("here", world.router, world.clock, holds=roles.__contains__, check=check)


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


def test_a_failing_daemon_is_started_again(tmp_path: Path) -> None:
    """Two failures are followed by pauses and further starts; it works on, and the failures stay on its record."""

    async def story(world: World) -> None:
        done = asyncio.Event()
        body, runs = failing(2, done)
        sup = supervisor(world)
        async with sup.run([ticking("weak", body)], PARTS, "full"):
            await done.wait()
            await wait_until(lambda: health(sup, "weak").status is Status.DEGRADED)

            assert runs() >= 3
            assert health(sup, "weak").reason == "2 recent failures, last: ValueError: failure 2"
        assert await world.told(Failed) == []

    play(tmp_path, story)


def test_a_daemon_beyond_its_budget_is_given_up_once_and_the_others_go_on(tmp_path: Path) -> None:
    """The third failure is one too many: one event says so, it never runs again, and its neighbour ticks on."""

    async def story(world: World) -> None:
        body, runs = failing(10**9, asyncio.Event())
        ticks, sup = count(), supervisor(world)

        async def tick() -> None:
            next(ticks)

        async with sup.run([ticking("broken", body), ticking("sound", tick)], PARTS, "full"):
            await wait_until(lambda: health(sup, "broken").status is Status.UNHEALTHY)
            seen = next(ticks)
            await wait_until(lambda: next(ticks) > seen + 10)

            assert runs() == 3
            assert health(sup, "broken").reason == "given up: ValueError: failure 3"
            assert health(sup, "sound").status is Status.HEALTHY
        said = Failed(daemon="broken", node="here", error="ValueError: failure 3", times=2, seconds=300.0)
        assert await world.told(Failed) == [said]

    play(tmp_path, story)


def test_clearing_brings_a_given_up_daemon_back(tmp_path: Path) -> None:
    """Only a person's word starts it again, with a clean record."""

    async def story(world: World) -> None:
        done = asyncio.Event()
        body, runs = failing(3, done)
        sup = supervisor(world)
        async with sup.run([ticking("weak", body)], PARTS, "full"):
            await wait_until(lambda: health(sup, "weak").reason.startswith("given up"))
            await sup.clear("weak")
            await done.wait()

            await wait_until(lambda: health(sup, "weak").status is Status.HEALTHY)
            assert runs() >= 4
            with pytest.raises(UnknownName, match="unknown daemon 'week'; known: weak"):
                await sup.clear("week")

    play(tmp_path, story)


def test_a_tick_that_hangs_is_ended(tmp_path: Path) -> None:
    """A tick longer than its limit is cancelled and counts as a failure."""

    async def story(world: World) -> None:
        done, runs, sup = asyncio.Event(), count(), supervisor(world)

        async def body() -> None:
            if next(runs) == 0:
                await asyncio.Event().wait()
            done.set()

        async with sup.run([ticking("slow", body, seconds_max=0.01)], PARTS, "full"):
            await done.wait()

            assert "TimeoutError" in health(sup, "slow").reason

    play(tmp_path, story)


def test_daemons_stop_in_reverse_order_each_before_the_next(tmp_path: Path) -> None:
    """What started last stops first, and is done before the one before it is asked."""

    async def story(world: World) -> list[str]:
        steps: list[str] = []

        def serving(name: str, *after: str) -> Daemon:
            async def body(*, alive: Callable[[], None]) -> None:
                steps.append(f"{name} starts")
                alive()
                try:
                    await asyncio.Event().wait()
                finally:
                    await asyncio.sleep(0)
                    steps.append(f"{name} stops")

            return Daemon(name=name, run=body, serve=True, after=after)

        async with supervisor(world).run([serving("b", "a"), serving("a"), serving("c", "b")], PARTS, "full"):
            steps.append("body")
        return steps

    steps = play(tmp_path, story)

    assert steps == ["a starts", "b starts", "c starts", "body", "c stops", "b stops", "a stops"]


def test_a_duty_with_a_role_runs_only_where_the_role_is_held(tmp_path: Path) -> None:
    """Without its role a daemon is well but idle; it works from when the role comes until it goes."""

    async def story(world: World) -> None:
        held: set[str] = set()
        ran = asyncio.Event()
        sup = supervisor(world, held)

        async def body() -> None:
            assert held
            ran.set()

        async with sup.run([ticking("duty", body, role="fill")], PARTS, "full"):
            await wait_until(lambda: health(sup, "duty").status is Status.HEALTHY)
            assert not ran.is_set()
            held.add("fill")
            await ran.wait()
            held.clear()
            for _ in range(10):
                await asyncio.sleep(0)

            assert health(sup, "duty").status is Status.HEALTHY

    play(tmp_path, story)


def test_losing_a_role_in_the_middle_is_not_a_failure(tmp_path: Path) -> None:
    """A tick that finds another leader has simply not happened."""

    async def story(world: World) -> None:
        runs, enough, sup = count(), asyncio.Event(), supervisor(world)

        async def body() -> None:
            if next(runs) > 5:
                enough.set()
            raise NotLeader("fill", "another node")

        async with sup.run([ticking("duty", body)], PARTS, "full"):
            await enough.wait()

            assert health(sup, "duty").status is Status.HEALTHY

    play(tmp_path, story)


def test_a_reader_reacts_to_its_events_under_its_role(tmp_path: Path) -> None:
    """A daemon on events sees each of them once and nothing else, and only while its node holds the role."""

    async def story(world: World) -> list[str]:
        held: set[str] = set()
        seen: list[str] = []
        sup = supervisor(world, held)

        async def body(event: Left, envelope: object, tx: Tx) -> None:
            seen.append(event.node)

        spec = Daemon(name="reader", run=body, on=(Left,), role="fill", restart=QUICK)
        async with sup.run([spec], PARTS, "full"):
            await world.router.publish_many([Left(node="a"), Joined(node="x", profile="full"), Left(node="b")])
            await wait_until(lambda: health(sup, "reader").status is Status.HEALTHY)
            assert seen == []
            held.add("fill")
            await wait_until(lambda: len(seen) == 2)
            await world.router.publish(Left(node="c"))
            await wait_until(lambda: len(seen) == 3)

            assert health(sup, "reader").status is Status.HEALTHY
        return seen

    assert play(tmp_path, story) == ["a", "b", "c"]


def test_a_reader_whose_term_is_over_changes_nothing_and_has_not_failed(tmp_path: Path) -> None:
    """A node that still believes in its role reacts in transactions that have no effect, and reads on later."""

    async def story(world: World) -> None:
        held, seen, refused = {"fill"}, [], asyncio.Event()

        async def check(role: str, tx: Tx) -> None:
            if role not in held:
                refused.set()
                raise NotLeader(role, "another node")

        async def body(event: Left, envelope: object, tx: Tx) -> None:
            seen.append(event.node)

        sup = Supervisor("here", world.router, world.clock, holds=lambda role: True, check=check)
        async with sup.run([Daemon(name="reader", run=body, on=(Left,), role="fill", restart=QUICK)], PARTS, "full"):
            held.clear()
            await world.router.publish(Left(node="a"))
            await refused.wait()
            assert seen == []
            held.add("fill")
            await wait_until(lambda: seen == ["a"])

            assert health(sup, "reader").status is Status.HEALTHY

    play(tmp_path, story)


def test_nothing_starts_if_a_part_is_missing(tmp_path: Path) -> None:
    """A wrong name is found before the first daemon runs."""

    async def story(world: World) -> None:
        ran = asyncio.Event()

        async def sound() -> None:
            ran.set()

        async def needy(*, stroe: object) -> None:
            raise AssertionError

        with pytest.raises(Unbound, match="'stroe'"):
            async with supervisor(world).run([ticking("sound", sound), ticking("needy", needy)], PARTS, "full"):
                pass

        assert not ran.is_set()

    play(tmp_path, story)


def test_only_the_daemons_of_the_profile_run(tmp_path: Path) -> None:
    """A node runs what its kind of node runs, and its seconds may stand in the settings."""

    async def story(world: World) -> list[str]:
        async def body() -> None:
            pass

        ours = ticking("ours", body, every="work.rescue_seconds", profiles=frozenset({"selfplay"}))
        theirs = ticking("theirs", body, profiles=frozenset({"full"}))
        sup = supervisor(world)
        async with sup.run([ours, theirs], PARTS, "selfplay"):
            return [one.part for one in sup.health()]

    assert play(tmp_path, story) == ["ours"]


def test_one_daemon_can_be_stopped_and_started(tmp_path: Path) -> None:
    """Stopping one leaves the others alone; clearing starts it again."""

    async def story(world: World) -> None:
        async def body() -> None:
            pass

        sup = supervisor(world)
        async with sup.run([ticking("one", body), ticking("two", body)], PARTS, "full"):
            await sup.stop("one")
            assert [(one.part, one.status) for one in sup.health()] == [
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


def test_a_store_that_breaks_at_the_start_is_told_at_once(tmp_path: Path) -> None:
    """Nobody waits for the readiness of a daemon that has ended because the store is gone."""

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
    """Who is to serve for as long as the node runs, and returns, is started again like any other that failed."""

    async def story(world: World) -> None:
        runs, sup = count(), supervisor(world)

        async def body() -> None:
            next(runs)

        async with sup.run([Daemon(name="server", run=body, serve=True, restart=QUICK)], PARTS, "full"):
            await wait_until(lambda: health(sup, "server").status is Status.UNHEALTHY, seconds=100.0)

            assert asyncio.get_running_loop().time() < 10.0
            assert next(runs) == 3
            assert health(sup, "server").reason.startswith("given up")

    play(tmp_path, story, simulated=True)
