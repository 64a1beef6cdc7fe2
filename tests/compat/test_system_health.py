"""The documented health of the system: its score, its circuits, its recoveries, and never an unjustified "healthy"."""

import importlib
import subprocess
import warnings
from pathlib import Path
from typing import Any

import pytest

from compat.beats import beat_twice, raise_alert, run
from compat.subscribers import home
from compat.test_embedded_node import run as run_script
from ringrift.cluster.recovery import Attempt
from ringrift.jobs import Export
from ringrift.kernel.errors import InputError, StoreError, UnknownName
from ringrift.kernel.health import Status
from ringrift.work.desk import enqueue
from ringrift.work.pressure import BOUNDS
from ringrift_compat.coordinators.bootstrap import bootstrap_coordination
from ringrift_compat.coordinators.registry import COORDINATOR_REGISTRY
from ringrift_compat.embedded_node import embedded
from ringrift_compat.health import overall
from ringrift_compat.health.queue_monitor import check_backpressure
from ringrift_compat.health.survey import _unreadable
from ringrift_compat.health.system_health import UnifiedHealthManager, _record_attempt
from ringrift_compat.tasks.task_coordinator import TaskCoordinator
from ringrift_compat.types import BackpressureLevel, QueueType, RecoveryAction

__all__ = ["home"]


async def enqueue_exports(count: int) -> None:
    """Let *count* Export jobs wait."""
    node = embedded.node()
    jobs = [Export(variant="hex8_2p", batches=("b",), seed=number) for number in range(count)]
    async with node.store.begin() as tx:
        await enqueue(tx, jobs, node.envelopes, node.clock.now())


async def take_step(subject: str, attempt: Attempt) -> None:
    """Store a step of recovery."""
    async with embedded.node().store.begin() as tx:
        await _record_attempt(tx, subject, attempt)


def test_a_system_that_is_well_is_healthy() -> None:
    """A node that beats, no error, no open circuit: a hundred points."""
    beat_twice("n1")

    health = UnifiedHealthManager.get_instance().get_system_health()

    assert (health.score, health.level, health.issues) == (100.0, "healthy", ())
    assert health
    assert UnifiedHealthManager.get_instance().health_check()
    assert not UnifiedHealthManager().should_pause_pipeline()


def test_a_system_without_nodes_is_not_healthy() -> None:
    """No node is running, so it is not even degraded; the reason gives the remedy."""
    health = UnifiedHealthManager.get_instance().get_system_health()

    assert (health.score, health.level) == (59.0, "unhealthy")
    assert not health
    assert "ringrift run" in health.issues[0]
    assert not UnifiedHealthManager.get_instance().health_check()


@pytest.mark.parametrize(("kind", "subject"), [("letter", "reader"), ("daemon", "n1/fill")])
def test_trouble_is_not_outweighed(kind: str, subject: str) -> None:
    """Finding 7: with a failed part the level is not healthy, however good the rest, and the part is named."""
    for id in ("n1", "n2", "n3", "n4", "n5", "n6"):
        beat_twice(id)
    run(raise_alert(kind, subject, "severe"))

    health = UnifiedHealthManager.get_instance().get_system_health()

    assert (health.score, health.level) == (79.0, "degraded")
    assert any("so it is" in issue for issue in health.issues)


def test_an_export_queue_at_stop_lowers_the_health() -> None:
    """The export queue at STOP keeps system health below 0.8, and the issue names the queue and what to do."""
    beat_twice("n1")
    assert overall.get_system_health()["overall_health"] == 1.0
    run(enqueue_exports(BOUNDS["export"].hard))

    assert check_backpressure(QueueType.EXPORT) is BackpressureLevel.STOP
    health = overall.get_system_health()
    assert (health["status"], health["parts"]["queues"]) == ("degraded", 0.0)
    assert health["overall_health"] < 0.8
    [issue] = health["issues"]
    assert issue.startswith("queues/export: pressure is stop: 100 wait")
    assert "ringrift join" in issue


@pytest.mark.parametrize(
    ("brake", "status", "state"),
    [
        ("pause", "degraded", "paused"),
        ("drain", "degraded", "draining"),
        ("emergency_stop", "unhealthy", "in emergency"),
    ],
)
def test_the_views_of_health_never_contradict_each_other(brake: str, status: str, state: str) -> None:
    """While TaskCoordinator.health_check() is false no other view says healthy; all name the reason and the remedy."""
    beat_twice("n1")
    coordinator = TaskCoordinator.get_instance()
    assert (bool(coordinator.health_check()), overall.get_system_health()["status"]) == (True, "healthy")
    getattr(coordinator, brake)("the disk is full")

    check, health, manager = coordinator.health_check(), overall.get_system_health(), UnifiedHealthManager()
    assert not check
    assert (health["status"], manager.get_system_health().level) == (status, status)
    assert health["overall_health"] == manager.get_system_health().score / 100 < 0.8
    assert health["coordinators"]["event_coordinator"] == 1.0
    assert not manager.health_check()
    assert manager.should_pause_pipeline()
    for text in (check.message, health["issues"][0], manager.get_system_health().issues[0]):
        assert f"cluster is {state}" in text
        assert "the disk is full" in text
        assert "ringrift resume" in text
    coordinator.resume()
    assert coordinator.health_check()
    assert overall.get_system_health()["overall_health"] == 1.0


def test_coordinators_without_a_daemon_report_the_part_that_does_their_job() -> None:
    """Each has such a part, and its points fall with it; those that have nothing to do with it keep theirs."""
    served = [spec for spec in COORDINATOR_REGISTRY.values() if not spec.absent and not spec.daemons]
    assert {spec.name for spec in served} <= set(overall._PARTS)
    bootstrap_coordination()
    assert set(overall.get_system_health()["coordinators"].values()) == {1.0}
    TaskCoordinator.get_instance().emergency_stop("the disk is full")

    points = overall.get_system_health()["coordinators"]
    assert {name for name, value in points.items() if value == 0.0} == {
        name for name, parts in overall._PARTS.items() if "jobs" in parts
    }
    assert (points["transfer_verifier"], points["leadership_coordinator"]) == (1.0, 1.0)


def test_a_slot_of_a_dead_process_is_stuck_and_named() -> None:
    """A slot that nothing frees lowers the health in every view until it is free again."""
    beat_twice("n1")
    coordinator, child = TaskCoordinator.get_instance(), subprocess.Popen(["sleep", "60"])
    coordinator.register_task("t1", "training", "n1", pid=child.pid)
    assert coordinator.health_check()
    child.kill()
    child.wait()

    check, health = coordinator.health_check(), overall.get_system_health()
    assert (bool(check), health["status"], health["parts"]["slots"]) == (False, "degraded", 0.5)
    assert health["coordinators"]["dead_letter_queue"] == 1.0
    assert "slots/t1: training on n1 shows no sign of life" in check.message
    assert health["issues"] == [check.message]
    coordinator.cancel_task("t1")
    assert (bool(coordinator.health_check()), overall.get_system_health()["status"]) == (True, "healthy")


def test_errors_are_recorded_and_counted() -> None:
    """An error is an issue with the last one named; warnings do not count; many errors are unhealthy."""
    beat_twice("n1")
    manager = UnifiedHealthManager.get_instance()
    manager.record_error("exporter", "no games", "warning")
    assert manager.get_system_health()
    manager.record_error("trainer", ValueError("no loss"), node_id="n1")

    assert (manager.get_system_health().level, manager.get_system_health().components["jobs"]) == ("degraded", 0.5)
    assert "trainer: ValueError: no loss" in manager.get_system_health().issues[0]
    for number in range(19):
        manager.record_error(f"trainer {number}", "no loss")
    assert (manager.get_system_health().level, manager.get_system_health().components["jobs"]) == ("unhealthy", 0.0)
    with pytest.raises(UnknownName, match="dreadful"):
        manager.record_error("trainer", "x", "dreadful")


def test_a_circuit_opens_after_failures_and_closes_with_success() -> None:
    """Each component has its own, the same in every program of this home."""
    manager = UnifiedHealthManager.get_instance()
    for _ in range(3):
        assert not manager.is_circuit_open("trainer")
        manager.record_error("trainer", "no loss")

    assert manager.is_circuit_open("trainer")
    assert not manager.is_circuit_open("exporter")
    manager.record_success("trainer")
    assert not manager.is_circuit_open("trainer")


def test_recovery_is_advised_step_by_step() -> None:
    """The advice is the next step of the core's ladder: once, then only after a rest, and at the end a person."""
    manager = UnifiedHealthManager.get_instance()
    assert manager.get_recovery_action("n1") is RecoveryAction.RESTART_NODE_SERVICES
    manager.record_recovery_attempt("n1", RecoveryAction.RESTART_NODE_SERVICES, success=False, detail="still ill")

    assert manager.get_recovery_action("n1") is RecoveryAction.NONE
    assert manager.get_recovery_action("n2") is RecoveryAction.RESTART_NODE_SERVICES
    for _ in range(2):
        manager.record_recovery_attempt("n1", "reboot_node", success=False)
    assert manager.get_recovery_action("n1") is RecoveryAction.ESCALATE_HUMAN
    assert manager.get_recovery_action("job-1", kind="job") is RecoveryAction.RESTART_JOB
    with pytest.raises(InputError):
        manager.get_recovery_action("n1", kind="planet")


def test_the_advice_is_what_the_core_did() -> None:
    """A step that the core's healer took is the last one for every program: it rests, and then comes the next."""
    manager = UnifiedHealthManager.get_instance()
    now = embedded.node().clock.now()
    run(take_step("node:n1", Attempt(step="restart_daemon", by="heal", time=now)))
    run(take_step("node:n2", Attempt(step="restart_daemon", by="heal", time=now - 400.0, helped=False)))
    run(take_step("node:n3", Attempt(step="ask_person", by="heal", time=now - 400.0)))

    assert manager.get_recovery_action("n1") is RecoveryAction.NONE
    assert manager.get_recovery_action("n2") is RecoveryAction.REMOVE_NODE
    assert manager.get_recovery_action("n3") is RecoveryAction.ESCALATE_HUMAN


def test_the_loop_pauses_when_health_is_critical() -> None:
    """Many errors without a running node pause the loop; one of the two does not."""
    manager = UnifiedHealthManager.get_instance()
    assert not manager.should_pause_pipeline()
    for number in range(20):
        manager.record_error("trainer", f"error {number}")

    assert manager.should_pause_pipeline()
    assert manager.get_system_health().level == "critical"


def test_a_store_that_cannot_be_read_is_critical(home: Path) -> None:
    """No points, the loop pauses, nothing is tried, and nothing is reported as recorded."""
    (home / "coordination").mkdir()
    (home / "coordination" / "coordinator.db").write_bytes(b"this is no database, despite its name" * 100)
    manager = UnifiedHealthManager.get_instance()

    health = manager.get_system_health()
    assert (health.score, health.level) == (0.0, "critical")
    assert "cannot be read" in health.issues[0]
    assert manager.should_pause_pipeline()
    assert not manager.health_check()
    with pytest.raises(StoreError):
        manager.record_error("trainer", "no loss")


def test_another_program_sees_the_errors(home: Path) -> None:
    """They are in the store: the errors that one program records, the next one reads."""
    script = """from app.coordination import UnifiedHealthManager
UnifiedHealthManager().record_error("trainer", "no loss")"""
    run_script(script, home)

    assert any("trainer: no loss" in issue for issue in UnifiedHealthManager().get_system_health().issues)


def test_the_archived_path_warns_and_has_the_same_names() -> None:
    """It names its replacement and offers the same objects."""
    current = importlib.import_module("app.coordination.unified_health_manager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old: Any = importlib.import_module("app.coordination.system_health_monitor")
    with pytest.warns(DeprecationWarning, match="app.coordination.unified_health_manager"):
        importlib.reload(old)

    assert old.UnifiedHealthManager is current.UnifiedHealthManager is UnifiedHealthManager


def test_a_store_that_cannot_be_read_leaves_nothing_to_know() -> None:
    """No points, critical, and the error with what to do."""
    health = _unreadable("no such file")

    assert (health.score, health.status, health.is_critical) == (0.0, Status.UNHEALTHY, True)
    assert "no such file" in health.reasons()[0]
    assert "ringrift doctor" in health.reasons()[0]
