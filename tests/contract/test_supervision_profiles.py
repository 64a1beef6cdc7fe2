"""Every profile starts, reports only its daemons, stops in time, and is not disturbed by a failing daemon."""

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from ringrift.cluster.daemon_summary import summarize
from ringrift.daemons import DAEMONS
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import SettingsError
from ringrift.kernel.health import Status, worst
from ringrift.kernel.settings import PROFILES, NodeSettings, Settings, WorkSettings
from ringrift.node import Node
from ringrift.supervision.spec import CATEGORIES, Daemon, Restart, in_order
from unit.supervision.watched import stop_seconds_max
from wait import wait_until

START_SECONDS_MAX, STOP_SECONDS_MAX = 10.0, 5.0
"""Far above the usual time, because test machines are busy; the bench has the limits of performance."""
BUDGET_SECONDS_MAX = 110.0
"""How long a node may take to stop in the worst case: the jobs' grace period and a little."""
QUICK = Restart(times=2, seconds=300.0, first_seconds=0.001, seconds_max=0.002)


def settings(home: Path, profile: str) -> Settings:
    """A node of *profile* in *home*."""
    return msgspec.structs.replace(Settings.local(home), node=NodeSettings(id="n1", profile=profile))


def of(profile: str) -> list[str]:
    """The names of the daemons of *profile*."""
    return [daemon.name for daemon in DAEMONS if profile in daemon.profiles]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_starts_reports_its_daemons_and_stops(tmp_path: Path, profile: str) -> None:
    """All of its daemons and no others are reported, each becomes healthy, and all have ended in time."""
    clock = SystemClock()

    async def story() -> tuple[Node, float]:
        async with asyncio.timeout(60.0):
            begun = clock.tick()
            async with Node.open(settings(tmp_path, profile), clock, Random(1)) as node:
                sup = node.supervisor
                await wait_until(lambda: worst(sup.health()) is Status.HEALTHY, START_SECONDS_MAX)
                assert clock.tick() - begun < START_SECONDS_MAX
                assert [status.name for status in sup.statuses()] == of(profile)
                assert {status.state for status in sup.statuses()} == {"running"}
                assert all((status.restarts, status.last_error) == (0, "") for status in sup.statuses())
                assert summarize(sup.statuses(), sup.health()).liveness()
                assert summarize(sup.statuses(), sup.health()).readiness()
                start = clock.tick()
            return node, clock.tick() - start

    node, seconds = asyncio.run(story())

    assert {status.state for status in node.supervisor.statuses()} == {"stopped"}
    assert {health.reason for health in node.supervisor.health()} == {"stopped"}
    assert not any(health.points for health in node.supervisor.health())
    assert seconds < STOP_SECONDS_MAX


@pytest.mark.parametrize("profile", PROFILES)
def test_no_profile_lacks_what_one_of_its_daemons_needs(profile: str) -> None:
    """The node would not start: so no built-in daemon needs one that its profile does not run."""
    chosen = [daemon for daemon in DAEMONS if profile in daemon.profiles]

    assert in_order(chosen)
    assert stop_seconds_max(chosen, Settings()) <= BUDGET_SECONDS_MAX
    assert any(daemon.critical for daemon in chosen), "no daemon would show whether the node is alive"


@pytest.mark.parametrize("profile", PROFILES)
def test_a_node_beats_until_its_jobs_have_ended(profile: str) -> None:
    """Draining takes a grace period: a node without beats meanwhile would be considered lost."""
    work = next(daemon for daemon in DAEMONS if daemon.name == "work")
    chosen = [daemon for daemon in DAEMONS if profile in daemon.profiles]
    grace = Settings().work.grace_seconds

    assert "beat" in work.follows
    assert stop_seconds_max(chosen, Settings()) > grace
    assert stop_seconds_max(chosen, Settings(work=WorkSettings(grace_seconds=0.0))) <= BUDGET_SECONDS_MAX - grace


def test_every_built_in_daemon_has_a_category() -> None:
    """Lists group by category; only daemons from outside may be other."""
    assert {daemon.category for daemon in DAEMONS} <= set(CATEGORIES) - {"other"}
    assert {daemon.name for daemon in DAEMONS if daemon.critical} == {"beat", "elect", "pipeline", "work"}


def test_a_users_daemon_with_a_name_of_ours_is_refused(tmp_path: Path) -> None:
    """The node does not start, and the error contains the name."""

    async def duty() -> None:
        raise AssertionError

    async def story() -> None:
        extra = (Daemon(name="fill", run=duty, every=1.0),)
        with pytest.raises(SettingsError, match=r"\['fill'\].*names must differ"):
            async with Node.open(settings(tmp_path, "minimal"), SystemClock(), Random(1), extra=extra):
                pass

    asyncio.run(story())


def hangs() -> dict[str, Any]:
    """A tick that never ends."""

    async def body() -> None:
        await asyncio.Event().wait()

    return {"run": body, "every": 0.01, "seconds_max": 0.01}


def crashes_at_start() -> dict[str, Any]:
    """A server that fails before it serves."""

    async def body() -> None:
        raise ValueError("no")

    return {"run": body, "serve": True}


def crashes_later() -> dict[str, Any]:
    """A daemon that works three times."""
    runs = count()

    async def body() -> None:
        if next(runs) > 3:
            raise ValueError("no")

    return {"run": body, "every": 0.001}


def ends_the_program() -> dict[str, Any]:
    """A daemon that exits the program."""

    async def body() -> None:
        raise SystemExit(1)

    return {"run": body, "every": 0.001}


@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        (hangs, "took longer than 0.01 s"),
        (crashes_at_start, "ValueError: no"),
        (crashes_later, "ValueError: no"),
        (ends_the_program, "tried to end the process"),
    ],
)
def test_a_node_continues_beside_a_failing_daemon(
    tmp_path: Path, trouble: Callable[[], dict[str, Any]], error: str
) -> None:
    """The foreign daemon is named and given up; every built-in daemon continues undisturbed."""

    async def story() -> None:
        extra = (Daemon(**{"name": "foreign", "restart": QUICK} | trouble()),)
        async with (
            asyncio.timeout(60.0),
            Node.open(settings(tmp_path, "full"), SystemClock(), Random(1), extra=extra) as node,
        ):
            sup = node.supervisor
            await wait_until(lambda: sup.status("foreign").state == "failed", START_SECONDS_MAX)
            await wait_until(lambda: all(daemon.ready for daemon in sup.statuses()[:-1]), START_SECONDS_MAX)

            assert error in sup.status("foreign").health.reason
            assert sup.status("foreign").health.status is Status.UNHEALTHY
            ours = [status for status in sup.statuses() if status.name != "foreign"]
            assert [(daemon.restarts, daemon.failures, daemon.health.status) for daemon in ours] == [
                (0, 0, Status.HEALTHY) for _ in of("full")
            ]
            assert summarize(sup.statuses(), sup.health()).liveness(), "it is not critical"

    asyncio.run(story())


def test_a_node_ends_although_one_daemon_does_not(tmp_path: Path) -> None:
    """A daemon that swallows its stop is abandoned after its own limit, and the node has left in order."""
    clock = SystemClock()

    async def story() -> float:
        release = asyncio.Event()

        async def clings(*, alive: Callable[[], None]) -> None:
            alive()
            try:
                await asyncio.Event().wait()
            finally:
                await release.wait()

        extra = (Daemon(name="leaky", run=clings, serve=True, stop_seconds_max=0.05),)
        opened = Node.open(settings(tmp_path, "full"), clock, Random(1), extra=extra)
        async with asyncio.timeout(60.0), opened as node:
            start = clock.tick()
        seconds = clock.tick() - start
        healths = {health.part: health for health in node.supervisor.health()}
        assert "still runs" in healths["leaky"].reason
        assert {health.reason for name, health in healths.items() if name != "leaky"} == {"stopped"}
        release.set()
        return seconds

    assert asyncio.run(story()) < STOP_SECONDS_MAX
