"""A whole node beside a daemon that blocks, does not stop or has its own role: it is named, no other is disturbed."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import msgspec
import pytest

from ringrift.cluster.daemon_summary import summarize
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import SupervisionError
from ringrift.kernel.health import Status
from ringrift.kernel.settings import PROFILES, NodeSettings, Settings, StoreSettings
from ringrift.node import Node
from ringrift.sim.blobs import MemoryBlobs
from ringrift.sim.disk import Disk
from ringrift.sim.launch import SimLaunch, WorkerBehaviour
from ringrift.sim.loop import SimLoop
from ringrift.sim.loop import run as simulate
from ringrift.store.open import open_store
from ringrift.supervision.hang_detector import STALL_SECONDS_MAX, CheckIntervals
from ringrift.supervision.spec import Daemon
from unit.work.world import inline
from wait import wait_until

BLOCKED_SECONDS = STALL_SECONDS_MAX + 0.5
SECONDS_MAX = 10.0
ELECT_SECONDS = 0.05
VIRTUAL_SECONDS = 5 * CheckIntervals().routine_seconds


def settings(home: Path, profile: str = "full") -> Settings:
    """A node in *home* that elects often."""
    local = Settings.local(home)
    cluster = msgspec.structs.replace(local.cluster, elect_seconds=ELECT_SECONDS)
    return msgspec.structs.replace(local, node=NodeSettings(id="n1", profile=profile), cluster=cluster)


def undisturbed(node: Node) -> bool:
    """Whether all built-in daemons are healthy, and have started once and never failed."""
    ours = [report for report in node.supervisor.statuses() if report.name != "foreign"]
    return all((daemon.health.status, daemon.restarts, daemon.failures) == (Status.HEALTHY, 0, 0) for daemon in ours)


def test_a_blocked_loop_is_reported_with_daemon_duration_and_line(tmp_path: Path) -> None:
    """The daemon is degraded with the seconds and the line; the others continue undisturbed."""
    blocked = threading.Event()

    async def block() -> None:
        if not blocked.is_set():
            blocked.set()
            threading.Event().wait(BLOCKED_SECONDS)

    async def story() -> None:
        extra = (Daemon(name="foreign", run=block, every=0.05),)
        opened = Node.open(settings(tmp_path), SystemClock(), Random(1), extra=extra)
        async with asyncio.timeout(60.0), opened as node:
            sup = node.supervisor
            await wait_until(lambda: sup.status("foreign").stalls > 0, SECONDS_MAX)
            await wait_until(lambda: undisturbed(node), SECONDS_MAX)

            health = sup.status("foreign").health
            assert health.status is Status.DEGRADED
            assert health.reason.startswith("blocked the event loop for ")
            assert float(health.reason.split()[5]) >= STALL_SECONDS_MAX
            assert "test_supervision_nodes.py:" in health.reason
            assert health.reason.endswith(" in block")
            assert summarize(sup.statuses(), sup.health()).liveness()
            assert summarize(sup.statuses(), sup.health()).readiness()
            before = sup.status("beat").runs
            await wait_until(lambda: sup.status("elect").runs > before + 2, SECONDS_MAX)

    asyncio.run(story())


async def swallow(release: asyncio.Event) -> None:
    """Wait for *release* and for nothing else, ignoring cancellation."""
    while not release.is_set():
        try:
            await release.wait()
        except asyncio.CancelledError:
            continue


def test_a_daemon_that_swallows_its_stop_is_named_and_not_started_twice(tmp_path: Path) -> None:
    """Stopping it ends in time and reports it; it cannot be started a second time, and the node still ends."""

    async def story() -> None:
        release = asyncio.Event()

        async def clings(*, alive: Callable[[], None]) -> None:
            alive()
            await swallow(release)

        extra = (Daemon(name="foreign", run=clings, serve=True, stop_seconds_max=0.05),)
        opened = Node.open(settings(tmp_path), SystemClock(), Random(1), extra=extra)
        async with asyncio.timeout(60.0), opened as node:
            sup = node.supervisor
            assert not await sup.stop("foreign")

            health = sup.status("foreign").health
            assert health.status is Status.UNHEALTHY
            assert "was told to stop and still runs" in health.reason
            with pytest.raises(SupervisionError, match="cannot run twice"):
                await sup.start("foreign")
            await wait_until(lambda: undisturbed(node), SECONDS_MAX)
            assert summarize(sup.statuses(), sup.health()).liveness(), "it is not critical"
        release.set()

    asyncio.run(story())


def test_a_daemon_that_hangs_and_swallows_its_cancellation_is_given_up(tmp_path: Path) -> None:
    """It makes no progress, is cancelled, does not end: it is failed by name, and the rest of the node continues."""

    async def story(node: Node, release: asyncio.Event) -> None:
        sup = node.supervisor
        await wait_until(lambda: sup.status("foreign").state == "failed", VIRTUAL_SECONDS)  # of virtual time

        assert "hangs and does not stop" in sup.status("foreign").health.reason
        assert undisturbed(node)
        assert summarize(sup.statuses(), sup.health()).liveness()
        release.set()

    in_virtual_time(tmp_path, story)


def in_virtual_time(folder: Path, story: Callable[[Node, asyncio.Event], Awaitable[None]]) -> None:
    """Run *story* on a node of the simulator that has a daemon named foreign, which never stops."""
    disk = Disk(f"node-{folder.name}", Random(7))

    async def main(loop: SimLoop) -> None:
        release, clock = asyncio.Event(), loop.clock("world")

        async def clings() -> None:
            await swallow(release)

        extra = (Daemon(name="foreign", run=clings, serve=True, seconds_max=5.0, stop_seconds_max=1.0),)
        blobs = MemoryBlobs("n1")
        launch = SimLaunch(blobs, Random(1), WorkerBehaviour())
        async with open_store(StoreSettings(path="store.db"), clock, offload=inline, vfs=disk.name) as store:
            opened = Node.open(settings(folder), clock, Random(1), store=store, blobs=blobs, launch=launch, extra=extra)
            async with opened as node:
                await story(node, release)

    try:
        simulate(1, main)
    finally:
        disk.unregister()


def greeter(name: str, done: asyncio.Event) -> Daemon:
    """A user's daemon with its own role."""

    async def greet() -> None:
        done.set()

    everywhere = frozenset(PROFILES)
    return Daemon(name=name, run=greet, every=0.01, role=name, after=("elect",), profiles=everywhere)


async def role_holders(node: Node) -> dict[str, str]:
    """The holder of each role."""
    async with node.store.read() as view:
        return {row.role: row.holder for row in await view.roles()}


def test_the_role_of_a_users_daemon_is_elected(tmp_path: Path) -> None:
    """A daemon registered at the start, and one added while the node runs, both act under their roles."""

    async def story() -> None:
        early, late = asyncio.Event(), asyncio.Event()
        opened = Node.open(settings(tmp_path), SystemClock(), Random(1), extra=(greeter("greet", early),))
        async with asyncio.timeout(60.0), opened as node:
            await early.wait()
            assert (await role_holders(node))["greet"] == "n1"

            node.supervisor.add(greeter("greet_late", late))
            await node.supervisor.start("greet_late")
            await late.wait()

            assert (await role_holders(node))["greet_late"] == "n1"

    asyncio.run(story())


PLUGIN = """
from ringrift.supervision.spec import Daemon

async def wave(*, roles):
    assert roles.holds("wave")

SPEC = Daemon(name="wave", run=wave, every=0.01, role="wave", after=("elect",))
"""


def test_the_role_of_a_plug_in_is_elected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon of another package, health by its entry point, acts under its role."""
    about = tmp_path / "site" / "waver-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: waver\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[ringrift.daemons]\nwave = waver_of_a_test:SPEC\n")
    (tmp_path / "site" / "waver_of_a_test.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path / "site")

    async def story() -> None:
        opened = Node.open(settings(tmp_path), SystemClock(), Random(1))
        async with asyncio.timeout(60.0), opened as node:
            await wait_until(lambda: node.supervisor.status("wave").runs > 0, SECONDS_MAX)

            assert (await role_holders(node))["wave"] == "n1"
            assert node.supervisor.status("wave").failures == 0

    asyncio.run(story())


@pytest.mark.parametrize(("profile", "leads"), [("training_node", True), ("full", False)])
def test_a_node_that_does_not_lead_takes_no_role_of_a_users_daemon(tmp_path: Path, profile: str, leads: bool) -> None:
    """Only coordinators take roles, and one that is configured not to lead does not."""

    async def story() -> None:
        done = asyncio.Event()
        opened = Node.open(
            settings(tmp_path, profile), SystemClock(), Random(1), extra=(greeter("greet", done),), leads=leads
        )
        async with asyncio.timeout(60.0), opened as node:
            await wait_until(lambda: node.supervisor.status("greet").ready, SECONDS_MAX)

            await node.roles.elect()

            assert await role_holders(node) == {}
            assert not done.is_set()

    asyncio.run(story())
