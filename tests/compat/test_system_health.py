"""The documented health of the system: its score, its circuits, its recoveries, and never a healthy word too much."""

import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest

from compat.beats import raise_alert, run, seen_to_beat
from compat.ears import home
from compat.test_ambient import run as run_script
from ringrift.kernel.errors import InputError, StoreError
from ringrift_compat.ambient import ambient
from ringrift_compat.levels import ErrorSeverity, RecoveryAction, SystemHealthLevel
from ringrift_compat.system_health import (
    CIRCUIT,
    COMPONENTS_MAX,
    CircuitState,
    get_health_manager,
    get_system_health_level,
    get_system_health_score,
    should_pause_pipeline,
)

__all__ = ["home"]


def test_a_system_that_is_well_is_healthy() -> None:
    """A node that beats, no error, no open circuit: a hundred points."""
    seen_to_beat("n1")

    found = get_health_manager().get_system_health()

    assert (found.score, found.level, found.issues) == (100.0, SystemHealthLevel.HEALTHY, ())
    assert found
    assert get_health_manager().health_check()
    assert not should_pause_pipeline()


def test_a_system_without_nodes_is_not_healthy() -> None:
    """Nobody is at work, so it is not even degraded; the reason says what to do."""
    found = get_health_manager().get_system_health()

    assert (found.score, found.level) == (60.0, SystemHealthLevel.UNHEALTHY)
    assert not found
    assert "ringrift run" in found.issues[0]
    assert (get_system_health_score(), get_system_health_level()) == (60.0, SystemHealthLevel.UNHEALTHY)
    assert not get_health_manager().health_check()


@pytest.mark.parametrize(("kind", "subject"), [("letter", "reader"), ("daemon", "n1/fill")])
def test_trouble_is_not_outweighed(kind: str, subject: str) -> None:
    """Finding 7: with a failed part the word is not healthy, however good the rest, and it is named."""
    for id in ("n1", "n2", "n3", "n4", "n5", "n6"):
        seen_to_beat(id)
    run(raise_alert(kind, subject, "severe"))

    found = get_health_manager().get_system_health()

    assert found.score > 80
    assert found.level is SystemHealthLevel.DEGRADED
    assert any("so it is" in issue for issue in found.issues)


def test_errors_are_remembered_and_counted() -> None:
    """The newest come first, by component if one asks; each takes from the score, notes do not."""
    seen_to_beat("n1")
    manager = get_health_manager()
    manager.record_error("trainer", ValueError("no loss"), node_id="n1")
    manager.record_error("exporter", "no games", ErrorSeverity.WARNING)

    [second, first] = manager.get_recent_errors()
    assert (first["component"], first["error"], first["node"]) == ("trainer", "ValueError: no loss", "n1")
    assert (second["severity"], second["node"]) == ("warning", ambient.node().settings.node.id)
    assert manager.get_recent_errors(limit=1, component="trainer") == [first]
    assert manager.get_recent_errors(limit=0) == []
    assert manager.get_system_health().score == 99.0
    assert "trainer: ValueError: no loss" in manager.get_system_health().issues[0]
    with pytest.raises(ValueError, match="dreadful"):
        manager.record_error("trainer", "x", "dreadful")


def test_a_circuit_opens_after_failures_and_closes_with_success() -> None:
    """Each component has its own; an open one is an issue and keeps the system from being healthy."""
    seen_to_beat("n1")
    manager = get_health_manager()
    for _ in range(CIRCUIT.failures_max):
        assert not manager.is_circuit_open("trainer")
        manager.record_error("trainer", "no loss")

    assert manager.get_circuit_state("trainer") is CircuitState.OPEN
    assert manager.get_circuit_state("exporter") is CircuitState.CLOSED
    found = manager.get_system_health()
    assert (found.components["circuits"], bool(found)) == (0.0, False)
    assert "trainer: its circuit is open" in found.issues
    manager.record_success("trainer")
    assert manager.get_circuit_state("trainer") is CircuitState.CLOSED
    assert manager.get_system_health().components["circuits"] == 1.0


def test_circuits_have_a_limit() -> None:
    """Of too many components the one that was heard of first is forgotten."""
    manager = get_health_manager()
    manager.record_error("first", "x")
    kept = ambient.node().kept["system_health"]
    for number in range(COMPONENTS_MAX):
        kept.change(f"c{number}", kept.circuits.get("first") or next(iter(kept.circuits.values())))

    assert len(kept.circuits) == COMPONENTS_MAX
    assert "first" not in kept.circuits


def test_recovery_is_advised_step_by_step() -> None:
    """It may be tried once, then only after a pause; what was tried is written down; after all tries a person."""
    manager = get_health_manager()
    assert manager.should_attempt_recovery("n1")
    assert manager.get_recovery_action("n1") is RecoveryAction.RESTART_NODE_SERVICES
    manager.record_recovery_attempt("n1", RecoveryAction.RESTART_NODE_SERVICES, success=False, detail="still ill")

    allowed, reasons = manager.should_attempt_recovery("n1")
    assert not allowed
    assert "since the last try" in reasons[0]
    assert manager.get_recovery_action("n1") is RecoveryAction.NONE
    assert manager.should_attempt_recovery("n2")
    for _ in range(2):
        manager.record_recovery_attempt("n1", "reboot_node", success=False)
    assert manager.get_recovery_action("n1") is RecoveryAction.ESCALATE_HUMAN
    assert [one["action"] for one in manager.get_recovery_history(target="n1")] == [
        "reboot_node", "reboot_node", "restart_node_services",
    ]  # fmt: skip
    assert manager.get_system_health().components["recoveries"] == 0.0
    assert manager.get_recovery_action("job-1", kind="job") is RecoveryAction.RESTART_JOB
    with pytest.raises(InputError):
        manager.should_attempt_recovery("n1", kind="planet")


def test_the_loop_pauses_when_health_is_critical() -> None:
    """Errors and open circuits without a node at work: the pause has its reasons."""
    manager = get_health_manager()
    for number in range(20):
        manager.record_error("trainer", f"error {number}")
    manager.record_recovery_attempt("trainer", RecoveryAction.RESTART_JOB, success=False)

    paused, reasons = should_pause_pipeline()

    assert paused
    assert reasons[0] == "system health 0 of 100"
    assert get_system_health_level() is SystemHealthLevel.CRITICAL


def test_a_store_that_cannot_be_read_is_critical(home: Path) -> None:
    """No points, the loop pauses, nothing is tried, and nothing is pretended to be written down."""
    (home / "coordination").mkdir()
    (home / "coordination" / "coordinator.db").write_bytes(b"this is no database, whatever its name says" * 100)
    manager = get_health_manager()

    found = manager.get_system_health()
    assert (found.score, found.level) == (0.0, SystemHealthLevel.CRITICAL)
    assert "cannot be read" in found.issues[0]
    assert should_pause_pipeline()
    assert not manager.should_attempt_recovery("n1")
    assert not manager.health_check()
    with pytest.raises(StoreError):
        manager.record_error("trainer", "no loss")


def test_another_program_sees_the_errors(home: Path) -> None:
    """They are in the store: what one program records, the next one tells."""
    run_script("from app.coordination import get_health_manager as m; m().record_error('trainer', 'no loss')", home)

    assert [one["component"] for one in get_health_manager().get_recent_errors()] == ["trainer"]


def test_the_archived_path_warns_and_has_the_same_names() -> None:
    """It names its replacement; what it offers is the very same."""
    current = importlib.import_module("app.coordination.unified_health_manager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old: Any = importlib.import_module("app.coordination.system_health_monitor")
    with pytest.warns(DeprecationWarning, match="app.coordination.unified_health_manager"):
        importlib.reload(old)

    assert old.SystemHealthMonitor is current.UnifiedHealthManager
    assert old.get_system_health_level is get_system_health_level
