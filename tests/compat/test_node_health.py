"""The documented health of nodes is told from their beats, and who was not seen to live is not healthy."""

import asyncio
import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest

from compat.beats import beat, raise_alert, run, seen_to_beat, shut_out
from compat.ears import home, on_a_loop
from ringrift.cluster.activity import Doing
from ringrift.kernel.errors import StoreError
from ringrift.store.ports import Put
from ringrift_compat import node_health
from ringrift_compat.ambient import ambient
from ringrift_compat.health import CoordinatorStatus, HealthCheckResult
from ringrift_compat.node_health import NodeHealthState, get_health_check_orchestrator
from waiting import wait_until

__all__ = ["home"]
QUICK = "\n[cluster]\nbeat_seconds = 0.05\n"


def test_a_node_is_healthy_once_its_beat_has_moved() -> None:
    """One look is not enough, a second one at the same beat neither; what it does goes with the answer."""
    beat("n1", 1)
    first, second = node_health.get_node_health("n1"), node_health.get_node_health("n1")
    beat("n1", 2)
    third = node_health.get_node_health("n1")

    assert [one.state.value for one in (first, second, third)] == ["unknown", "unknown", "healthy"]
    assert [bool(one) for one in (first, second, third)] == [False, False, True]
    assert (third.node_id, third.status, third.is_available) == ("n1", CoordinatorStatus.RUNNING, True)
    assert third.details["daemons_running"] == 9
    assert isinstance(third, HealthCheckResult)


def test_a_node_that_nobody_knows_is_unknown() -> None:
    """It is no error and not healthy, and in no list."""
    found = node_health.get_node_health("node-1")

    assert (found.state, found.healthy, bool(found)) == (NodeHealthState.UNKNOWN, False, False)
    assert "ever been seen" in found.message
    assert node_health.get_healthy_nodes() == node_health.get_unhealthy_nodes() == []
    assert not get_health_check_orchestrator().health_check()
    assert node_health.get_cluster_health_summary()["status"] == "unhealthy"


def test_each_kind_of_trouble_has_its_state() -> None:
    """Degraded, unhealthy, evicted, retired and unknown are told apart, and listed by whether they work."""
    for id in ("fine", "limps", "ill", "liar", "both"):
        seen_to_beat(id)
    beat("limps", 3, doing=Doing(daemons=9, failing=("fill",)))
    beat("left", 1, gone=True)
    beat("new", 1)
    run(raise_alert("daemon", "ill/fill", "severe"))
    run(raise_alert("daemon", "both/fill", "severe"))
    run(shut_out("liar"))
    run(shut_out("both"))

    states = {id: one.state.value for id, one in node_health.get_all_node_health().items()}
    assert states == {
        "fine": "healthy", "limps": "degraded", "ill": "unhealthy", "liar": "evicted", "both": "unhealthy",
        "left": "retired", "new": "unknown",
    }  # fmt: skip
    assert node_health.get_healthy_nodes() == ["fine"]
    assert node_health.get_degraded_nodes() == ["limps"]
    assert node_health.get_unhealthy_nodes() == ["both", "ill", "liar", "new"]
    assert get_health_check_orchestrator().get_available_nodes() == ["fine", "limps"]
    assert node_health.get_node_health("liar").message == "quarantine: wrong canaries"
    assert node_health.get_node_health("ill").since == 50.0
    summary = node_health.get_cluster_health_summary()
    assert (summary["total_nodes"], summary["score"], summary["retired"]) == (6, 0.25, 1)


@on_a_loop
async def test_a_check_waits_for_the_next_beat(home: Path) -> None:
    """Awaiting it on one's own loop brings the truth about a node that lives, and keeps no loop from running."""
    (home / "ringrift.toml").write_text(QUICK.replace("0.05", "1.0"))
    beat("n1", 1)
    orchestrator = get_health_check_orchestrator()

    checking = asyncio.ensure_future(orchestrator.check_node_health("n1"))
    await wait_until(lambda: node_health.KEPT in ambient.node().kept)
    node_health.get_node_health("n1")
    beat("n1", 2)

    assert (await checking).state is NodeHealthState.HEALTHY
    assert list(await orchestrator.check_all_nodes()) == ["n1"]


@on_a_loop
async def test_a_node_that_falls_silent_is_offline(home: Path) -> None:
    """A check does not wait for ever: after the time that a node may be silent it is known to be gone."""
    (home / "ringrift.toml").write_text(QUICK)
    beat("n1", 1)

    found = await get_health_check_orchestrator().check_node_health("n1")

    assert found.state is NodeHealthState.OFFLINE
    assert "see whether its machine runs" in found.message


def test_a_store_that_cannot_be_read_is_not_healthy(home: Path) -> None:
    """Of one node nothing is known, and no list is made up."""
    (home / "coordination").mkdir()
    (home / "coordination" / "coordinator.db").write_bytes(b"this is no database, whatever its name says" * 100)

    found = node_health.get_node_health("n1")
    checked = asyncio.run(get_health_check_orchestrator().check_node_health("n1"))
    for one in (found, checked):
        assert (one.state, bool(one)) == (NodeHealthState.UNKNOWN, False)
        assert "cannot be read" in one.message
    assert not get_health_check_orchestrator().health_check()
    with pytest.raises(StoreError):
        node_health.get_healthy_nodes()


def test_a_record_that_nobody_understands_is_not_healthy() -> None:
    """A node record of nonsense makes its node unknown, even if it was healthy before."""
    seen_to_beat("n1")
    assert node_health.get_node_health("n1")

    async def spoil() -> None:
        async with ambient.node().store.begin() as tx:
            await tx.put([Put(kind="node", id="n1", body=b"nonsense")])

    run(spoil())
    assert node_health.get_node_health("n1").state is NodeHealthState.UNKNOWN


def test_after_a_shutdown_nobody_has_been_seen_yet() -> None:
    """What was kept goes with the node; the orchestrator that a program holds works on."""
    orchestrator = get_health_check_orchestrator()
    seen_to_beat("n1")
    assert orchestrator.get_healthy_nodes() == ["n1"]

    ambient.shutdown()

    assert orchestrator.get_node_health("n1").state is NodeHealthState.UNKNOWN


def test_every_documented_state_and_path_is_there() -> None:
    """The eight states; the archived path warns with its replacement and has the same objects."""
    assert [state.value for state in NodeHealthState] == [
        "healthy", "degraded", "unhealthy", "evicted", "unknown", "offline", "provider_down", "retired",
    ]  # fmt: skip
    facade = importlib.import_module("app.coordination.health_facade")
    status = importlib.import_module("app.coordination.node_status")
    with pytest.warns(DeprecationWarning, match="app.coordination.health_check_orchestrator"):
        old = importlib.reload(_imported("app.coordination.node_health_monitor"))

    assert facade.get_node_health is status.get_node_status is old.get_node_health is node_health.get_node_health
    assert old.NodeHealthMonitor is facade.HealthCheckOrchestrator
    assert status.NodeMonitoringStatus is node_health.NodeHealth


def _imported(path: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module(path)
