"""The table of old names: which event of ours each one is."""

from collections.abc import Mapping

from ringrift.events import (
    alert,
    cluster,
    custom,
    daemon,
    data,
    delivery,
    evaluation,
    health,
    model,
    node,
    pipeline,
    selfplay,
    training,
    work,
)
from ringrift.events.base import Event
from ringrift.kernel.value import Value


class Row(Value):
    """The meaning of one old name."""

    event: type[Event] | None
    """None if it is retired."""
    same: Mapping[str, str] = {}
    """Their field → ours, beyond the words that every row shares."""
    fixed: Mapping[str, object] = {}
    """Fields that follow from the name: set when it is published, and the filter of a subscription to it."""
    retired: str = ""
    """Why nothing here is called so any more."""


# What the documents call the fields of ours, the likeliest first.  Paths are missing on purpose: a path is no blob, and
# a file counts only once it has been imported and verified.  So are kinds of work, whose values are other words too.
WORDS: dict[str, tuple[str, ...]] = {
    "variant": ("config_key", "config", "board_config"),
    "node": ("node_id", "host", "hostname", "node_name", "source_node"),
    "job": ("job_id", "work_id", "task_id"),
    "model": ("model_id",),
    "games": ("games_generated", "games_count", "num_games"),
    "daemon": ("daemon_name", "daemon_type", "coordinator_name"),
    "error": ("error_message", "reason", "message"),
    "reason": ("error", "error_message", "message"),
    "detail": ("message", "reason", "error"),
    "subject": ("variant", "config_key", "config", "node", "node_id", "host", "daemon", "daemon_name"),
    "seconds": ("duration", "duration_seconds", "elapsed_seconds"),
    "attempts": ("attempt", "retry_count"),
}


def _to(
    event: type[Event], names: str, same: Mapping[str, str] | None = None, /, **fixed: object
) -> tuple[Row, tuple[str, ...]]:
    return Row(event=event, same=same or {}, fixed=fixed), tuple(names.split())


_EXPORTED = {"samples_exported": "count"}
_MATCHED = {"model_id": "candidate", "win_rate": "score"}
_DEAD_LETTER = {"handler_name": "reader"}

# One row for each event and its fixed fields.  ``A=B``: two words or spellings for one old name, A being the one that
# counts.  Names with a blank between them are different old names that are one event here.
TABLE: tuple[tuple[Row, tuple[str, ...]], ...] = (
    # -- the loop ------------------------------------------------------------------------------------------------------
    _to(selfplay.BatchFinished, """SELFPLAY_COMPLETE=GAME_BATCH_READY NEW_GAMES_AVAILABLE=NEW_GAMES DATABASE_CREATED
        CANONICAL_SELFPLAY_COMPLETE GPU_SELFPLAY_COMPLETE TOURNAMENT_DATA_READY"""),
    _to(data.Synced, """DATA_SYNC_COMPLETED=SYNC_COMPLETED PRIORITY_SYNC_COMPLETED CLUSTER_SYNC_COMPLETE GAME_SYNCED
        TRAINING_DATA_RECOVERED REPAIR_COMPLETED DATA_BACKUP_COMPLETED S3_BACKUP_COMPLETED""",
        {"games_synced": "games"}, kind="games"),
    _to(data.Synced, "P2P_MODEL_SYNCED MODEL_SYNC_COMPLETE", kind="model"),
    _to(data.Lost, "TRAINING_DATA_RECOVERY_FAILED MODEL_NOT_FOUND", {"model_id": "blob"}),
    _to(data.Corrupted, "TRANSPORT_CORRUPTION_DETECTED SYNC_CHECKSUM_FAILED MODEL_CORRUPTED", {"model_id": "blob"}),
    # Merging files of games or of samples was a step of its own; here an export reads all batches of the window.
    _to(data.Exported, """NPZ_EXPORT_COMPLETE NPZ_COMBINATION_COMPLETE CONSOLIDATION_COMPLETE
        TOURNAMENT_PIPELINE_COMPLETED""", _EXPORTED),
    _to(training.Finished, "TRAINING_COMPLETED TRAINING_EARLY_STOPPED"),
    # A candidate is a model that may be matched against the champion, and that begins when it has been verified.  At
    # the end of training it is not verified yet.
    _to(model.Verified, "PROMOTION_CANDIDATE"),
    _to(model.Imported, "MODEL_IMPORTED"),
    _to(evaluation.Finished, """EVALUATION_COMPLETED=EVALUATION_RESULT ELO_UPDATED ELO_SIGNIFICANT_CHANGE
        HEAD_TO_HEAD_COMPLETED HARNESS_EVALUATION_COMPLETED MULTI_HARNESS_EVALUATION_COMPLETED MODEL_HARNESS_EVALUATED
        COMPREHENSIVE_EVALUATION_COMPLETED OWC_MODEL_EVALUATION_COMPLETED TOURNAMENT_COMPLETED
        CROSS_CONFIG_TOURNAMENT_COMPLETED TOPN_ROUNDROBIN_COMPLETED SHADOW_TOURNAMENT_COMPLETE ELO_CALIBRATION_COMPLETE
        TIER_GATING_COMPLETE""",
        _MATCHED),
    _to(evaluation.Finished, "PROMOTION_CONSENSUS_APPROVED", _MATCHED, promoted=True),
    _to(evaluation.VelocityChanged, "ELO_VELOCITY_CHANGED", {"velocity": "elo_per_hour"}),
    _to(evaluation.Plateaued, "PLATEAU_DETECTED"),
    _to(model.Promoted, "MODEL_PROMOTED=PROMOTION_COMPLETE MODEL_UPDATED TIER_PROMOTION CROSSBOARD_PROMOTION"),
    _to(model.Rejected, "PROMOTION_FAILED PROMOTION_REJECTED", {"gate": "reason"}),
    _to(model.Distributed, "MODEL_DISTRIBUTION_COMPLETE"),
    # Promotion is one transaction; what begins before it is the match.
    _to(pipeline.Moved, "PROMOTION_STARTED", stage="evaluating"),
    _to(pipeline.Moved, "ITERATION_COMPLETE", stage="collecting"),
    _to(pipeline.Moved, "PROGRESS_RECOVERED WORK_QUEUE_RECOVERED"),
    _to(pipeline.Requested, "SYNC_TRIGGERED=DATA_SYNC_TRIGGERED=SYNC_REQUEST MODEL_SYNC_REQUESTED", stage="sync"),
    _to(pipeline.Requested, "EXPORT_TRIGGERED=EXPORT_REQUESTED", stage="export"),
    _to(pipeline.Requested, """TRAINING_TRIGGERED=TRAINING_REQUESTED TRAINING_THRESHOLD_REACHED=TRAINING_THRESHOLD
        TOURNAMENT_TRAINING_TRIGGERED""", stage="train"),
    _to(pipeline.Requested, """EVALUATION_REQUESTED=EVALUATION_TRIGGERED
        UNEVALUATED_MODELS_FOUND=UNEVALUATED_MODELS_DETECTED""", stage="evaluate"),
    _to(pipeline.Requested, "PROMOTION_REQUESTED=PROMOTION_TRIGGERED", stage="promote"),
    _to(pipeline.Overdue, "PIPELINE_STAGE_OVERDUE PROGRESS_STALL_DETECTED SYNC_STALLED WORK_QUEUE_STALLED "
        "CLUSTER_STALL_DETECTED"),
    _to(pipeline.Overdue, "TRAINING_SLOT_UNAVAILABLE TRAINING_LOCK_TIMEOUT", stage="training"),
    _to(pipeline.Overdue, "EVALUATION_STUCK MODEL_EVALUATION_BLOCKED", stage="evaluating"),
    # -- jobs ----------------------------------------------------------------------------------------------------------
    _to(work.Enqueued, "WORK_QUEUED WORK_SUBMITTED IDLE_NODE_WORK_INJECTED"),
    # How much is to be played is not a number that is set, but the jobs that are asked for.
    _to(work.Enqueued, """BATCH_SCHEDULED BATCH_DISPATCHED QUALITY_SELFPLAY_DISPATCHED SELFPLAY_TARGET_UPDATED
        SELFPLAY_RATE_CHANGED SELFPLAY_ALLOCATION_UPDATED P2P_SELFPLAY_SCALED""", kind="play"),
    _to(work.Enqueued, "EVALUATION_QUEUED EVALUATION_SUBMITTED OWC_MODEL_BACKLOG_QUEUED", kind="match"),
    _to(work.Started, "WORK_STARTED WORK_CLAIMED TASK_SPAWNED JOB_SPAWN_VERIFIED"),
    _to(work.Started, "DATA_SYNC_STARTED=SYNC_STARTED", kind="sync"),
    _to(work.Started, "NPZ_EXPORT_STARTED NPZ_COMBINATION_STARTED CONSOLIDATION_STARTED", kind="export"),
    _to(work.Started, "TRAINING_STARTED TRAINING_LOCK_ACQUIRED CHECKPOINT_LOADED", kind="train"),
    _to(work.Started, "EVALUATION_STARTED COMPREHENSIVE_EVALUATION_STARTED OWC_MODEL_EVALUATION_STARTED", kind="match"),
    _to(work.Started, "MODEL_DISTRIBUTION_STARTED", kind="distribute"),
    _to(work.Progressed, "TASK_HEARTBEAT"),
    _to(work.Progressed, "TRAINING_PROGRESS TRAINING_HEARTBEAT TRAINING_LOSS_TREND CHECKPOINT_SAVED", kind="train"),
    _to(work.Progressed, "EVALUATION_PROGRESS", kind="match"),
    _to(work.Finished, "WORK_COMPLETED TASK_COMPLETED CPU_PIPELINE_JOB_COMPLETED"),
    _to(work.Failed, "WORK_FAILED TASK_FAILED WORK_TIMEOUT JOB_PREEMPTED JOB_SPAWN_FAILED"),
    _to(work.Failed, "WORK_RETRY", again=True),
    _to(work.Failed, "WORK_CANCELLED TASK_CANCELLED", again=False),
    _to(work.Failed, "GAME_SAVE_FAILED", kind="play"),
    _to(work.Failed, "DATA_SYNC_FAILED=SYNC_FAILED PRIORITY_SYNC_FAILED REPAIR_FAILED", kind="sync"),
    _to(work.Failed, "EXPORT_VALIDATION_FAILED NPZ_COMBINATION_FAILED", kind="export"),
    _to(work.Failed, "TRAINING_FAILED TRAINING_TIMEOUT_REACHED TRAINING_PROCESS_KILLED", kind="train"),
    _to(work.Failed, "EVALUATION_FAILED ELO_RECORDING_FAILED ELO_VALIDATION_FAILED OWC_MODEL_EVALUATION_FAILED",
        kind="match"),
    _to(work.Failed, "MODEL_DISTRIBUTION_FAILED", kind="distribute"),
    _to(work.Buried, "TASK_ABANDONED"),
    _to(work.Rescued, "TASK_ORPHANED EVALUATION_RECOVERED"),
    _to(work.PressureChanged, "WORK_QUEUE_BACKPRESSURE BACKPRESSURE_ACTIVATED EVALUATION_BACKPRESSURE", level="hard"),
    _to(work.PressureChanged, """WORK_QUEUE_BACKPRESSURE_RELEASED BACKPRESSURE_RELEASED
        EVALUATION_BACKPRESSURE_RELEASED""", level="none"),
    # -- nodes, daemons, deliveries ------------------------------------------------------------------------------------
    _to(node.Joined, "HOST_ONLINE NODE_ACTIVATED NODE_PROVISIONED"),
    _to(node.Left, "NODE_RETIRED NODE_TERMINATED"),
    _to(node.Lost, "HOST_OFFLINE P2P_NODE_DEAD P2P_NODES_DEAD NODE_SUSPECT SSH_NODE_UNRESPONSIVE"),
    _to(node.Recovered, "NODE_RECOVERED SSH_NODE_RECOVERED"),
    _to(cluster.RoleTaken, "LEADER_ELECTED COORDINATOR_FAILOVER COORDINATOR_HANDOFF EPOCH_ADVANCED",
        {"leader_id": "node", "epoch": "term"}),
    _to(daemon.Started, "DAEMON_STARTED DAEMON_FAILURE_RECOVERED"),
    _to(daemon.Stopped, """DAEMON_STOPPED DAEMON_STATUS_CHANGED DAEMON_FAILURE_CLASSIFIED P2P_LOOP_TIMEOUT
        COORDINATOR_SHUTDOWN COORDINATOR_EMERGENCY_SHUTDOWN"""),
    _to(daemon.Failed, """DAEMON_FAILED=DAEMON_PERMANENTLY_FAILED DAEMON_CRASH_LOOP_DETECTED DAEMON_FAILURE_ESCALATED
        P2P_LOOP_STARTUP_FAILED COORDINATOR_INIT_FAILED"""),
    _to(health.Changed, "CLUSTER_HEALTH_CHANGED CLUSTER_STATUS_CHANGED CLUSTER_CAPACITY_CHANGED NODE_CAPACITY_UPDATED"),
    _to(health.Changed, "HEALTH_CHECK_PASSED P2P_CLUSTER_HEALTHY P2P_HEALTH_RECOVERED COORDINATOR_HEALTHY",
        status="healthy"),
    _to(health.Changed, "COORDINATOR_HEALTH_DEGRADED P2P_LOOP_PERFORMANCE_DEGRADED", status="degraded"),
    _to(health.Changed, "HEALTH_CHECK_FAILED NODE_UNHEALTHY P2P_CLUSTER_UNHEALTHY COORDINATOR_UNHEALTHY",
        status="unhealthy"),
    _to(delivery.Changed, "HANDLER_FAILED HANDLER_TIMEOUT", _DEAD_LETTER, state="parked"),
    _to(delivery.Changed, "DLQ_STALE_EVENTS", _DEAD_LETTER, state="dead"),
    _to(delivery.Changed, "DLQ_EVENTS_REPLAYED QUEUED_EVENTS_SYNCED", _DEAD_LETTER, state="done"),
    _to(delivery.Changed, "DLQ_EVENTS_PURGED", _DEAD_LETTER, state="discarded"),
    # -- troubles ------------------------------------------------------------------------------------------------------
    _to(alert.Raised, "ERROR", kind="error", level="severe"),
    _to(alert.Raised, "HEALTH_ALERT", kind="health"),
    _to(alert.Raised, "REGRESSION_DETECTED", kind="regression"),
    _to(alert.Raised, "REGRESSION_MINOR", kind="regression", level="minor"),
    _to(alert.Raised, "REGRESSION_MODERATE", kind="regression", level="warning"),
    _to(alert.Raised, "REGRESSION_SEVERE", kind="regression", level="severe"),
    _to(alert.Raised, "REGRESSION_CRITICAL", kind="regression", level="critical"),
    _to(alert.Cleared, "REGRESSION_CLEARED", kind="regression"),
    _to(alert.Raised, "PROMOTION_ROLLED_BACK TRAINING_ROLLBACK_NEEDED", kind="rollback", level="severe"),
    _to(alert.Cleared, "TRAINING_ROLLBACK_COMPLETED", kind="rollback"),
    _to(alert.Raised, "TRAINING_LOSS_ANOMALY", kind="loss", level="warning"),
    _to(alert.Raised, "DATA_STALE", kind="stale_data", level="warning"),
    _to(alert.Raised, "DATA_STARVATION_CRITICAL", kind="stale_data", level="critical"),
    _to(alert.Cleared, "DATA_FRESH", kind="stale_data"),
    _to(alert.Raised, """DATA_QUALITY_ALERT QUALITY_DEGRADED QUALITY_CHECK_FAILED LOW_QUALITY_DATA_WARNING
        QUALITY_PENALTY_APPLIED""", kind="quality", level="warning"),
    _to(alert.Raised, "TRAINING_BLOCKED_BY_QUALITY", kind="quality", level="severe"),
    _to(alert.Cleared, "HIGH_QUALITY_DATA_AVAILABLE", kind="quality"),
    _to(alert.Raised, "ORPHAN_GAMES_DETECTED", kind="orphans", level="warning"),
    _to(alert.Cleared, "ORPHAN_GAMES_REGISTERED ORPHAN_GAME_PREVENTED", kind="orphans"),
    _to(alert.Raised, "REPLICATION_ALERT DISTRIBUTION_INCOMPLETE", kind="copies", level="warning"),
    _to(alert.Raised, "SYNC_FAILURE_CRITICAL", kind="copies", level="critical"),
    _to(alert.Raised, "SYNC_NODE_UNREACHABLE CLUSTER_VISIBILITY_DEGRADED PRIVATE_IP_ADVERTISED", kind="network",
        level="warning"),
    _to(alert.Raised, "NETWORK_ISOLATION_DETECTED", kind="network", level="severe"),
    _to(alert.Raised, "DISK_SPACE_LOW", kind="disk", level="warning"),
    _to(alert.Raised, "DISK_CLEANUP_TRIGGERED", kind="disk", level="info"),
    _to(alert.Raised, "MEMORY_PRESSURE", kind="memory"),
    _to(alert.Raised, "MEMORY_PRESSURE_CAUTION", kind="memory", level="minor"),
    _to(alert.Raised, "MEMORY_PRESSURE_WARNING", kind="memory", level="warning"),
    _to(alert.Raised, "MEMORY_PRESSURE_CRITICAL MEMORY_PRESSURE_EMERGENCY", kind="memory", level="critical"),
    _to(alert.Cleared, "MEMORY_PRESSURE_RECOVERED", kind="memory"),
    _to(alert.Raised, "RESOURCE_CONSTRAINT=RESOURCE_CONSTRAINT_DETECTED NODE_OVERLOADED", kind="resources",
        level="warning"),
    _to(alert.Raised, "SOCKET_LEAK_DETECTED", kind="sockets", level="warning"),
    _to(alert.Cleared, "SOCKET_LEAK_RECOVERED", kind="sockets"),
    _to(alert.Raised, "EVENT_LOOP_BLOCKED", kind="loop", level="warning"),
    _to(alert.Raised, "GPU_CAPABILITY_MISMATCH PYTORCH_CUDA_MISMATCH NODE_INCOMPATIBLE_WITH_WORKLOAD",
        kind="incompatible", level="severe"),
    _to(alert.Raised, "CAPACITY_LOW NODE_PROVISION_FAILED", kind="capacity", level="warning"),
    _to(alert.Cleared, "CAPACITY_RESTORED", kind="capacity"),
    _to(alert.Raised, """IDLE_RESOURCE_DETECTED CLUSTER_UNDERUTILIZED WORK_QUEUE_EXHAUSTED UTILIZATION_RECOVERY_STARTED
        UTILIZATION_RECOVERY_FAILED""", kind="idle", level="info"),
    _to(alert.Cleared, "CLUSTER_UTILIZATION_RECOVERED UTILIZATION_RECOVERY_COMPLETED", kind="idle"),
    _to(alert.Raised, "FAST_FAILURE_ALERT FAST_FAILURE_RECOVERY RESILIENCE_ESCALATION", kind="failures",
        level="severe"),
    _to(alert.Cleared, "FAST_FAILURE_RECOVERED", kind="failures"),
    _to(alert.Raised, "RECOVERY_INITIATED", kind="recovery", level="info"),
    _to(alert.Raised, "RECOVERY_FAILED", kind="recovery", level="severe"),
    _to(alert.Cleared, "RECOVERY_COMPLETED", kind="recovery"),
    _to(alert.Raised, "CIRCUIT_BREAKER_OPENED", kind="breaker", level="warning"),
    _to(alert.Raised, "CIRCUIT_BREAKER_HALF_OPEN CIRCUIT_BREAKER_THRESHOLD", kind="breaker", level="minor"),
    _to(alert.Raised, "ESCALATION_TIER_CHANGED", kind="breaker", level="severe"),
    _to(alert.Cleared, "CIRCUIT_BREAKER_CLOSED CIRCUIT_RESET", kind="breaker"),
    # The documents' own stand-ins for a reader's events.
    _to(custom.Published, "CUSTOM_EVENT", event="CUSTOM_EVENT"),
    _to(custom.Published, "YOUR_EVENT", event="YOUR_EVENT"),
)  # fmt: skip
