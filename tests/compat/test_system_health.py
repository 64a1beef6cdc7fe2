"""The documented health of the system: its score, its circuits, its recoveries, and never an unjustified "healthy"."""

import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest

from compat.beats import beat_twice, raise_alert, run
from compat.subscribers import home
from compat.test_embedded_node import run as run_script
from ringrift.kernel.errors import InputError, StoreError, UnknownName
from ringrift_compat.health.system_health import UnifiedHealthManager
from ringrift_compat.types import RecoveryAction

__all__ = ["home"]


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

    assert (health.score, health.level) == (60.0, "unhealthy")
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

    assert health.score > 80
    assert health.level == "degraded"
    assert any("so it is" in issue for issue in health.issues)


def test_errors_are_recorded_and_counted() -> None:
    """Each error takes from the score and the last one is an issue; warnings do not count."""
    beat_twice("n1")
    manager = UnifiedHealthManager.get_instance()
    manager.record_error("trainer", ValueError("no loss"), node_id="n1")
    manager.record_error("exporter", "no games", "warning")

    assert manager.get_system_health().score == 99.0
    assert "trainer: ValueError: no loss" in manager.get_system_health().issues[0]
    with pytest.raises(UnknownName, match="dreadful"):
        manager.record_error("trainer", "x", "dreadful")


def test_a_circuit_opens_after_failures_and_closes_with_success() -> None:
    """Each component has its own; an open one is an issue and keeps the system from being healthy."""
    beat_twice("n1")
    manager = UnifiedHealthManager.get_instance()
    for _ in range(3):
        assert not manager.is_circuit_open("trainer")
        manager.record_error("trainer", "no loss")

    assert manager.is_circuit_open("trainer")
    assert not manager.is_circuit_open("exporter")
    health = manager.get_system_health()
    assert (health.components["circuits"], bool(health)) == (0.0, False)
    assert "trainer: its circuit is open" in health.issues
    manager.record_success("trainer")
    assert not manager.is_circuit_open("trainer")
    assert manager.get_system_health().components["circuits"] == 1.0


def test_recovery_is_advised_step_by_step() -> None:
    """It may be tried once, then only after a pause; after all attempts an operator is needed."""
    manager = UnifiedHealthManager.get_instance()
    assert manager.get_recovery_action("n1") is RecoveryAction.RESTART_NODE_SERVICES
    manager.record_recovery_attempt("n1", RecoveryAction.RESTART_NODE_SERVICES, success=False, detail="still ill")

    assert manager.get_recovery_action("n1") is RecoveryAction.NONE
    assert manager.get_recovery_action("n2") is RecoveryAction.RESTART_NODE_SERVICES
    for _ in range(2):
        manager.record_recovery_attempt("n1", "reboot_node", success=False)
    assert manager.get_recovery_action("n1") is RecoveryAction.ESCALATE_HUMAN
    assert manager.get_system_health().components["recoveries"] == 0.0
    assert manager.get_recovery_action("job-1", kind="job") is RecoveryAction.RESTART_JOB
    with pytest.raises(InputError):
        manager.get_recovery_action("n1", kind="planet")


def test_the_loop_pauses_when_health_is_critical() -> None:
    """Errors and open circuits without a running node pause the loop."""
    manager = UnifiedHealthManager.get_instance()
    for number in range(20):
        manager.record_error("trainer", f"error {number}")
    manager.record_recovery_attempt("trainer", RecoveryAction.RESTART_JOB, success=False)

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
