"""The table of old names: which event of ours each true name is.

A name has a row only if our event, with the fixed fields and the condition of its row, means the same thing.  Names
whose subject is not built yet are in :mod:`not_yet`, those whose subject never comes in :mod:`retired`.
"""

from collections.abc import Callable, Mapping
from typing import Any

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
from ringrift.kernel.value import Value, changed


class Row(Value):
    """The meaning of one old name: an event, or the reason why no event of ours has this name."""

    event: type[Event] | None = None
    """None if it is not there yet or retired."""
    same: Mapping[str, str] = {}
    """Their field → ours, beyond the words that every row shares."""
    fixed: Mapping[str, object] = {}
    """Fields that follow from the name: set when it is published, and the filter of a subscription to it.

    A tuple lists the values that a field may have; the first is set when it is published without one.
    """
    condition: str = ""
    """What else must be true of the event, in words, if anything."""
    check: Callable[[Any], bool] | None = None
    """The same as a function."""
    also: tuple[type[Event], ...] = ()
    """Other events that mean the same, whatever their fields."""
    not_yet: str = ""
    """What brings it, if nothing here is called so yet."""
    retired: str = ""
    """Why nothing here will be called so."""

    @property
    def events(self) -> tuple[type[Event], ...]:
        """Every event of ours that may have this name."""
        return () if self.event is None else (self.event, *self.also)


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


def _if(
    condition: str, check: Callable[[Any], bool], entry: tuple[Row, tuple[str, ...]]
) -> tuple[Row, tuple[str, ...]]:
    """*entry* with a condition: *check* says in code what *condition* says in words."""
    row, names = entry
    return Row(event=row.event, same=row.same, fixed=row.fixed, condition=condition, check=check), names


def _any(names: str, *events: type[Event]) -> tuple[Row, tuple[str, ...]]:
    """Each of *events*, whatever its fields."""
    return Row(event=events[0], also=events[1:]), tuple(names.split())


def _also(event: type[Event], entry: tuple[Row, tuple[str, ...]]) -> tuple[Row, tuple[str, ...]]:
    """*entry* for *event* too, whatever its fields."""
    row, names = entry
    return changed(row, also=(event,)), names


_TASK = {"task_id": "task", "task_type": "kind", "status": "state"}
_EXPORTED = {"samples_exported": "count"}
_MATCHED = {"model_id": "candidate", "win_rate": "score"}
_DEAD_LETTER = {"handler_name": "reader"}
_LEADER = {"leader_id": "node", "epoch": "term"}
_FAILURES = ("error", "spawn", "child_died", "timeout", "silent", "no_room")
"""Causes of an attempt that failed; one that was given back or lost to another node has not."""
_COORDINATORS = ("coordinator", "full")
_SEVERE = ("severe", "critical")


def _has_loss_trend(event: work.Progressed) -> bool:
    return "loss" in event.metrics and "loss" in event.before


# One row for each event, its fixed fields and its condition.  ``A=B``: two words or spellings for one old name, A being
# the one that counts.  Names with a blank between them are different old names that are one event here.
TABLE: tuple[tuple[Row, tuple[str, ...]], ...] = (
    # -- the loop ------------------------------------------------------------------------------------------------------
    _to(selfplay.BatchFinished, "SELFPLAY_COMPLETE=GAME_BATCH_READY NEW_GAMES_AVAILABLE=NEW_GAMES DATABASE_CREATED"),
    _to(selfplay.BatchFinished, "QUEUED_EVENTS_SYNCED", island=True),
    _to(data.Synced, "DATA_SYNC_COMPLETED=SYNC_COMPLETED GAME_SYNCED", {"games_synced": "games"}, kind="games"),
    _to(data.Synced, "P2P_MODEL_SYNCED MODEL_SYNC_COMPLETE", kind="model"),
    _to(data.Synced, "REPAIR_COMPLETED", repair=True),
    _if("several nodes have a copy", lambda e: len(e.nodes) > 1, _to(data.Synced, "CLUSTER_SYNC_COMPLETE")),
    _also(model.Distributed, _to(data.Synced, "CLUSTER_MODEL_INVENTORY_UPDATED", kind="model")),
    _to(data.PrioritySynced, "PRIORITY_SYNC_COMPLETED", {"games_synced": "node_count"}, success=True),
    _to(data.PrioritySynced, "PRIORITY_SYNC_FAILED", success=False),
    # Whether a file of unknown origin holds games only its reader could tell.
    _to(data.Adopted, "ORPHAN_GAMES_DETECTED ORPHAN_GAMES_REGISTERED"),
    _to(data.Packed, "CONSOLIDATION_COMPLETE"),
    _to(cluster.BackedUp, "DATA_BACKUP_COMPLETED"),
    _if("to a bucket", lambda e: e.place.startswith("s3://"), _to(cluster.BackedUp, "S3_BACKUP_COMPLETED")),
    _to(data.Lost, "MODEL_NOT_FOUND", {"model_id": "blob"}, kind="model"),
    _to(data.Corrupted, "TRANSPORT_CORRUPTION_DETECTED SYNC_CHECKSUM_FAILED", during="transfer"),
    _to(data.Exported, "NPZ_EXPORT_COMPLETE", _EXPORTED),
    # An export makes one file of samples out of all batches in the window of a line.
    _if("of several batches", lambda e: len(e.batches) > 1, _to(data.Exported, "NPZ_COMBINATION_COMPLETE", _EXPORTED)),
    _if("batches were left out because their games do not replay", lambda e: bool(e.refused),
        _to(data.Exported, "EXPORT_VALIDATION_FAILED", _EXPORTED)),
    _to(training.Finished, "TRAINING_COMPLETED"),
    # A candidate is a model that may be matched against the champion, and that begins when it has been verified.  At
    # the end of training it is not verified yet.
    _to(model.Verified, "PROMOTION_CANDIDATE"),
    _to(model.Imported, "MODEL_IMPORTED"),
    _to(evaluation.Finished, "EVALUATION_COMPLETED=EVALUATION_RESULT", _MATCHED),
    _any("HEAD_TO_HEAD_COMPLETED", evaluation.Finished, evaluation.Reviewed),
    # The gate promotes only a gain of which it is sure.
    _to(evaluation.Finished, "ELO_SIGNIFICANT_CHANGE", _MATCHED, promoted=True),
    _to(evaluation.Rated, "ELO_UPDATED"),
    _to(evaluation.VelocityChanged, "ELO_VELOCITY_CHANGED", {"velocity": "elo_per_hour"}),
    _to(evaluation.Plateaued, "PLATEAU_DETECTED"),
    _to(model.Promoted, "MODEL_PROMOTED=PROMOTION_COMPLETE"),
    _if("on evidence, which ends an iteration of the line", lambda e: e.evidence is not None,
        _to(model.Promoted, "ITERATION_COMPLETE")),
    _any("MODEL_UPDATED", model.Promoted, model.RolledBack),
    _to(model.Rejected, "PROMOTION_FAILED", {"gate": "reason"}),
    _if("by the gate, on evidence", lambda e: e.evidence is not None,
        _to(model.Rejected, "PROMOTION_REJECTED", {"gate": "reason"})),
    _to(model.RolledBack, "PROMOTION_ROLLED_BACK TRAINING_ROLLBACK_COMPLETED"),
    _to(evaluation.Reviewed, "REGRESSION_DETECTED TRAINING_ROLLBACK_NEEDED", passed=False),
    _to(model.RolledBack, "REGRESSION_MINOR", level="minor"),
    _to(model.RolledBack, "REGRESSION_MODERATE", level="moderate"),
    _to(model.RolledBack, "REGRESSION_SEVERE", level="severe"),
    _to(model.RolledBack, "REGRESSION_CRITICAL", level="critical"),
    _to(alert.Cleared, "REGRESSION_CLEARED", kind="regression"),
    _if("no node that plays was missed", lambda e: not e.missed,
        _to(model.Distributed, "MODEL_DISTRIBUTION_COMPLETE")),
    _if("nodes that play were not reached", lambda e: bool(e.missed),
        _to(model.Distributed, "DISTRIBUTION_INCOMPLETE")),
    # Promotion is one transaction; what begins before it, and may lead to it, is the test of the candidate.
    _to(pipeline.Moved, "EVALUATION_STARTED PROMOTION_STARTED", stage="evaluating"),
    _to(pipeline.Moved, "TRAINING_THRESHOLD_REACHED=TRAINING_THRESHOLD", stage="exporting", before="collecting",
        requested=False),
    _to(pipeline.Moved, "PROGRESS_RECOVERED", late=True),
    _to(pipeline.Moved, "EVALUATION_RECOVERED", late=True, before="evaluating"),
    _to(pipeline.Requested, "SYNC_TRIGGERED=DATA_SYNC_TRIGGERED=SYNC_REQUEST", stage="sync"),
    _to(pipeline.Requested, "EXPORT_TRIGGERED=EXPORT_REQUESTED", stage="export"),
    _to(pipeline.Requested, "TRAINING_TRIGGERED=TRAINING_REQUESTED", stage="train"),
    _to(pipeline.Requested, "EVALUATION_REQUESTED=EVALUATION_TRIGGERED", stage="evaluate"),
    _to(pipeline.Requested, "PROMOTION_REQUESTED=PROMOTION_TRIGGERED", stage="promote"),
    _to(pipeline.Overdue, "PIPELINE_STAGE_OVERDUE PROGRESS_STALL_DETECTED"),
    _to(pipeline.Overdue, "EVALUATION_STUCK", stage="evaluating"),
    _to(pipeline.Overdue, "DATA_STARVATION_CRITICAL", stage="collecting"),
    # -- jobs ----------------------------------------------------------------------------------------------------------
    _to(work.Enqueued, "WORK_QUEUED WORK_SUBMITTED"),
    _to(work.Enqueued, "BATCH_SCHEDULED", kind="play"),
    _to(work.Enqueued, "EVALUATION_QUEUED EVALUATION_SUBMITTED", kind="match", purpose="promotion"),
    _to(work.Enqueued, "MODEL_SYNC_REQUESTED", kind="sync", purpose="model"),
    _to(work.Cancelled, "WORK_CANCELLED"),
    _to(work.Started, "WORK_STARTED WORK_CLAIMED"),
    _to(work.Started, "BATCH_DISPATCHED", kind="play"),
    _to(work.Started, "DATA_SYNC_STARTED=SYNC_STARTED", kind="sync", purpose="games"),
    _to(work.Started, "NPZ_EXPORT_STARTED NPZ_COMBINATION_STARTED", kind="export"),
    _to(work.Started, "TRAINING_STARTED", kind="train"),
    # A claim of a training job takes the training slot of its variant, as a program does with the lock.
    _also(training.Locked, _to(work.Started, "TRAINING_LOCK_ACQUIRED", kind="train")),
    _to(training.LockTimedOut, "TRAINING_LOCK_TIMEOUT LOCK_TIMEOUT"),
    _to(work.Started, "CHECKPOINT_LOADED", resumed=True),
    _to(work.Started, "MODEL_DISTRIBUTION_STARTED", kind="distribute"),
    _to(work.Progressed, "TASK_HEARTBEAT"),
    _to(work.Progressed, "JOB_SPAWN_VERIFIED", first=True),
    _to(work.Progressed, "TRAINING_HEARTBEAT", kind="train"),
    _to(work.Progressed, "TRAINING_PROGRESS", kind="train", first=False),
    _if("its loss is reported, and was before", _has_loss_trend,
        _to(work.Progressed, "TRAINING_LOSS_TREND", kind="train")),
    _if("a checkpoint was registered", lambda e: bool(e.checkpoint), _to(work.Progressed, "CHECKPOINT_SAVED")),
    _to(work.Progressed, "EVALUATION_PROGRESS", kind="match", purpose="promotion", first=False),
    _to(work.Finished, "WORK_COMPLETED"),
    _to(work.Failed, "WORK_FAILED", cause=_FAILURES),
    _to(work.Failed, "WORK_RETRY", again=True, cause=_FAILURES),
    _to(work.Failed, "WORK_TIMEOUT", cause=("timeout", "silent")),
    _to(work.Failed, "JOB_PREEMPTED", cause="stopped"),
    _to(work.Failed, "JOB_SPAWN_FAILED", cause="spawn"),
    _to(work.Failed, "GAME_SAVE_FAILED", kind="play", cause="no_room"),
    _to(work.Failed, "DATA_SYNC_FAILED=SYNC_FAILED", kind="sync", purpose="games", cause=_FAILURES),
    _to(work.Failed, "SYNC_STALLED", kind="sync", cause=("silent", "timeout")),
    _to(work.Failed, "REPAIR_FAILED", kind="sync", purpose="repair", cause=_FAILURES),
    _to(work.Failed, "NPZ_COMBINATION_FAILED", kind="export", cause=_FAILURES),
    _to(work.Failed, "TRAINING_FAILED", kind="train", cause=_FAILURES),
    _to(work.Failed, "TRAINING_TIMEOUT_REACHED", kind="train", cause="timeout"),
    _to(work.Failed, "TRAINING_PROCESS_KILLED", kind="train", cause=("silent", "timeout")),
    _to(work.Failed, "EVALUATION_FAILED", kind="match", purpose="promotion", cause=_FAILURES),
    _to(work.Failed, "ELO_RECORDING_FAILED", kind="rate", cause=_FAILURES),
    _to(work.Failed, "MODEL_DISTRIBUTION_FAILED", kind="distribute", cause=_FAILURES),
    _to(work.Buried, "TASK_ABANDONED"),
    _to(work.Buried, "SYNC_FAILURE_CRITICAL", kind="sync"),
    _to(work.Buried, "REPLICATION_ALERT", kind="sync", purpose="repair"),
    _if("the model is at fault", lambda e: e.blob is not None, _to(work.Buried, "MODEL_CORRUPTED", kind="verify")),
    # Tasks are what programs register; the jobs of the desk are WORK.
    _to(work.TaskChanged, "TASK_SPAWNED", _TASK, state="running"),
    _to(work.TaskChanged, "TASK_COMPLETED", _TASK, state="completed"),
    _to(work.TaskChanged, "TASK_FAILED", _TASK, state=("failed", "timed_out")),
    _to(work.TaskChanged, "TASK_CANCELLED", _TASK, state="cancelled"),
    _to(work.TaskChanged, "TASK_ORPHANED", _TASK, state="orphaned"),
    _to(work.PressureChanged, "WORK_QUEUE_BACKPRESSURE BACKPRESSURE_ACTIVATED", backpressure="activated"),
    _to(work.PressureChanged, "WORK_QUEUE_BACKPRESSURE_RELEASED BACKPRESSURE_RELEASED", backpressure="released"),
    _to(work.PressureChanged, "EVALUATION_BACKPRESSURE", queue="evaluation", backpressure="activated"),
    _to(work.PressureChanged, "EVALUATION_BACKPRESSURE_RELEASED", queue="evaluation", backpressure="released"),
    _to(work.RunStateChanged, "CLUSTER_STATUS_CHANGED", scope="cluster"),
    _to(work.RunStateChanged, "COORDINATOR_EMERGENCY_SHUTDOWN", scope="cluster", state="emergency"),
    # -- nodes, daemons, deliveries ------------------------------------------------------------------------------------
    _to(node.Joined, "HOST_ONLINE NODE_ACTIVATED"),
    _to(node.Left, "NODE_RETIRED"),
    _to(node.Left, "COORDINATOR_SHUTDOWN", profile=_COORDINATORS),
    _if("it held roles", lambda e: bool(e.roles), _to(node.Left, "LEADER_STEPDOWN", {"leader_id": "node"})),
    _to(node.Lost, "HOST_OFFLINE P2P_NODE_DEAD"),
    _to(node.Suspected, "NODE_SUSPECT"),
    _if("room is made", lambda e: e.level != "none", _to(node.DiskPressureChanged, "DISK_CLEANUP_TRIGGERED")),
    _to(node.Recovered, "NODE_RECOVERED"),
    _any("CLUSTER_CAPACITY_CHANGED", node.Joined, node.Left, node.Lost, node.Recovered),
    _to(cluster.RoleTaken, "LEADER_ELECTED EPOCH_ADVANCED", _LEADER),
    _to(cluster.RoleTaken, "LEADER_LOST LEADER_LEASE_EXPIRED LEADER_HEARTBEAT_MISSING", {"leader_id": "before"},
        reason="expired"),
    _if("another node held it", lambda e: e.before != e.node,
        _to(cluster.RoleTaken, "COORDINATOR_FAILOVER", _LEADER, reason="expired")),
    _to(daemon.Started, "DAEMON_STARTED"),
    _to(daemon.Stopped, "DAEMON_STOPPED"),
    _any("DAEMON_STATUS_CHANGED", daemon.Started, daemon.Stopped, daemon.Failed),
    _to(daemon.Stopped, "DAEMON_FAILURE_CLASSIFIED", cause=("error", "hang")),
    _to(daemon.Stopped, "P2P_LOOP_STARTUP_FAILED", cause=("error", "hang"), ready=False),
    _to(daemon.Stopped, "P2P_LOOP_TIMEOUT", cause="hang"),
    _to(daemon.Stopped, "RESOURCE_CONSTRAINT=RESOURCE_CONSTRAINT_DETECTED DISK_SPACE_LOW", cause="no_room"),
    _to(daemon.Stalled, "EVENT_LOOP_BLOCKED"),
    _to(daemon.Failed, "DAEMON_FAILED=DAEMON_PERMANENTLY_FAILED DAEMON_FAILURE_ESCALATED"),
    _to(daemon.Failed, "DAEMON_CRASH_LOOP_DETECTED", cause="budget"),
    _to(health.Changed, "HEALTH_CHECK_PASSED", status="healthy"),
    _to(health.Changed, "HEALTH_CHECK_FAILED NODE_UNHEALTHY", status="unhealthy"),
    _to(health.Changed, "COORDINATOR_HEALTHY", status="healthy", profile=_COORDINATORS),
    _to(health.Changed, "COORDINATOR_HEALTH_DEGRADED", status="degraded", profile=_COORDINATORS),
    _to(health.Changed, "COORDINATOR_UNHEALTHY", status="unhealthy", profile=_COORDINATORS),
    _to(health.RecoveryStarted, "RECOVERY_INITIATED"),
    _if("not the first step against this trouble", lambda e: e.number > 1,
        _to(health.RecoveryStarted, "RESILIENCE_ESCALATION")),
    _to(health.RecoveryFinished, "RECOVERY_COMPLETED", helped=True),
    _if("of a daemon", lambda e: e.subject.startswith("daemon:"),
        _to(health.RecoveryFinished, "DAEMON_FAILURE_RECOVERED", helped=True)),
    _to(health.RecoveryFinished, "RECOVERY_FAILED", helped=False),
    _to(health.BreakerChanged, "CIRCUIT_BREAKER_OPENED", state="open"),
    _to(health.BreakerChanged, "CIRCUIT_BREAKER_HALF_OPEN", state="half_open"),
    _to(health.BreakerChanged, "CIRCUIT_BREAKER_CLOSED", state="closed"),
    _if("a transport to a node", lambda e: e.subject.startswith("link:"),
        _to(health.BreakerChanged, "SYNC_NODE_UNREACHABLE", state="open")),
    _if("a stage whose jobs fail one after the other", lambda e: e.subject.startswith("stage:"),
        _to(health.BreakerChanged, "FAST_FAILURE_ALERT", state="open")),
    _if("a stage is tried again with one job", lambda e: e.subject.startswith("stage:"),
        _to(health.BreakerChanged, "FAST_FAILURE_RECOVERY", state="half_open")),
    _if("a stage whose jobs succeed again", lambda e: e.subject.startswith("stage:"),
        _to(health.BreakerChanged, "FAST_FAILURE_RECOVERED", state="closed")),
    _to(delivery.Changed, "HANDLER_FAILED", _DEAD_LETTER, state=("parked", "dead")),
    _to(delivery.Changed, "HANDLER_TIMEOUT", _DEAD_LETTER, timed_out=True),
    _to(delivery.Changed, "DLQ_STALE_EVENTS", _DEAD_LETTER, state="dead"),
    _to(delivery.Changed, "DLQ_EVENTS_REPLAYED", _DEAD_LETTER, state="done"),
    _to(delivery.Changed, "DLQ_EVENTS_PURGED", _DEAD_LETTER, state="discarded"),
    _to(alert.Raised, "ERROR", level=_SEVERE),
    _to(alert.Raised, "HEALTH_ALERT", kind="health"),
    # The documents' own stand-ins for a reader's events.
    _to(custom.Published, "CUSTOM_EVENT", event="CUSTOM_EVENT"),
    _to(custom.Published, "YOUR_EVENT", event="YOUR_EVENT"),
)  # fmt: skip
