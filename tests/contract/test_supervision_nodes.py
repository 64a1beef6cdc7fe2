"""A whole node beside a daemon that blocks, clings or brings a role of its own: found, named, nobody else disturbed."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import msgspec
import pytest

from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import SupervisionError
from ringrift.kernel.health import Status
from ringrift.kernel.settings import NodeSettings, Settings, StoreSettings
from ringrift.node import Node
from ringrift.sim.blobs import MemoryBlobs
from ringrift.sim.disk import Disk
from ringrift.sim.launch import SimLaunch, Temper
from ringrift.sim.loop import SimLoop
from ringrift.sim.loop import run as simulate
from ringrift.store.open import open_store
from ringrift.supervision.lookout import ROUTINE_SECONDS, STALL_SECONDS_MAX
from ringrift.supervision.spec import Daemon
from unit.work.world import inline
from waiting import wait_until

BLOCKED_SECONDS = STALL_SECONDS_MAX + 0.5
SECONDS_MAX = 10.0
ELECT_SECONDS = 0.05


def settings(home: Path, profile: str = "full") -> Settings:
    """A node in *home* that elects often."""
    local = Settings.local(home)
    cluster = msgspec.structs.replace(local.cluster, elect_seconds=ELECT_SECONDS)
    return msgspec.structs.replace(local, node=NodeSettings(id="n1", profile=profile), cluster=cluster)


def undisturbed(node: Node) -> bool:
    """Whether all daemons of ours are well, and have started once and failed never."""
    ours = [report for report in node.supervisor.reports() if report.name != "foreign"]
    return all((one.health.status, one.restarts, one.failures) == (Status.HEALTHY, 0, 0) for one in ours)


def test_a_node_whose_loop_is_blocked_says_by_whom_for_how_long_and_where(tmp_path: Path) -> None:
    """The daemon is degraded with the seconds and the line; the others go on as if nothing had been."""
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
            await wait_until(lambda: sup.report("foreign").stalls > 0, SECONDS_MAX)
            await wait_until(lambda: undisturbed(node), SECONDS_MAX)

            found = sup.report("foreign").health
            assert found.status is Status.DEGRADED
            assert found.reason.startswith("held up the event loop for ")
            assert float(found.reason.split()[6]) >= STALL_SECONDS_MAX
            assert "test_supervision_nodes.py:" in found.reason
            assert found.reason.endswith(" in block")
            assert sup.liveness()
            assert sup.readiness()
            before = sup.report("beat").runs
            await wait_until(lambda: sup.report("elect").runs > before + 2, SECONDS_MAX)

    asyncio.run(story())


async def swallow(release: asyncio.Event) -> None:
    """Wait for *release* and for nothing else, whoever cancels."""
    while not release.is_set():
        try:
            await release.wait()
        except asyncio.CancelledError:
            continue


def test_a_daemon_that_swallows_its_stop_is_named_and_not_doubled(tmp_path: Path) -> None:
    """Stopping it ends in time and says so; it cannot be started beside itself, and the node ends all the same."""

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

            found = sup.report("foreign").health
            assert found.status is Status.UNHEALTHY
            assert "was told to stop and still runs" in found.reason
            with pytest.raises(SupervisionError, match="cannot run twice"):
                await sup.start("foreign")
            await wait_until(lambda: undisturbed(node), SECONDS_MAX)
            assert sup.liveness(), "it is not critical"
        release.set()

    asyncio.run(story())


def test_a_daemon_that_hangs_and_swallows_its_end_is_given_up(tmp_path: Path) -> None:
    """It makes no progress, is told to end, does not: it is failed by name, and the rest of the node runs on."""

    async def story(node: Node, release: asyncio.Event) -> None:
        sup = node.supervisor
        await wait_until(lambda: sup.report("foreign").state == "failed", 5 * ROUTINE_SECONDS)  # of virtual time

        assert "hangs and does not stop" in sup.report("foreign").health.reason
        assert undisturbed(node)
        assert sup.liveness()
        release.set()

    in_virtual_time(tmp_path, story)


def in_virtual_time(folder: Path, story: Callable[[Node, asyncio.Event], Awaitable[None]]) -> None:
    """Run *story* on a node of the simulator that has a daemon named foreign, which never does anything but cling."""
    disk = Disk(f"node-{folder.name}", Random(7))

    async def main(loop: SimLoop) -> None:
        release, clock = asyncio.Event(), loop.clock("world")

        async def clings() -> None:
            await swallow(release)

        extra = (Daemon(name="foreign", run=clings, serve=True, seconds_max=5.0, stop_seconds_max=1.0),)
        blobs = MemoryBlobs("n1")
        launch = SimLaunch(blobs, Random(1), Temper())
        async with open_store(StoreSettings(path="store.db"), clock, offload=inline, vfs=disk.name) as store:
            opened = Node.open(settings(folder), clock, Random(1), store=store, blobs=blobs, launch=launch, extra=extra)
            async with opened as node:
                await story(node, release)

    try:
        simulate(1, main)
    finally:
        disk.close()


def greeter(name: str, done: asyncio.Event) -> Daemon:
    """A user's daemon with a role of its own."""

    async def greet() -> None:
        done.set()

    return Daemon(name=name, run=greet, every=0.01, role=name, after=("elect",))


async def held(node: Node) -> dict[str, str]:
    """Who holds each role."""
    async with node.store.read() as view:
        return {row.role: row.holder for row in await view.roles()}


def test_the_role_of_a_users_daemon_is_elected(tmp_path: Path) -> None:
    """One that is there at the start, and one that is taken in while the node runs: both act, under their roles."""

    async def story() -> None:
        early, late = asyncio.Event(), asyncio.Event()
        opened = Node.open(settings(tmp_path), SystemClock(), Random(1), extra=(greeter("greet", early),))
        async with asyncio.timeout(60.0), opened as node:
            await early.wait()
            assert (await held(node))["greet"] == "n1"

            node.supervisor.add(greeter("greet_late", late))
            await node.supervisor.start("greet_late")
            await late.wait()

            assert (await held(node))["greet_late"] == "n1"

    asyncio.run(story())


PLUGIN = """
from ringrift.supervision.spec import Daemon

async def wave(*, roles):
    assert roles.holds("wave")

SPEC = Daemon(name="wave", run=wave, every=0.01, role="wave", after=("elect",))
"""


def test_the_role_of_a_plug_in_is_elected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon of another package, found by its entry point, acts under its role."""
    about = tmp_path / "site" / "waver-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: waver\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[ringrift.daemons]\nwave = waver_of_a_test:SPEC\n")
    (tmp_path / "site" / "waver_of_a_test.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path / "site")

    async def story() -> None:
        opened = Node.open(settings(tmp_path), SystemClock(), Random(1))
        async with asyncio.timeout(60.0), opened as node:
            await wait_until(lambda: node.supervisor.report("wave").runs > 0, SECONDS_MAX)

            assert (await held(node))["wave"] == "n1"
            assert node.supervisor.report("wave").failures == 0

    asyncio.run(story())


@pytest.mark.parametrize(("profile", "leads"), [("training_node", True), ("full", False)])
def test_a_node_that_does_not_lead_takes_no_role_of_a_user_either(tmp_path: Path, profile: str, leads: bool) -> None:
    """Only coordinators take roles, and one that is told not to lead does not."""

    async def story() -> None:
        done = asyncio.Event()
        opened = Node.open(
            settings(tmp_path, profile), SystemClock(), Random(1), extra=(greeter("greet", done),), leads=leads
        )
        async with asyncio.timeout(60.0), opened as node:
            await wait_until(lambda: node.supervisor.report("greet").ready, SECONDS_MAX)

            await node.roles.elect()

            assert await held(node) == {}
            assert not done.is_set()

    asyncio.run(story())
