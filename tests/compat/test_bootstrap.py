"""The documented bootstrap starts what is built, reports the rest as absent, and health matches both."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compat.subscribers import async_test, home
from compat.user_daemons import quick
from ringrift.daemons import DAEMONS
from ringrift.kernel.errors import UnknownName
from ringrift.node import Node
from ringrift.store.open import only_coordinator
from ringrift.supervision.spec import Daemon, Restart
from ringrift_compat import embedded_host
from ringrift_compat.coordinators import bootstrap
from ringrift_compat.coordinators.registry import COORDINATOR_REGISTRY
from ringrift_compat.daemons.types import DaemonType
from ringrift_compat.embedded_node import embedded
from ringrift_compat.events.dead_letters import get_dead_letter_queue
from ringrift_compat.events.event_router import get_router
from ringrift_compat.events.router_event import RouterEvent
from ringrift_compat.health import overall
from ringrift_compat.pipeline import orchestrator, selfplay_orchestrator
from wait import wait_until

__all__ = ["home"]


def node() -> Node:
    """The node that this program has become."""
    result = embedded_host.get_host(embedded.node())
    assert result is not None
    return result


def running() -> set[str]:
    """The daemons that run in this program."""
    return {report.name for report in node().supervisor.statuses() if report.state == "running"}


async def replace(name: str, body: Callable[[], Any]) -> None:
    """Let *body* be the daemon *name*, which has not started yet, and give it up at its first failure."""
    whole = await embedded_host.open_host(embedded.node())
    whole.supervisor.add(Daemon(name=name, run=body, serve=True, restart=Restart(times=0)))


@async_test
async def test_bootstrap_starts_what_is_built_and_reports_the_rest() -> None:
    """Each running coordinator has its daemons running; each unbuilt one is reported and is no success."""
    status = bootstrap.initialize_all_coordinators()

    states = status["coordinators"]
    assert status["initialized"]
    assert status["started_at"] <= status["completed_at"]
    assert set(states) == set(COORDINATOR_REGISTRY)
    for name, spec in COORDINATOR_REGISTRY.items():
        assert states[name]["initialized"] == (not spec.absent)
        assert set(spec.daemons) <= running()
        assert not spec.absent or states[name]["error"].startswith(("not yet: ", "health_manager"))
    assert status["_instances"] == [name for name, spec in COORDINATOR_REGISTRY.items() if not spec.absent]
    assert status["errors"] == []
    health = overall.get_system_health()
    assert (health["status"], health["overall_health"], health["issues"]) == ("healthy", 1.0, [])
    assert set(health["coordinators"]) == set(status["_instances"])
    assert health["absent"]["multi_provider"].startswith("not yet")


@async_test
async def test_bootstrap_twice_is_once_and_a_shutdown_undoes_it() -> None:
    """The second call restarts nothing, an unknown flag is an error, and after a shutdown nothing is initialised."""
    status = bootstrap.initialize_all_coordinators()
    again = bootstrap.bootstrap_coordination()

    assert again["started_at"] == status["started_at"]
    assert again["completed_at"] > status["completed_at"]
    assert {report.restarts for report in node().supervisor.statuses()} == {0}
    with pytest.raises(UnknownName):
        bootstrap.bootstrap_coordination(enable_everything=True)
    await bootstrap.shutdown_all_coordinators()
    assert not embedded.is_open
    assert not bootstrap.get_bootstrap_status()["initialized"]
    bootstrap.shutdown_coordination()


def test_a_plain_shutdown_closes_the_node() -> None:
    """Outside any loop too; the next bootstrap opens the same store again."""
    bootstrap.bootstrap_coordination()
    path = embedded.node().settings.store.path

    bootstrap.shutdown_coordination()

    assert not embedded.is_open
    assert bootstrap.bootstrap_coordination()["initialized"]
    assert embedded.node().settings.store.path == path


@async_test
async def test_a_manager_that_shuts_down_leaves_the_coordinators_running() -> None:
    """It stops only what it has started itself; the node goes on to hold its roles."""
    bootstrap.bootstrap_coordination()
    before, manager = running(), quick()
    assert await manager.start(DaemonType.TOURNAMENT_DAEMON)
    assert running() == before | {"ladder"}

    await manager.shutdown()

    assert running() == before
    assert node().roles.holds("pipeline")


def test_a_variable_that_nothing_reads_yet_is_named_when_a_program_begins(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One line with the work that brings it."""
    monkeypatch.setenv("RINGRIFT_RAFT_ENABLED", "true")

    bootstrap.bootstrap_coordination()

    lines = [record.message for record in caplog.records if "RINGRIFT_" in record.message]
    assert lines == ["RINGRIFT_RAFT_ENABLED has no effect yet; it comes with: a store on several machines"]


@async_test
async def test_a_disabled_coordinator_does_not_run() -> None:
    """Its daemon is not started, or is stopped if it ran, and it counts neither for nor against health."""
    status = bootstrap.bootstrap_coordination(enable_metrics=False)
    assert status["coordinators"]["metrics_orchestrator"]["status"] == "disabled"
    assert "record_ratings" not in running()

    bootstrap.bootstrap_coordination()
    assert "record_ratings" in running()
    bootstrap.bootstrap_coordination(enable_metrics=False)

    assert "record_ratings" not in running()
    assert "metrics_orchestrator" not in overall.get_system_health()["coordinators"]
    assert "pipeline" in running()


@async_test
async def test_a_coordinator_is_initialized_only_while_its_duty_runs() -> None:
    """After its daemon was stopped or has failed, the status says so; after another bootstrap it runs again."""
    assert bootstrap.bootstrap_coordination()["coordinators"]["sync_coordinator"]["initialized"]

    embedded.call(node().supervisor.stop("replicate"))

    state = bootstrap.get_bootstrap_status()["coordinators"]["sync_coordinator"]
    assert (state["initialized"], state["status"], state["error"]) == (False, "stopped", "replicate was stopped")
    assert "sync_coordinator" not in bootstrap.initialize_all_coordinators(enable_metrics=False)["errors"]
    assert bootstrap.get_bootstrap_status()["coordinators"]["sync_coordinator"]["initialized"]

    async def broken() -> None:
        raise ValueError("no disk")

    embedded.call(node().supervisor.stop("replicate"))
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(replace("replicate", broken), embedded.node().loop))
    embedded.call(node().supervisor.start("replicate"))
    status = bootstrap.get_bootstrap_status()
    assert status["coordinators"]["sync_coordinator"]["status"] == "failed"
    assert [error for error in status["errors"] if "no disk" in error]


@async_test
async def test_a_coordinator_is_subscribed_while_its_daemons_get_events() -> None:
    """Those with a daemon that reacts to events are, and those that look from time to time or are a part are not."""
    states = bootstrap.bootstrap_coordination()["coordinators"]
    reacting = {daemon.name for daemon in DAEMONS if daemon.on}
    expected = {name for name, spec in COORDINATOR_REGISTRY.items() if reacting & set(spec.daemons)}

    assert {name for name, state in states.items() if state["subscribed"]} == expected
    assert {"pipeline_orchestrator", "queue_populator"} <= expected
    assert "sync_coordinator" not in expected
    embedded.call(node().roles.resign())
    later = bootstrap.get_bootstrap_status()["coordinators"]
    assert not later["pipeline_orchestrator"]["subscribed"] or node().roles.holds("pipeline")


@async_test
async def test_loops_that_are_off_are_disabled_and_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With RINGRIFT_EXTRACTED_LOOPS=false self-play and ratings do not start, which is no error; leases expire."""
    monkeypatch.setenv("RINGRIFT_EXTRACTED_LOOPS", "false")

    status = bootstrap.initialize_all_coordinators(auto_trigger_pipeline=True)

    states = status["coordinators"]
    for name in ("queue_populator", "selfplay_orchestrator"):
        assert (states[name]["initialized"], states[name]["status"], states[name]["off"]) == (
            False,
            "disabled",
            ["fill"],
        )
        assert "RINGRIFT_EXTRACTED_LOOPS" in states[name]["error"]
    evaluation = states["evaluation_daemon"]
    assert (evaluation["initialized"], evaluation["off"]) == (True, ["rate"])
    assert status["errors"] == []
    assert not {"fill", "rate"} & running()
    assert {"rescue", "pipeline", "measure_queues"} <= running()
    orchestrator.wire_pipeline_events()
    selfplay_orchestrator.wire_selfplay_events()
    assert not {"fill", "rate"} & running()


@async_test
async def test_an_unbuilt_coordinator_can_be_disabled() -> None:
    """It is disabled, which is no error, instead of absent; everything else runs as usual."""
    status = bootstrap.bootstrap_coordination(enable_optimization=False)

    others = {name: state for name, state in status["coordinators"].items() if name != "optimization_coordinator"}
    disabled = {"initialized": False, "subscribed": False, "error": None, "status": "disabled"}
    assert status["coordinators"]["optimization_coordinator"] == disabled
    assert {name for name, state in others.items() if state["initialized"]} == {
        name for name, spec in COORDINATOR_REGISTRY.items() if not spec.absent
    }
    assert "disabled" not in {state["status"] for state in others.values()}
    assert status["errors"] == []


@async_test
async def test_without_leadership_a_single_node_works_and_reports_its_duties() -> None:
    """Leadership is disabled as documented for one node; the status lists the duties that still run."""
    status = bootstrap.bootstrap_coordination(enable_leadership=False)

    state = status["coordinators"]["leadership_coordinator"]
    assert (state["initialized"], state["status"]) == (False, "disabled")
    assert "every node goes on to renew the roles" in state["goes_on"]
    assert node().roles.holds("pipeline")
    assert status["coordinators"]["pipeline_orchestrator"]["initialized"]


@pytest.mark.parametrize("automatic", [False, True])
@async_test
async def test_a_coordinator_that_fails_is_never_healthy_and_its_dependents_are_skipped(automatic: bool) -> None:
    """If one cannot start, its dependents are skipped by name, the rest runs, and health reports all of it."""

    async def broken() -> None:
        raise ValueError("no disk")

    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(replace("link_champions", broken), embedded.node().loop))
    status = bootstrap.initialize_all_coordinators(automatic)

    states = status["coordinators"]
    assert states["model_coordinator"]["status"] == "failed"
    assert "no disk" in states["model_coordinator"]["error"]
    skipped = {name for name, state in states.items() if state["status"] == "skipped"}
    daemons = {"auto_export_daemon", "evaluation_daemon", "model_distribution_daemon"}
    assert skipped == daemons | {"pipeline_orchestrator", "metrics_orchestrator"}
    assert "needs model_coordinator, which is failed" in states["pipeline_orchestrator"]["error"]
    assert any("no disk" in error for error in status["errors"])
    assert states["sync_coordinator"]["initialized"]
    assert "pipeline" not in running()
    assert ("work" in running()) == automatic
    health = overall.get_system_health()
    assert (health["coordinators"]["model_coordinator"], health["overall_health"]) == (0.0, 0.79)
    assert any("no disk" in issue for issue in health["issues"])


@async_test
async def test_health_falls_with_failures() -> None:
    """A callback that was given up is an issue and lowers the score below healthy; without issues it is healthy."""
    bootstrap.bootstrap_coordination()
    assert overall.get_system_health()["status"] == "healthy"

    async def broken(event: RouterEvent) -> None:
        raise ValueError("still broken")

    get_router().subscribe("EVENT_A", broken)
    await get_router().publish("EVENT_A", {})
    await wait_until(lambda: get_dead_letter_queue().get_stats()["abandoned"] == 1)

    health = overall.get_system_health()
    assert (health["status"], health["overall_health"]) == ("degraded", 0.79)
    assert (health["parts"]["dead_letters"], health["coordinators"]["dead_letter_queue"]) == (0.0, 0.0)
    assert (health["handler_health"]["failed"], health["handler_health"]["success_rate"]) == (3, 0.0)
    assert "1 deliveries were abandoned: ringrift dlq list" in health["issues"][0]


@async_test
async def test_auto_trigger_follows_argument_environment_or_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The argument beats the variable, the variable beats the default (off); on, this program is a whole node."""
    assert bootstrap.initialize_all_coordinators()["auto_trigger_pipeline"] is False
    assert not node().settings.policy.auto
    assert "work" not in running()
    before = running()

    assert bootstrap.initialize_all_coordinators(auto_trigger_pipeline=True)["auto_trigger_pipeline"] is True
    assert node().settings.policy.auto
    assert running() == before | {
        "work",
        "trust",
        "ladder",
        "sweep",
        "heal",
        "import_models",
        "notify",
        "record_metrics",
        "notice",
        "mirror",
        "consolidate",
        "backup",
        "disk",
        "audit",
    }

    await bootstrap.shutdown_all_coordinators()
    monkeypatch.setenv("COORDINATOR_AUTO_TRIGGER_PIPELINE", "true")
    assert bootstrap.initialize_all_coordinators()["auto_trigger_pipeline"] is True
    await bootstrap.shutdown_all_coordinators()
    assert bootstrap.initialize_all_coordinators(auto_trigger_pipeline=False)["auto_trigger_pipeline"] is False


@async_test
async def test_beside_a_coordinator_a_program_is_a_guest(home: Path) -> None:
    """It has a name of its own and takes no role, so that the node of this home keeps its jobs and its duties."""
    settings = embedded.node().settings
    with only_coordinator(settings.store, "the other"):
        bootstrap.bootstrap_coordination()

        assert node().node_id != settings.node.id
        assert not any(node().roles.holds(role) for role in ("pipeline", "fill", "replicate"))
        assert overall.get_system_health()["status"] == "healthy"
        await bootstrap.shutdown_all_coordinators()


RUNS = {
    "dead_letter_queue": ["redeliver"],
    "health_manager": ["watch", "alert", "heal"],
    "model_coordinator": ["link_champions"],
    "sync_coordinator": ["replicate"],
    "ephemeral_guard": ["evacuate"],
    "orphan_detection_daemon": ["adopt"],
    "training_activity": ["replicate"],
    "queue_populator": ["fill", "measure_queues"],
    "selfplay_orchestrator": ["fill"],
    "pipeline_orchestrator": ["pipeline"],
    "job_scheduler": ["rescue"],
    "auto_export_daemon": ["pipeline"],
    "evaluation_daemon": ["pipeline", "rate"],
    "model_distribution_daemon": ["pipeline", "link_champions"],
    "metrics_orchestrator": ["record_ratings"],
    "leadership_coordinator": ["elect"],
}
"""The daemons of each coordinator."""
_PARTS = """event_coordinator task_coordinator global_task_coordinator error_coordinator training_coordinator
    transfer_verifier cache_orchestrator"""
PARTS = set(_PARTS.split())
"""Coordinators that are a part of every node."""


@async_test
async def test_each_coordinator_is_the_part_that_does_its_duty() -> None:
    """Each coordinator has its daemons or is a part of every node: none is missing."""
    states = bootstrap.initialize_all_coordinators()["coordinators"]

    assert {name: list(spec.daemons) for name, spec in COORDINATOR_REGISTRY.items() if spec.daemons} == RUNS
    assert {name for name, state in states.items() if state["initialized"]} == set(RUNS) | PARTS
    assert {daemon for daemons in RUNS.values() for daemon in daemons} <= running()


def test_the_registry_is_in_start_order() -> None:
    """The coordinators of a layer come before those of the next, and each after those that it needs."""
    names, specs = list(COORDINATOR_REGISTRY), list(COORDINATOR_REGISTRY.values())

    assert [spec.layer for spec in specs] == sorted(spec.layer for spec in specs)
    assert all(names.index(need) < names.index(spec.name) for spec in specs for need in spec.needs)


@pytest.mark.parametrize("name", RUNS)
@async_test
async def test_a_coordinator_runs_while_the_daemon_of_its_duty_does(name: str) -> None:
    """It is initialised after the bootstrap, with all its daemons running, and no longer once one has stopped."""
    assert bootstrap.bootstrap_coordination()["coordinators"][name]["initialized"]
    assert set(RUNS[name]) <= running()

    embedded.call(node().supervisor.stop(RUNS[name][0]))

    state = bootstrap.get_bootstrap_status()["coordinators"][name]
    assert (state["initialized"], state["error"]) == (False, f"{RUNS[name][0]} was stopped")
