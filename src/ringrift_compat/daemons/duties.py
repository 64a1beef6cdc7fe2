"""Duties: the one table of documented daemons, their categories, and the part of RingRift that does each duty.

A duty is done by a daemon of ours or by a part that every node has, is not built yet, or is retired: nothing will do
it, for the reason that its row gives.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ringrift.daemons import DAEMONS
from ringrift.kernel.errors import RingriftError

ALWAYS = ("measure_facts", "beat", "elect", "run_commands")
"""The daemons of every node, started or not: it must be visible, with what it has, hold its roles and take commands."""
WIRE = "wire"
"""The daemon that serves other machines; only a coordinator that is asked to has it, so it is in no list of daemons."""
# By the categories of the documents: our daemon, with ``if`` and the setting that it needs; ``part: …``; ``not yet: …``
# (the work that brings it) or ``retired: …`` (why nothing will); and the documented names of its duties.
_ROWS = {
    "core": """
        part: the router of every node = EVENT_ROUTER
        part: the supervisor of every node = DAEMON_WATCHDOG
        part: the heartbeat of every node, which publishes when its health changes = COORDINATOR_HEALTH_MONITOR
        part: the router of every node, which reads the one log of all processes = CROSS_PROCESS_POLLER
        part: settings, which are checked when a node opens = CONFIG_VALIDATOR
        redeliver = DLQ_RETRY
        work = CONFIG_SYNC
        wire = P2P_BACKEND DATA_SERVER
        heal if cluster.heal = P2P_RECOVERY
        watch = CONNECTIVITY_RECOVERY
        retired: the network below is not ours to repair = TAILSCALE_HEALTH
        retired: roles are leases in the store, and no node votes = VOTER_HEALTH_MONITOR
        retired: no pool of sockets is kept that could leak; children that grow are replaced = SOCKET_LEAK_RECOVERY
        not yet: providers = P2P_AUTO_DEPLOY
    """,
    "sync": """
        replicate = AUTO_SYNC SYNC_COORDINATOR MODEL_SYNC NPZ_DISTRIBUTION REPLICATION_MONITOR REPLICATION_REPAIR
        replicate = CLUSTER_DATA_SYNC GOSSIP_SYNC UNIFIED_DATA_PLANE UNIFIED_DATA_SYNC_ORCHESTRATOR
        replicate = TRAINING_NODE_WATCHER
        evacuate = EPHEMERAL_SYNC SYNC_PUSH
        adopt = UNIFIED_DATA_CATALOG NODE_DATA_AGENT
        pipeline = MODEL_DISTRIBUTION
        rate = ELO_SYNC
        work = TRAINING_DATA_SYNC S3_IMPORT OWC_IMPORT PRODUCTION_GAME_IMPORT
        mirror if backup.mirror = EXTERNAL_DRIVE_SYNC OWC_SYNC_MANAGER OWC_PUSH
        import_models if imports.folder = OWC_MODEL_IMPORT
        backup if backup.place = DUAL_BACKUP UNIFIED_BACKUP S3_BACKUP S3_SYNC S3_NODE_SYNC S3_PUSH S3_CONSOLIDATION
        consolidate = CLUSTER_CONSOLIDATION
        not yet: the quality of data = HIGH_QUALITY_SYNC
        not yet: freshness of training data = STALE_FALLBACK
    """,
    "training": """
        pipeline = DATA_PIPELINE AUTO_EXPORT TRAINING_TRIGGER CONTINUOUS_TRAINING_LOOP
        fill = SELFPLAY_COORDINATOR QUEUE_POPULATOR
        pipeline = FEEDBACK_LOOP GAUNTLET_FEEDBACK METRICS_ANALYSIS PROGRESS_WATCHDOG
        pipeline = NPZ_COMBINATION
        consolidate = DATA_CONSOLIDATION COMPREHENSIVE_CONSOLIDATION
        record_ratings = ELO_PROGRESS
        work = TRAINING_WATCHDOG EXPORT_WATCHDOG
        watch = PIPELINE_COMPLETENESS_MONITOR
        not yet: the curriculum = CURRICULUM_INTEGRATION
        not yet: tuning = ARCHITECTURE_FEEDBACK
        not yet: distillation = DISTILLATION
        retired: each variant starts from its own generation 0, and no weights pass to another = CASCADE_TRAINING
        retired: a workload brings its kind of model, and there is no second engine to train = NNUE_TRAINING
        retired: the window of a line holds games of its latest champions, so none are scored anew = REANALYSIS
        retired: samples are drawn evenly from the window of a line, and have no priorities = PER_ORCHESTRATOR
        retired: a model changes only by training and the gate, never while it plays = ONLINE_MERGE
        not yet: the quality of data = TRAINING_DATA_RECOVERY PARITY_VALIDATION
    """,
    "evaluation": """
        pipeline = EVALUATION AUTO_PROMOTION UNIFIED_PROMOTION MODEL_PERFORMANCE_WATCHDOG
        ladder = TOURNAMENT_DAEMON
        import_models if imports.folder = UNEVALUATED_MODEL_SCANNER BACKLOG_EVALUATION
        not yet: a survey of all models of all nodes = COMPREHENSIVE_MODEL_SCAN
        not yet: evaluations that expire = STALE_EVALUATION
    """,
    "health": """
        wire = CACHE_COORDINATION
        watch = NODE_HEALTH_MONITOR CLUSTER_MONITOR HEALTH_CHECK AVAILABILITY_NODE_MONITOR
        not yet: the quality of data = QUALITY_MONITOR DATA_CLEANUP
        not yet: placement on idle machines = CLUSTER_WATCHDOG CLUSTER_UTILIZATION_WATCHDOG
        heal if cluster.heal = RECOVERY_ORCHESTRATOR FAST_FAILURE_DETECTOR SYSTEM_HEALTH_MONITOR
        not yet: the web page = HEALTH_SERVER
        not yet: limits of machines = MEMORY_MONITOR
        not yet: providers = AVAILABILITY_RECOVERY_ENGINE
    """,
    "resources": """
        measure_queues = WORK_QUEUE_MONITOR QUEUE_MONITOR
        work = JOB_SCHEDULER
        sweep = MAINTENANCE INTEGRITY_CHECK
        adopt = ORPHAN_DETECTION
        disk = DISK_SPACE_MANAGER COORDINATOR_DISK_MANAGER
        not yet: placement on idle machines = IDLE_RESOURCE UTILIZATION_OPTIMIZER UNDERUTILIZATION_RECOVERY
        not yet: placement on idle machines = RESOURCE_OPTIMIZER ADAPTIVE_RESOURCES
        watch = NODE_AVAILABILITY
        not yet: providers = NODE_RECOVERY MULTI_PROVIDER LAMBDA_IDLE VAST_IDLE VAST_CPU_PIPELINE
        not yet: providers = AVAILABILITY_PROVISIONER AVAILABILITY_CAPACITY_PLANNER
    """,
}


class NotYet(RingriftError):
    """Something that the documents name is not built; *brings* names the work that brings it."""

    def __init__(self, name: str, brings: str) -> None:
        self.name, self.brings = name, brings
        super().__init__(f"{name} is not built yet; it comes with: {brings}")


@dataclass(frozen=True)
class Duty:
    """The part of ours that does the duty of a documented daemon."""

    name: str
    category: str
    kind: str
    """``daemon``, ``part``, ``later`` or ``retired``."""
    target: str
    """The name of our daemon; or in words, the part that does it, the work that brings it, or why nothing will."""

    setting: str = ""
    """The key of the setting without which our daemon has nothing to do."""

    @property
    def is_done(self) -> bool:
        """Whether something here does it."""
        return self.kind in ("daemon", "part")


_KINDS = {"part": "part", "not yet": "later", "retired": "retired"}


def _read(category: str, row: str) -> list[Duty]:
    text, _, names = row.strip().partition(" = ")
    kind = _KINDS.get(text.partition(": ")[0], "daemon")
    target, _, setting = text.removeprefix("part: ").partition(" if ")
    return [Duty(name, category, kind, target, setting) for name in names.split()]


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
