"""The documented health of nodes follows from their heartbeats; a node without an observed beat is not healthy."""

import asyncio
import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest

from compat.beats import beat, beat_twice, failing, put_in_quarantine, raise_alert, run
from compat.subscribers import async_test, home
from ringrift.kernel.errors import StoreError
from ringrift.store.ports import Put
from ringrift_compat.embedded_node import embedded
from ringrift_compat.health import node_health
from ringrift_compat.health.node_health import NodeHealthState, get_health_check_orchestrator
from ringrift_compat.health.protocols import CoordinatorStatus, HealthCheckResult
from wait import wait_until

__all__ = ["home"]
QUICK = "\n[cluster]\nbeat_seconds = 0.05\n"


def test_a_node_is_healthy_once_its_beat_has_moved() -> None:
    """One observation is not enough, nor is a second one at the same beat; the result includes the node's activity."""
    beat("n1", 1)
    first, second = node_health.get_node_health("n1"), node_health.get_node_health("n1")
    beat("n1", 2)
    third = node_health.get_node_health("n1")

    assert [node.state.value for node in (first, second, third)] == ["unknown", "unknown", "healthy"]
    assert [bool(node) for node in (first, second, third)] == [False, False, True]
    assert (third.node_id, third.status, third.is_available) == ("n1", CoordinatorStatus.RUNNING, True)
    assert third.details["daemons_running"] == 9
    assert isinstance(third, HealthCheckResult)


def test_an_unlisted_node_is_unknown() -> None:
    """It is no error and not healthy, and in no list."""
    status = node_health.get_node_health("node-1")

    assert (status.state, status.healthy, bool(status)) == (NodeHealthState.UNKNOWN, False, False)
    assert "no node 'node-1'" in status.message
    assert node_health.get_healthy_nodes() == []
    assert not get_health_check_orchestrator().health_check()


def test_each_kind_of_trouble_has_its_state() -> None:
    """Degraded, unhealthy, evicted, retired and unknown are distinct, and listed by whether they work."""
    for id in ("fine", "limps", "ill", "liar", "both"):
        beat_twice(id)
    beat("limps", 3, activity=failing("fill"))
    beat("left", 1, gone=True)
    beat("new", 1)
    run(raise_alert("daemon", "ill/fill", "severe"))
    run(raise_alert("daemon", "both/fill", "severe"))
    run(put_in_quarantine("liar"))
    run(put_in_quarantine("both"))

    nodes = get_health_check_orchestrator().get_all_node_health()
    states = {"fine": "healthy", "limps": "degraded", "ill": "unhealthy", "liar": "evicted", "both": "unhealthy"}
    assert {id: node.state.value for id, node in nodes.items()} == states | {"left": "retired", "new": "unknown"}
    assert node_health.get_healthy_nodes() == ["fine"]
    assert {id for id, node in nodes.items() if node.is_available} == {"fine", "limps"}
    assert nodes["liar"].message == "quarantine: wrong canaries"
    assert nodes["ill"].since == 50.0
    result = get_health_check_orchestrator().health_check()
    assert all(f"{id}: " in result.message for id in ("both", "ill", "liar", "limps", "new"))
    assert "fine: " not in result.message


@async_test
async def test_a_check_waits_for_the_next_beat(home: Path) -> None:
    """Awaiting it on the caller's loop returns the state of a live node, and blocks no loop."""
    (home / "ringrift.toml").write_text(QUICK.replace("0.05", "1.0"))
    beat("n1", 1)
    orchestrator = get_health_check_orchestrator()

    checking = asyncio.ensure_future(orchestrator.check_node_health("n1"))
    await wait_until(lambda: node_health._NodeSurvey in embedded.node().extensions)
    node_health.get_node_health("n1")
    beat("n1", 2)

    assert (await checking).state is NodeHealthState.HEALTHY


@async_test
async def test_a_node_that_falls_silent_is_offline(home: Path) -> None:
    """A check does not wait for ever: after the longest allowed silence the node is offline."""
    (home / "ringrift.toml").write_text(QUICK)
    beat("n1", 1)

    status = await get_health_check_orchestrator().check_node_health("n1")

    assert status.state is NodeHealthState.OFFLINE
    assert "check that its machine runs" in status.message


def test_a_store_that_cannot_be_read_is_not_healthy(home: Path) -> None:
    """A single node is unknown, and no list is made up."""
    (home / "coordination").mkdir()
    (home / "coordination" / "coordinator.db").write_bytes(b"this is no database, despite its name" * 100)

    status = node_health.get_node_health("n1")
    checked = asyncio.run(get_health_check_orchestrator().check_node_health("n1"))
    for result in (status, checked):
        assert (result.state, bool(result)) == (NodeHealthState.UNKNOWN, False)
        assert "cannot be read" in result.message
    assert not get_health_check_orchestrator().health_check()
    with pytest.raises(StoreError):
        node_health.get_healthy_nodes()


def test_an_unreadable_record_is_not_healthy() -> None:
    """An invalid node record makes its node unknown, even if it was healthy before."""
    beat_twice("n1")
    assert node_health.get_node_health("n1")

    async def spoil() -> None:
        async with embedded.node().store.begin() as tx:
            await tx.put([Put(kind="node", id="n1", body=b"nonsense")])

    run(spoil())
    assert node_health.get_node_health("n1").state is NodeHealthState.UNKNOWN


def test_observations_end_with_a_shutdown() -> None:
    """Observations go with the node; the orchestrator that a program holds works on."""
    orchestrator = get_health_check_orchestrator()
    beat_twice("n1")
    assert orchestrator.get_healthy_nodes() == ["n1"]

    embedded.shutdown()

    assert orchestrator.get_node_health("n1").state is NodeHealthState.UNKNOWN


def test_every_documented_state_and_path_is_there() -> None:
    """The eight states; the archived path warns with its replacement and has the same objects."""
    assert [state.value for state in NodeHealthState] == [
        "healthy",
        "degraded",
        "unhealthy",
        "evicted",
        "unknown",
        "offline",
        "provider_down",
        "retired",
    ]
    facade = importlib.import_module("app.coordination.health_facade")
    status = importlib.import_module("app.coordination.node_status")
    with pytest.warns(DeprecationWarning, match="app.coordination.health_check_orchestrator"):
        old = importlib.reload(_imported("app.coordination.node_health_monitor"))

    assert facade.get_node_health is status.get_node_health is old.get_node_health is node_health.get_node_health
    assert old.HealthCheckOrchestrator is facade.HealthCheckOrchestrator
    assert status.NodeMonitoringStatus is node_health.NodeMonitoringStatus


def _imported(path: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module(path)
