"""The coverage page: every documented name has a row, and every row's tests exist."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "coverage.md"

NOT_YET = "not yet"
SHOWN = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
SEEDS = re.compile(r"00[0-4](, 00[0-4])*")

# Every module name of the five documents, as our map of modules lists them.
MODULES: tuple[str, ...] = (
    "types",
    "enums",
    "contracts",
    "protocols",
    "alert_types",
    "coordinator_config",
    "sync_constants",
    "feedback_signals",
    "node_status",
    "node_circuit_breaker",
    "handler_resilience",
    "dynamic_thresholds",
    "utils",
    "data_events",
    "stage_events",
    "event_mappings",
    "event_normalization",
    "event_emitters",
    "core_events",
    "event_router",
    "event_bus",
    "unified_event_coordinator",
    "event_subscription_registry",
    "event_subscription_mixin",
    "cross_process_events",
    "handler_base",
    "base_handler",
    "integration_bridge",
    "dead_letter_queue",
    "tracing",
    "coordinator_persistence",
    "coordinator_base",
    "database_sync_manager",
    "daemon_manager",
    "daemon_types",
    "daemon_registry",
    "daemon_factory",
    "daemon_factory_implementations",
    "daemon_lifecycle",
    "daemon_metrics",
    "daemon_stats",
    "daemon_adapters",
    "daemon_runners",
    "base_daemon",
    "base_orchestrator",
    "master_loop_guard",
    "coordination_bootstrap",
    "coordinator_dependencies",
    "facade",
    "unified_registry",
    "orchestrator_registry",
    "singleton_mixin",
    "helpers",
    "core_utils",
    "async_bridge_manager",
    "async_training_bridge",
    "launch_daemons",
    "p2p_backend",
    "p2p_integration",
    "p2p",
    "node_availability_cache",
    "unified_inventory",
    "leadership_coordinator",
    "distributed_lock",
    "sync_mutex",
    "health_check_orchestrator",
    "unified_health_manager",
    "health_facade",
    "health_check_helper",
    "cluster_status_monitor",
    "node_health_monitor",
    "system_health_monitor",
    "unified_cluster_monitor",
    "cluster_monitor_daemon",
    "robust_cluster_monitor",
    "host_health_policy",
    "stall_detection",
    "sync_stall_handler",
    "resource_monitoring_coordinator",
    "unified_resource_coordinator",
    "resource_optimizer",
    "resource_targets",
    "adaptive_resource_manager",
    "load_forecaster",
    "utilization_optimizer",
    "node_policies",
    "multi_provider_orchestrator",
    "slurm_backend",
    "work_queue",
    "task_coordinator",
    "task_lifecycle_coordinator",
    "task_decorators",
    "duration_scheduler",
    "job_scheduler",
    "safeguards",
    "backpressure",
    "queue_monitor",
    "work_queue_monitor_daemon",
    "sync_facade",
    "sync_router",
    "sync_coordinator",
    "auto_sync_daemon",
    "ephemeral_sync",
    "cluster_data_sync",
    "unified_data_sync",
    "sync_base",
    "sync_bloom_filter",
    "sync_durability",
    "cluster_transport",
    "transfer_verification",
    "p2p_sync",
    "app.core.ssh",
    "transaction_isolation",
    "app.core.node",
    "scripts/p2p_orchestrator.py",
    "sync_bandwidth",
    "bandwidth_manager",
    "delivery_ledger",
    "delivery_retry_queue",
    "data_pipeline_orchestrator",
    "pipeline_actions",
    "pipeline_triggers",
    "training_coordinator",
    "selfplay_orchestrator",
    "training_trigger_daemon",
    "auto_export_daemon",
    "evaluation_daemon",
    "auto_promotion_daemon",
    "training_freshness",
    "training_activity_daemon",
    "curriculum_integration",
    "curriculum_weights",
    "selfplay_scheduler",
    "feedback_loop_controller",
    "gauntlet_feedback_controller",
    "unified_feedback",
    "unified_signals",
    "metrics_analysis_orchestrator",
    "stability_heuristic",
    "model_performance_watchdog",
    "model_lifecycle_coordinator",
    "cache_coordination_orchestrator",
    "recovery_orchestrator",
    "optimization_coordinator",
    "npz_validation",
    "quality_monitor_daemon",
    "data_cleanup_daemon",
    "unified_queue_populator",
    "queue_populator",
    "unified_replication_daemon",
    "unified_distribution_daemon",
    "model_distribution_daemon",
    "npz_distribution_daemon",
    "ephemeral_data_guard",
    "orphan_detection_daemon",
    "idle_resource_daemon",
    "auto_scaler",
    "unified_idle_shutdown_daemon",
    "node_recovery_daemon",
    "p2p_auto_deployer",
    "cluster_watchdog_daemon",
    "disk_space_manager_daemon",
    "maintenance_daemon",
    "s3_backup_daemon",
    "data_consolidation_daemon",
    "tournament_daemon",
)


@dataclass(frozen=True)
class Row:
    """One row of the page: its cells by the name of their column."""

    section: str
    line: int
    cells: dict[str, str]

    @property
    def name(self) -> str:
        """The first cell, without the few words behind a dash."""
        return next(iter(self.cells.values())).split(" — ")[0]

    def __str__(self) -> str:
        return f"docs/coverage.md:{self.line}: {self.name}"


def rows(text: str) -> Iterator[Row]:
    """Every row of every table in *text*."""
    section, columns = "", list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            section, columns = line.lstrip("# "), []
        elif line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not columns:
                columns = cells
            elif set(line) - set("|- "):
                yield Row(section, number, dict(zip(columns, cells, strict=True)))


def unshown(row: Row, root: Path = ROOT) -> str:
    """What is wrong with the tests that *row* names; "" if nothing is."""
    shown = row.cells["shown by"]
    if shown == NOT_YET:
        return ""
    for part in shown.split(", "):
        found = SHOWN.fullmatch(part)
        if not found:
            return f"{row}: neither {NOT_YET!r} nor a test: {part!r}"
        path, function = found.groups()
        if not (root / path).is_file():
            return f"{row}: no file {path}"
        if function and not _defines(root / path, function):
            return f"{row}: {path} has no {function}"
    return ""


def _defines(path: Path, function: str) -> bool:
    """Whether the test file at *path* has a test of this name."""
    return function.startswith("test_") and function in _functions(path)


@cache
def _functions(path: Path) -> frozenset[str]:
    """The names of what the file at *path* defines."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def twice(page: list[Row]) -> list[str]:
    """Names that one section has more than once."""
    counts = Counter((row.section, row.name) for row in page)
    return [f"{section}: {name}" for (section, name), count in counts.items() if count > 1]


def short(name: str) -> str:
    """The last part of a module's path: ``app.core.ssh`` → ``ssh``, ``scripts/launch.py`` → ``launch``."""
    return PurePosixPath(name.removesuffix(".py").replace(".", "/")).name


@pytest.fixture(scope="module")
def page() -> list[Row]:
    """The rows of the page."""
    found = list(rows(PAGE.read_text(encoding="utf-8")))
    assert found
    return found


def test_every_row_names_tests_that_exist(page: list[Row]) -> None:
    """A row says "not yet", or names tests that are there."""
    wrong = [problem for row in page if (problem := unshown(row))]

    assert not wrong, "\n" + "\n".join(wrong)


def test_no_name_has_two_rows_in_a_section(page: list[Row]) -> None:
    """A name stands once in its section."""
    assert not twice(page)


def test_every_row_says_where_it_comes_from_and_where_it_goes(page: list[Row]) -> None:
    """A row names the documents that promise it and the place that serves it."""
    wrong = [str(row) for row in page if not SEEDS.fullmatch(row.cells["seed"]) or not row.cells["lives in"]]

    assert not wrong, "\n" + "\n".join(wrong)


def test_every_documented_module_has_a_row(page: list[Row]) -> None:
    """Every module name of the documents stands in the section of modules."""
    names = {row.name.strip("`") for row in page if row.section == "Modules"}
    listed = names | {short(name) for name in names}

    missing = [module for module in MODULES if module not in listed]

    assert not missing


@pytest.mark.parametrize(
    "shown",
    [
        "",
        "soon",
        "Not yet",
        "tests/documents/test_coverage.py",
        "`tests/documents/test_nothing.py`",
        "`tests/documents/test_coverage.py::test_nothing`",
        "`tests/documents/test_coverage.py::short`",
        "`tests/documents/test_coverage.py`, not yet",
        "`src/ringrift/__init__.py`",
    ],
)
def test_a_row_with_a_wrong_test_is_found(shown: str) -> None:
    """Anything but "not yet" and the ids of real tests is found."""
    (row,) = rows(f"# S\n| name | shown by |\n|---|---|\n| x — a thing | {shown} |")

    assert unshown(row)


@pytest.mark.parametrize(
    "shown",
    [
        "not yet",
        "`tests/documents/test_coverage.py`",
        "`tests/documents/test_coverage.py::test_a_name_given_twice_is_found`, `tests/documents/test_coverage.py`",
    ],
)
def test_a_row_with_a_right_test_passes(shown: str) -> None:
    """Files and functions that exist are accepted, one or several."""
    (row,) = rows(f"# S\n| name | shown by |\n|---|---|\n| x — a thing | {shown} |")

    assert not unshown(row)


def test_a_name_given_twice_is_found() -> None:
    """The same name in one section is found; in two sections it is not."""
    table = "| name | shown by |\n|---|---|\n| x — a thing | not yet |\n"

    assert twice(list(rows(f"# S\n{table}| x — again | not yet |")))
    assert not twice(list(rows(f"# S\n{table}# T\n{table}")))
