"""Duties: the one table of documented daemons, their categories, and the part of RingRift that does each duty.

A duty is done by a daemon of ours or by a part that every node has, or is not built yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ringrift.daemons import DAEMONS

ALWAYS = ("beat", "elect", "run_commands")
"""The daemons of every node, started or not: it must be visible, hold its roles and take commands."""
# By the categories of the documents: our daemon, ``part: …`` or ``not yet: …``, and the documented names of its duties.
_ROWS = {
    "core": """
        part: the router of every node = EVENT_ROUTER
        part: the supervisor of every node = DAEMON_WATCHDOG COORDINATOR_HEALTH_MONITOR
        part: the router of every node, which reads the one log of all processes = CROSS_PROCESS_POLLER
        part: settings, which are checked when a node opens = CONFIG_VALIDATOR
        redeliver = DLQ_RETRY
        not yet: settings that nodes share over the network = CONFIG_SYNC
        not yet: nodes over a network = P2P_BACKEND P2P_RECOVERY VOTER_HEALTH_MONITOR TAILSCALE_HEALTH
        not yet: nodes over a network = CONNECTIVITY_RECOVERY SOCKET_LEAK_RECOVERY
        not yet: providers = P2P_AUTO_DEPLOY
        not yet: files over a network = DATA_SERVER
    """,
    "sync": """
        replicate = AUTO_SYNC SYNC_COORDINATOR CLUSTER_DATA_SYNC EPHEMERAL_SYNC MODEL_SYNC REPLICATION_MONITOR
        replicate = REPLICATION_REPAIR NPZ_DISTRIBUTION
        pipeline = MODEL_DISTRIBUTION
        rate = ELO_SYNC
        work = TRAINING_DATA_SYNC
        not yet: the quality of data = HIGH_QUALITY_SYNC
        not yet: files over a network = GOSSIP_SYNC SYNC_PUSH UNIFIED_DATA_PLANE UNIFIED_DATA_SYNC_ORCHESTRATOR
        not yet: files over a network = UNIFIED_DATA_CATALOG NODE_DATA_AGENT TRAINING_NODE_WATCHER
        not yet: freshness of training data = STALE_FALLBACK
        not yet: external drives = EXTERNAL_DRIVE_SYNC OWC_SYNC_MANAGER OWC_IMPORT OWC_MODEL_IMPORT OWC_PUSH
        not yet: backups = DUAL_BACKUP UNIFIED_BACKUP
        not yet: backups to S3 = S3_BACKUP S3_SYNC S3_NODE_SYNC S3_CONSOLIDATION S3_PUSH S3_IMPORT
        not yet: games from elsewhere = PRODUCTION_GAME_IMPORT
        not yet: consolidation of games = CLUSTER_CONSOLIDATION
    """,
    "training": """
        pipeline = DATA_PIPELINE AUTO_EXPORT TRAINING_TRIGGER CONTINUOUS_TRAINING_LOOP
        fill = SELFPLAY_COORDINATOR QUEUE_POPULATOR
        pipeline = FEEDBACK_LOOP GAUNTLET_FEEDBACK METRICS_ANALYSIS ELO_PROGRESS PROGRESS_WATCHDOG
        watch = TRAINING_WATCHDOG EXPORT_WATCHDOG PIPELINE_COMPLETENESS_MONITOR
        not yet: the curriculum = CURRICULUM_INTEGRATION CASCADE_TRAINING
        not yet: tuning = ARCHITECTURE_FEEDBACK
        not yet: distillation = DISTILLATION
        not yet: other kinds of model = NNUE_TRAINING
        not yet: reanalysis of old games = REANALYSIS
        not yet: weighted training samples = PER_ORCHESTRATOR
        not yet: online learning = ONLINE_MERGE
        not yet: the quality of data = TRAINING_DATA_RECOVERY PARITY_VALIDATION
        not yet: consolidation of games = DATA_CONSOLIDATION NPZ_COMBINATION COMPREHENSIVE_CONSOLIDATION
    """,
    "evaluation": """
        pipeline = EVALUATION AUTO_PROMOTION UNIFIED_PROMOTION MODEL_PERFORMANCE_WATCHDOG
        ladder = TOURNAMENT_DAEMON
        not yet: models from elsewhere = UNEVALUATED_MODEL_SCANNER COMPREHENSIVE_MODEL_SCAN STALE_EVALUATION
        not yet: models from elsewhere = BACKLOG_EVALUATION
    """,
    "health": """
        watch = NODE_HEALTH_MONITOR CLUSTER_MONITOR HEALTH_CHECK AVAILABILITY_NODE_MONITOR
        not yet: the quality of data = QUALITY_MONITOR DATA_CLEANUP
        not yet: placement on idle machines = CLUSTER_WATCHDOG CLUSTER_UTILIZATION_WATCHDOG
        not yet: the web page = HEALTH_SERVER SYSTEM_HEALTH_MONITOR
        not yet: limits of machines = MEMORY_MONITOR
        not yet: recovery of nodes = FAST_FAILURE_DETECTOR RECOVERY_ORCHESTRATOR AVAILABILITY_RECOVERY_ENGINE
        not yet: caches of models = CACHE_COORDINATION
    """,
    "resources": """
        measure_queues = WORK_QUEUE_MONITOR QUEUE_MONITOR
        work = JOB_SCHEDULER
        sweep = MAINTENANCE INTEGRITY_CHECK
        not yet: adoption of orphaned games = ORPHAN_DETECTION
        not yet: placement on idle machines = IDLE_RESOURCE UTILIZATION_OPTIMIZER UNDERUTILIZATION_RECOVERY
        not yet: placement on idle machines = RESOURCE_OPTIMIZER ADAPTIVE_RESOURCES
        not yet: room on disks = DISK_SPACE_MANAGER COORDINATOR_DISK_MANAGER
        not yet: providers = NODE_RECOVERY MULTI_PROVIDER LAMBDA_IDLE VAST_IDLE VAST_CPU_PIPELINE NODE_AVAILABILITY
        not yet: providers = AVAILABILITY_PROVISIONER AVAILABILITY_CAPACITY_PLANNER
    """,
}


@dataclass(frozen=True)
class Duty:
    """The part of ours that does the duty of a documented daemon."""

    name: str
    category: str
    kind: str
    """``daemon``, ``part`` or ``later``."""
    target: str
    """The name of our daemon; or in words, the part that does it or the work that brings it."""


def _read(category: str, row: str) -> list[Duty]:
    text, _, names = row.strip().partition(" = ")
    target = text.removeprefix("part: ")
    kind = "later" if text.startswith("not yet: ") else "daemon" if target == text else "part"
    return [Duty(name, category, kind, target) for name in names.split()]


_OWN = [Duty(daemon.name.upper(), daemon.category, "daemon", daemon.name) for daemon in DAEMONS]
DUTIES: Mapping[str, Duty] = {
    duty.name: duty
    for category, rows in _ROWS.items()
    for row in rows.strip().splitlines()
    for duty in _read(category, row)
} | {duty.name: duty for duty in _OWN if duty.target not in ALWAYS}
"""By documented name; our own daemons that can be started and stopped are here under their names too."""

OF_THE_BUS = frozenset({"EVENT_ROUTER", "CROSS_PROCESS_POLLER", "CONFIG_VALIDATOR"})
"""Parts that a program has before it becomes a whole node."""
