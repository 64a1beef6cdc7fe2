"""A node reports what it does and starts the daemons that its settings allow; the loss of one is an alert."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random

import msgspec
import pytest

from ringrift.cluster.alerts import closed_alerts, open_alerts
from ringrift.cluster.roster import NODES
from ringrift.events import cluster
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import SettingsError, SupervisionError
from ringrift.kernel.settings import Settings
from ringrift.node import Node
from ringrift.sim.loop import SimLoop, run
from ringrift.sim.world import World
from ringrift.store.ports import Reads

SECONDS_MAX, POLL_SECONDS = 60.0, 0.5


async def wait_until(world: World, question: Callable[[Reads], Awaitable[bool]], what: str) -> None:
    """Wait in virtual time until *question* holds of the store."""
    end = world.loop.time() + SECONDS_MAX
    while not await world.query(question):
        assert world.loop.time() < end, f"{what} did not happen"
        await asyncio.sleep(POLL_SECONDS)  # of virtual time


async def is_busy(view: Reads) -> bool:
    """Return whether the record of some node has a job and a running daemon."""
    return any(node.activity.jobs and node.activity.daemons.running for node in (await NODES.scan(view)).values())


async def is_raised(view: Reads) -> bool:
    """Return whether the loss of n2 is an open alert."""
    return "node_lost:n2" in [alert.id for alert in await open_alerts(view)]


async def is_cleared(view: Reads) -> bool:
    """Return whether that alert is closed."""
    return "node_lost:n2" in [alert.id for alert in await closed_alerts(view)]


def test_a_cluster_reports_its_jobs_and_lost_nodes() -> None:
    """A node's jobs stand in its record; a killed node is an alert until it is back; each role is announced once."""

    async def story(loop: SimLoop) -> list[cluster.RoleTaken]:
        world = World(loop, 5)
        try:
            await world.boot()
            await wait_until(world, is_busy, "working")
            world.kill("n2")
            await wait_until(world, is_raised, "missing a node")
            world.start("n2")
            await wait_until(world, is_cleared, "having it back")
            names = [cluster.RoleTaken.name()]
            envelopes = await world.query(lambda view: view.read(0, 1000, names))
            return [msgspec.json.decode(envelope.body, type=cluster.RoleTaken) for envelope in envelopes]
        finally:
            world.disk.unregister()

    events = run(5, story)

    assert len({(event.role, event.term) for event in events}) == len(events)


def open_node(home: Path, *disabled: str) -> AbstractAsyncContextManager[Node]:
    """A node on a real clock with these daemons disabled."""
    settings = Settings.local(home).overlaid({"node.disabled_daemons": disabled, "policy.variants": ()})
    return Node.open(settings, SystemClock(), Random(1))


def test_a_disabled_daemon_does_not_start_and_its_status_has_the_reason(tmp_path: Path) -> None:
    """The others run, the node is alive, and a command to start it is refused with what to do."""

    async def story() -> None:
        async with open_node(tmp_path, "fill") as node:
            status = node.supervisor.status("fill")
            assert (status.state, status.health.reason) == ("resting", "disabled by settings")
            assert node.supervisor.status("beat").state == "running"
            assert "fill" not in [part.part for part in node.supervisor.health()]
            with pytest.raises(SupervisionError, match=r"fill is disabled by settings: .*node\.disabled_daemons"):
                await node.supervisor.start("fill")

    asyncio.run(story())


def test_a_disabled_daemon_must_exist(tmp_path: Path) -> None:
    """A misspelled name would disable nothing, so the node does not start."""

    async def story() -> None:
        with pytest.raises(SettingsError, match=r"node\.disabled_daemons = \['fil'\] .*no daemon has this name"):
            async with open_node(tmp_path, "fil"):
                raise AssertionError

    asyncio.run(story())
