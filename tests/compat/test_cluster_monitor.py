"""The documented monitor of the cluster: nodes, lines, jobs and alerts as they are, without blocking a loop."""

import asyncio
from pathlib import Path

from compat.beats import beat, beat_twice, failing, raise_alert, run
from compat.cluster_scene import open_line
from compat.subscribers import async_test, home
from ringrift_compat.cluster.cluster_monitor import ClusterMonitor
from ringrift_compat.cluster.work_queue import WorkQueue
from ringrift_compat.embedded_node import embedded
from ringrift_compat.health.node_health import NodeHealthState
from unit.pipeline.story import VARIANT

__all__ = ["home"]


async def take_role(holder: str) -> None:
    """Let *holder* lead."""
    async with embedded.node().store.begin() as tx:
        await tx.hold_role("watch", holder, 15.0, None)


def test_the_status_has_what_is_going_on() -> None:
    """The leader, the state of every node, the stage of every line, the number of jobs, and the open alerts."""
    open_line()
    WorkQueue().add_work("selfplay", VARIANT)
    beat_twice("fine")
    beat_twice("limps")
    beat("limps", 3, activity=failing("fill"))
    beat("left", 1, gone=True)
    run(take_role("fine"))
    run(raise_alert("disk", "fine", "severe"))

    status = asyncio.run(ClusterMonitor().get_cluster_status())

    states = {id: node.state.value for id, node in status.nodes.items()}
    assert states == {"fine": "healthy", "limps": "degraded", "left": "retired"}
    assert (status.leader, status.variants, status.jobs) == ("fine", {VARIANT: "collecting"}, {"ready": 1})
    assert status.available_nodes == ["fine", "limps"]
    assert status.alerts == ("disk fine: so it is",)
    assert not status.healthy


def test_a_cluster_without_nodes_is_not_healthy() -> None:
    """Nobody leads, nobody works; one node that is well is enough."""
    monitor = ClusterMonitor()
    empty = asyncio.run(monitor.get_cluster_status())
    beat_twice("n1")

    assert (empty.leader, empty.nodes, empty.healthy) == (None, {}, False)
    assert asyncio.run(monitor.get_cluster_status()).healthy


@async_test
async def test_one_node_is_waited_for(home: Path) -> None:
    """Its state is known once its beat has moved, or it has been silent for too long."""
    (home / "ringrift.toml").write_text("[cluster]\nbeat_seconds = 0.05\n")
    beat("n1", 1)

    status = await ClusterMonitor().get_node_status("n1")

    assert (status.node_id, status.state) == ("n1", NodeHealthState.OFFLINE)
