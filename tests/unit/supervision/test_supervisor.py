"""The supervisor keeps daemons alive, and gives up in time."""

import asyncio
from itertools import count
from pathlib import Path

import pytest

from ringrift.events.daemon import Cleared, Failed, Started, Stopped
from ringrift.events.node import Joined, Left
from ringrift.kernel.errors import NotLeader, Unbound, UnknownName
from ringrift.kernel.health import Status
from ringrift.store.ports import Tx
from ringrift.supervision.spec import Daemon
from ringrift.supervision.supervisor import Supervisor
from unit.supervision.watched import PARTS, QUICK, failing, health, supervisor, ticking
from unit.work.world import World, play
from wait import wait_until


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
        assert await world.events(Failed) == []

    play(tmp_path, story)


def test_a_daemon_beyond_its_budget_is_given_up_once_and_the_others_go_on(tmp_path: Path) -> None:
    """The third failure is one too many: one event is published, it never runs again, and its neighbour ticks on."""

    async def story(world: World) -> None:
        body, runs = failing(10**9, asyncio.Event())
        ticks, sup = count(), supervisor(world)

        async def tick() -> None:
            next(ticks)

        async with sup.run([ticking("broken", body), ticking("sound", tick)], PARTS, "full"):
            await wait_until(lambda: health(sup, "broken").reason.startswith("given up"))
            before = next(ticks)
            await wait_until(lambda: next(ticks) > before + 10)

            assert runs() == 3
            assert health(sup, "broken").reason == "given up: ValueError: failure 3"
            assert health(sup, "sound").status is Status.HEALTHY
        event = Failed(daemon="broken", node="here", error="ValueError: failure 3", times=2, seconds=300.0)
        assert await world.events(Failed) == [event]

    play(tmp_path, story)


def test_clearing_brings_a_given_up_daemon_back(tmp_path: Path) -> None:
    """Only an operator's command starts it again, with a clean record."""

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

            async def is_published() -> bool:
                return bool(await world.events(Cleared))

            await wait_until(is_published)  # it is published later
            assert await world.events(Cleared) == [Cleared(daemon="weak", node="here")]
            await sup.clear("weak")
            assert len(await world.events(Cleared)) == 1, "it had not been given up"
            with pytest.raises(UnknownName, match="unknown daemon 'week'; known: weak"):
                await sup.clear("week")

    play(tmp_path, story)


def test_starts_and_stops_are_published(tmp_path: Path) -> None:
    """Subscribers receive each start with the failures on its record, and each end with its error or none."""

    async def story(world: World) -> None:
        reports: list[tuple[str, object]] = []
        done = asyncio.Event()
        body, _ = failing(1, done)
        sup = supervisor(world)

        async def record(event: Started | Stopped, envelope: object) -> None:
            reports.append(("started", event.failures) if isinstance(event, Started) else ("stopped", event.error))

        world.router.subscribe((Started, Stopped), record, name="test")
        async with sup.run([ticking("weak", body)], PARTS, "full"):
            await done.wait()
        await wait_until(lambda: len(reports) == 4)
        await world.router.close()

        assert reports == [("started", 0), ("stopped", "ValueError: failure 1"), ("started", 1), ("stopped", "")]

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


def test_a_duty_with_a_role_runs_only_where_the_role_is_held(tmp_path: Path) -> None:
    """Without its role a daemon is well but idle; it works from when the role comes until it goes."""

    async def story(world: World) -> None:
        roles: set[str] = set()
        ran = asyncio.Event()
        sup = supervisor(world, roles)

        async def body() -> None:
            assert roles
            ran.set()

        async with sup.run([ticking("duty", body, role="fill")], PARTS, "full"):
            await wait_until(lambda: health(sup, "duty").status is Status.HEALTHY)
            assert not ran.is_set()
            roles.add("fill")
            await ran.wait()
            roles.clear()
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
        roles: set[str] = set()
        nodes: list[str] = []
        sup = supervisor(world, roles)

        async def body(event: Left, envelope: object, tx: Tx) -> None:
            nodes.append(event.node)

        spec = Daemon(name="reader", run=body, on=(Left,), role="fill", restart=QUICK)
        async with sup.run([spec], PARTS, "full"):
            await world.router.publish_many([Left(node="a"), Joined(node="x", profile="full"), Left(node="b")])
            await wait_until(lambda: health(sup, "reader").status is Status.HEALTHY)
            assert nodes == []
            roles.add("fill")
            await wait_until(lambda: len(nodes) == 2)
            await world.router.publish(Left(node="c"))
            await wait_until(lambda: len(nodes) == 3)

            assert health(sup, "reader").status is Status.HEALTHY
        return nodes

    assert play(tmp_path, story) == ["a", "b", "c"]


def test_a_reader_with_an_expired_term_changes_nothing_and_has_not_failed(tmp_path: Path) -> None:
    """A node that still assumes its role reacts in transactions that have no effect, and reads on later."""

    async def story(world: World) -> None:
        roles, nodes, refused = {"fill"}, [], asyncio.Event()

        async def check(role: str, tx: Tx) -> None:
            if role not in roles:
                refused.set()
                raise NotLeader(role, "another node")

        async def body(event: Left, envelope: object, tx: Tx) -> None:
            nodes.append(event.node)

        sup = Supervisor("here", world.router, world.clock, holds=lambda role: True, check=check)
        async with sup.run([Daemon(name="reader", run=body, on=(Left,), role="fill", restart=QUICK)], PARTS, "full"):
            roles.clear()
            await world.router.publish(Left(node="a"))
            await refused.wait()
            assert nodes == []
            roles.add("fill")
            await wait_until(lambda: nodes == ["a"])

            assert health(sup, "reader").status is Status.HEALTHY

    play(tmp_path, story)


def test_nothing_starts_if_a_part_is_missing(tmp_path: Path) -> None:
    """A wrong name is detected before the first daemon runs."""

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
            return [health.part for health in sup.health()]

    assert play(tmp_path, story) == ["ours"]
