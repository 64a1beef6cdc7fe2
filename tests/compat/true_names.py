"""Which old names each cause has, in full: a name that is not listed beside a cause must not be heard while it happens.

Words in small letters are groups of names that always come together.
"""

import inspect
import re

from compat import (
    causes_of_deliveries,
    causes_of_files,
    causes_of_health,
    causes_of_jobs,
    causes_of_nodes,
    causes_of_tasks,
    causes_of_the_cluster,
    causes_of_the_loop,
)
from compat.scene import Cause

_GROUPS = {
    "queued": "WORK_QUEUED WORK_SUBMITTED",
    "claimed": "WORK_STARTED WORK_CLAIMED",
    "alive": "JOB_SPAWN_VERIFIED TASK_HEARTBEAT",
    "led": "LEADER_ELECTED EPOCH_ADVANCED",
    "daemon": "DAEMON_STARTED DAEMON_STOPPED DAEMON_STATUS_CHANGED",
    "played": "SELFPLAY_COMPLETE NEW_GAMES_AVAILABLE DATABASE_CREATED",
    "synced": "DATA_SYNC_COMPLETED GAME_SYNCED",
    "model_synced": "P2P_MODEL_SYNCED MODEL_SYNC_COMPLETE CLUSTER_MODEL_INVENTORY_UPDATED",
    "rolled_back": "PROMOTION_ROLLED_BACK TRAINING_ROLLBACK_COMPLETED MODEL_UPDATED",
    "train": "TRAINING_STARTED TRAINING_LOCK_ACQUIRED TRAINING_HEARTBEAT",
    "match_queued": "EVALUATION_QUEUED EVALUATION_SUBMITTED",
    "overdue": "PIPELINE_STAGE_OVERDUE PROGRESS_STALL_DETECTED",
}
_TABLE = """
a_line_is_opened: queued model_synced BATCH_SCHEDULED MODEL_DISTRIBUTION_COMPLETE MODEL_PROMOTED MODEL_SYNC_REQUESTED
    MODEL_UPDATED PROMOTION_CANDIDATE TRAINING_COMPLETED
a_batch_is_played_and_copied: queued played synced BATCH_SCHEDULED
enough_games_are_there: queued synced TRAINING_THRESHOLD_REACHED
an_export_is_requested_early: queued EXPORT_TRIGGERED
samples_are_exported: queued NPZ_COMBINATION_COMPLETE NPZ_EXPORT_COMPLETE
batches_are_refused: queued ERROR EXPORT_VALIDATION_FAILED NPZ_COMBINATION_COMPLETE NPZ_EXPORT_COMPLETE
a_model_is_trained: queued MODEL_SYNC_REQUESTED TRAINING_COMPLETED
a_candidate_is_verified: PROMOTION_CANDIDATE
a_test_begins: queued model_synced match_queued EVALUATION_STARTED PROMOTION_STARTED
a_candidate_wins: queued WORK_CANCELLED match_queued ELO_SIGNIFICANT_CHANGE EVALUATION_COMPLETED HEAD_TO_HEAD_COMPLETED
    ITERATION_COMPLETE MODEL_PROMOTED MODEL_UPDATED
a_champion_is_distributed: CLUSTER_MODEL_INVENTORY_UPDATED MODEL_DISTRIBUTION_COMPLETE
a_candidate_loses: queued WORK_CANCELLED match_queued EVALUATION_COMPLETED HEAD_TO_HEAD_COMPLETED PROMOTION_FAILED
    PROMOTION_REJECTED
candidates_lose_in_a_row: queued WORK_CANCELLED match_queued EVALUATION_COMPLETED HEAD_TO_HEAD_COMPLETED
    PLATEAU_DETECTED PROMOTION_FAILED PROMOTION_REJECTED
a_model_is_found_damaged: MODEL_CORRUPTED PROMOTION_FAILED TASK_ABANDONED
a_check_cannot_be_done: PROMOTION_FAILED TASK_ABANDONED
a_champion_is_lost: queued rolled_back BATCH_SCHEDULED ERROR MODEL_NOT_FOUND TASK_ABANDONED
games_are_lost: ERROR SYNC_FAILURE_CRITICAL TASK_ABANDONED
a_champion_fails_its_review: queued WORK_CANCELLED rolled_back ERROR HEAD_TO_HEAD_COMPLETED REGRESSION_CRITICAL
    REGRESSION_DETECTED TRAINING_ROLLBACK_NEEDED
a_champion_lost_a_little: queued rolled_back HEAD_TO_HEAD_COMPLETED REGRESSION_DETECTED REGRESSION_MINOR
    TRAINING_ROLLBACK_NEEDED
a_champion_lost_more: queued rolled_back HEAD_TO_HEAD_COMPLETED REGRESSION_DETECTED REGRESSION_MODERATE
    TRAINING_ROLLBACK_NEEDED
a_champion_lost_much: queued rolled_back ERROR HEAD_TO_HEAD_COMPLETED REGRESSION_DETECTED REGRESSION_SEVERE
    TRAINING_ROLLBACK_NEEDED
a_champion_passes_its_review: WORK_CANCELLED HEAD_TO_HEAD_COMPLETED
a_regression_is_over: WORK_CANCELLED HEAD_TO_HEAD_COMPLETED REGRESSION_CLEARED
an_operator_rolls_back: queued WORK_CANCELLED rolled_back PROMOTION_FAILED
a_model_is_imported: queued MODEL_IMPORTED
players_are_rated: queued ELO_UPDATED
a_line_grows_faster: queued ELO_UPDATED ELO_VELOCITY_CHANGED
a_training_takes_too_long: led overdue
a_test_takes_too_long: led overdue EVALUATION_STUCK
games_are_missing: led overdue DATA_STARVATION_CRITICAL
a_late_training_ends: queued MODEL_SYNC_REQUESTED PROGRESS_RECOVERED TRAINING_COMPLETED
a_late_test_ends: queued WORK_CANCELLED match_queued ELO_SIGNIFICANT_CHANGE EVALUATION_COMPLETED EVALUATION_RECOVERED
    HEAD_TO_HEAD_COMPLETED ITERATION_COMPLETE MODEL_PROMOTED MODEL_UPDATED PROGRESS_RECOVERED
a_copy_is_requested: SYNC_TRIGGERED
a_training_is_requested: TRAINING_TRIGGERED
a_test_is_requested: EVALUATION_REQUESTED
a_promotion_is_requested: PROMOTION_REQUESTED
a_batch_is_played: queued claimed alive WORK_COMPLETED played BATCH_DISPATCHED BATCH_SCHEDULED
an_export_is_done: queued claimed alive WORK_COMPLETED NPZ_COMBINATION_STARTED NPZ_EXPORT_COMPLETE NPZ_EXPORT_STARTED
an_export_fails: queued claimed alive WORK_FAILED NPZ_COMBINATION_FAILED NPZ_COMBINATION_STARTED NPZ_EXPORT_STARTED
    WORK_RETRY
a_model_is_copied: queued claimed WORK_COMPLETED model_synced MODEL_SYNC_REQUESTED
games_are_copied: queued claimed WORK_COMPLETED synced DATA_SYNC_STARTED
a_model_is_brought_to_all: queued claimed WORK_COMPLETED CLUSTER_MODEL_INVENTORY_UPDATED MODEL_DISTRIBUTION_COMPLETE
    MODEL_DISTRIBUTION_STARTED
a_training_reports_its_loss: queued claimed alive WORK_COMPLETED train TRAINING_COMPLETED TRAINING_LOSS_TREND
    TRAINING_PROGRESS
a_training_reports_no_loss: queued claimed alive WORK_COMPLETED train TRAINING_COMPLETED TRAINING_PROGRESS
blocks_of_a_test_are_played: queued claimed alive WORK_COMPLETED match_queued EVALUATION_PROGRESS
blocks_of_a_review_are_played: queued claimed alive WORK_COMPLETED
a_checkpoint_is_registered: queued claimed alive BATCH_DISPATCHED BATCH_SCHEDULED CHECKPOINT_SAVED JOB_PREEMPTED
a_job_is_resumed: claimed alive WORK_COMPLETED played BATCH_DISPATCHED CHECKPOINT_LOADED
a_job_fails: queued claimed alive WORK_FAILED BATCH_DISPATCHED BATCH_SCHEDULED WORK_RETRY
a_job_fails_for_good: queued claimed alive WORK_FAILED BATCH_DISPATCHED BATCH_SCHEDULED TASK_ABANDONED
a_job_passes_its_deadline: queued claimed alive WORK_FAILED BATCH_DISPATCHED BATCH_SCHEDULED WORK_RETRY WORK_TIMEOUT
no_worker_starts: queued claimed WORK_FAILED BATCH_DISPATCHED BATCH_SCHEDULED CIRCUIT_BREAKER_OPENED JOB_SPAWN_FAILED
    WORK_RETRY
a_worker_dies: queued claimed alive WORK_FAILED BATCH_DISPATCHED BATCH_SCHEDULED WORK_RETRY
games_find_no_room: queued claimed alive WORK_FAILED BATCH_DISPATCHED BATCH_SCHEDULED CIRCUIT_BREAKER_OPENED
    GAME_SAVE_FAILED WORK_RETRY
a_node_stops_under_a_job: queued claimed alive BATCH_DISPATCHED BATCH_SCHEDULED JOB_PREEMPTED
a_training_fails: queued claimed alive WORK_FAILED train TRAINING_FAILED WORK_RETRY
a_training_passes_its_deadline: queued claimed alive WORK_FAILED train TRAINING_FAILED TRAINING_PROCESS_KILLED
    TRAINING_TIMEOUT_REACHED WORK_RETRY WORK_TIMEOUT
a_training_falls_silent: queued claimed alive WORK_FAILED train TRAINING_FAILED TRAINING_PROCESS_KILLED WORK_RETRY
    WORK_TIMEOUT
a_match_fails: queued claimed alive WORK_FAILED match_queued EVALUATION_FAILED WORK_RETRY
a_review_match_fails: queued claimed alive WORK_FAILED WORK_RETRY
a_rating_fails: queued claimed alive WORK_FAILED ELO_RECORDING_FAILED WORK_RETRY
games_cannot_be_copied: queued claimed WORK_FAILED DATA_SYNC_FAILED DATA_SYNC_STARTED WORK_RETRY
a_model_cannot_be_copied: queued claimed WORK_FAILED MODEL_SYNC_REQUESTED WORK_RETRY
a_copy_stands_still: queued claimed WORK_FAILED DATA_SYNC_FAILED DATA_SYNC_STARTED SYNC_STALLED WORK_RETRY WORK_TIMEOUT
a_copy_is_given_up: queued claimed WORK_FAILED DATA_SYNC_FAILED DATA_SYNC_STARTED SYNC_FAILURE_CRITICAL TASK_ABANDONED
a_repair_is_given_up: queued claimed WORK_FAILED REPAIR_FAILED REPLICATION_ALERT SYNC_FAILURE_CRITICAL TASK_ABANDONED
a_distribution_fails: queued claimed WORK_FAILED MODEL_DISTRIBUTION_FAILED MODEL_DISTRIBUTION_STARTED WORK_RETRY
jobs_are_cancelled: WORK_CANCELLED
a_live_job_is_enqueued_again:
a_lease_expires:
a_node_joins: CLUSTER_CAPACITY_CHANGED HOST_ONLINE NODE_ACTIVATED
a_player_leaves: CLUSTER_CAPACITY_CHANGED NODE_RETIRED
a_coordinator_leaves: CLUSTER_CAPACITY_CHANGED COORDINATOR_SHUTDOWN LEADER_STEPDOWN NODE_RETIRED
a_node_misses_heartbeats: led NODE_SUSPECT
a_node_is_lost: led CLUSTER_CAPACITY_CHANGED HOST_OFFLINE P2P_NODE_DEAD
a_node_returns: led CLUSTER_CAPACITY_CHANGED NODE_RECOVERED
roles_are_taken_first: led
a_leader_is_replaced: led COORDINATOR_FAILOVER LEADER_HEARTBEAT_MISSING LEADER_LEASE_EXPIRED LEADER_LOST
a_leader_comes_back_late: led LEADER_HEARTBEAT_MISSING LEADER_LEASE_EXPIRED LEADER_LOST
the_cluster_is_paused: CLUSTER_STATUS_CHANGED
the_cluster_is_stopped_at_once: CLUSTER_STATUS_CHANGED COORDINATOR_EMERGENCY_SHUTDOWN
a_variant_is_stopped_at_once:
matches_pile_up: queued led match_queued BACKPRESSURE_ACTIVATED EVALUATION_BACKPRESSURE WORK_QUEUE_BACKPRESSURE
matches_are_drained: led BACKPRESSURE_RELEASED EVALUATION_BACKPRESSURE_RELEASED WORK_QUEUE_BACKPRESSURE_RELEASED
copies_pile_up: queued led BACKPRESSURE_ACTIVATED WORK_QUEUE_BACKPRESSURE
copies_are_drained: led BACKPRESSURE_RELEASED WORK_QUEUE_BACKPRESSURE_RELEASED
a_few_matches_wait: queued led match_queued
a_champion_reaches_all: queued CLUSTER_MODEL_INVENTORY_UPDATED MODEL_DISTRIBUTION_COMPLETE
a_champion_misses_a_node: queued CLUSTER_MODEL_INVENTORY_UPDATED DISTRIBUTION_INCOMPLETE
the_only_node_keeps_games: queued synced
games_are_copied_to_another_node: queued synced CLUSTER_SYNC_COMPLETE
a_thin_blob_is_repaired: queued synced CLUSTER_SYNC_COMPLETE REPAIR_COMPLETED
a_damaged_copy_is_sent: SYNC_CHECKSUM_FAILED TRANSPORT_CORRUPTION_DETECTED
a_damaged_copy_is_scrubbed:
orphans_are_adopted: ORPHAN_GAMES_DETECTED ORPHAN_GAMES_REGISTERED
every_file_is_listed:
small_games_are_packed: CONSOLIDATION_COMPLETE
too_few_games_for_a_pack:
a_backup_is_made: DATA_BACKUP_COMPLETED
a_backup_is_made_in_a_bucket: DATA_BACKUP_COMPLETED S3_BACKUP_COMPLETED
a_disk_fills_up: DISK_CLEANUP_TRIGGERED
a_disk_has_room_again:
a_node_cannot_be_reached: CIRCUIT_BREAKER_OPENED SYNC_NODE_UNREACHABLE
an_urgent_sync_ends_well: PRIORITY_SYNC_COMPLETED
an_urgent_sync_fails: PRIORITY_SYNC_FAILED
a_daemon_starts: DAEMON_STARTED DAEMON_STATUS_CHANGED
a_daemon_stops: DAEMON_STATUS_CHANGED DAEMON_STOPPED
a_daemon_fails_once: daemon DAEMON_FAILURE_CLASSIFIED
a_daemon_fails_at_its_start: daemon DAEMON_FAILURE_CLASSIFIED P2P_LOOP_STARTUP_FAILED
a_daemon_is_given_up: daemon DAEMON_CRASH_LOOP_DETECTED DAEMON_FAILED DAEMON_FAILURE_CLASSIFIED
    DAEMON_FAILURE_ESCALATED P2P_LOOP_STARTUP_FAILED
a_daemon_has_a_final_error: daemon DAEMON_FAILED DAEMON_FAILURE_CLASSIFIED DAEMON_FAILURE_ESCALATED
    P2P_LOOP_STARTUP_FAILED
a_daemon_finds_no_room: daemon DISK_SPACE_LOW RESOURCE_CONSTRAINT
a_daemon_hangs: daemon DAEMON_FAILURE_CLASSIFIED P2P_LOOP_TIMEOUT
a_daemon_blocks_the_loop: DAEMON_STARTED DAEMON_STATUS_CHANGED EVENT_LOOP_BLOCKED
a_coordinator_is_unhealthy: COORDINATOR_UNHEALTHY HEALTH_CHECK_FAILED NODE_UNHEALTHY
a_player_is_unhealthy: HEALTH_CHECK_FAILED NODE_UNHEALTHY
a_coordinator_is_degraded: COORDINATOR_HEALTH_DEGRADED
a_coordinator_is_well_again: COORDINATOR_HEALTHY HEALTH_CHECK_PASSED
a_player_is_well_again: HEALTH_CHECK_PASSED
an_alert_is_severe: ERROR
an_alert_is_about_health: HEALTH_ALERT
a_node_is_healed: led RECOVERY_COMPLETED
a_first_step_is_taken: led RECOVERY_INITIATED
a_step_does_not_help: led RECOVERY_FAILED RECOVERY_INITIATED RESILIENCE_ESCALATION
a_step_helps: led DAEMON_FAILURE_RECOVERED RECOVERY_COMPLETED
a_stage_keeps_failing: queued CIRCUIT_BREAKER_OPENED FAST_FAILURE_ALERT
a_stage_is_tried_again: led CIRCUIT_BREAKER_HALF_OPEN FAST_FAILURE_RECOVERY
a_stage_works_again: CIRCUIT_BREAKER_CLOSED FAST_FAILURE_RECOVERED
a_node_keeps_failing: queued BATCH_SCHEDULED CIRCUIT_BREAKER_OPENED
a_node_is_tried_again: led CIRCUIT_BREAKER_HALF_OPEN
a_node_works_again: CIRCUIT_BREAKER_CLOSED
a_handler_fails: HANDLER_FAILED
a_handler_takes_too_long: HANDLER_FAILED HANDLER_TIMEOUT
a_delivery_dies: DLQ_STALE_EVENTS HANDLER_FAILED
a_dead_letter_is_discarded: DLQ_EVENTS_PURGED
a_retry_succeeds: DLQ_EVENTS_REPLAYED HANDLER_FAILED
a_user_publishes: CUSTOM_EVENT YOUR_EVENT
a_user_publishes_something_else:
a_task_is_registered: TASK_SPAWNED
a_task_is_completed: TASK_COMPLETED
a_task_fails: TASK_FAILED
a_task_is_cancelled: TASK_CANCELLED
a_task_is_orphaned: TASK_ORPHANED
a_node_brings_what_it_played_alone: played QUEUED_EVENTS_SYNCED
a_program_takes_the_training_lock: TASK_SPAWNED TRAINING_LOCK_ACQUIRED
a_program_waits_for_the_training_lock_in_vain: LOCK_TIMEOUT TRAINING_LOCK_TIMEOUT
"""


def _causes() -> dict[str, Cause]:
    """Every cause by its name."""
    modules = (
        causes_of_the_loop,
        causes_of_jobs,
        causes_of_the_cluster,
        causes_of_tasks,
        causes_of_files,
        causes_of_nodes,
        causes_of_health,
        causes_of_deliveries,
    )
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if inspect.iscoroutinefunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }


def _names(words: str) -> frozenset[str]:
    return frozenset(name for word in words.split() for name in _GROUPS.get(word, word).split())


CAUSES: dict[str, Cause] = _causes()
NAMES: dict[str, frozenset[str]] = {
    cause: _names(words) for cause, words in re.findall(r"^(\w+):((?:.|\n {4})*)$", _TABLE, re.MULTILINE)
}
"""By cause: every old name that it has."""
TRUE = frozenset(name for names in NAMES.values() for name in names)
_NEIGHBOURS = """
a_stage_is_tried_again: CIRCUIT_BREAKER_OPENED CIRCUIT_BREAKER_CLOSED
a_stage_keeps_failing: CIRCUIT_BREAKER_HALF_OPEN
a_coordinator_is_unhealthy: COORDINATOR_HEALTH_DEGRADED HEALTH_CHECK_PASSED
a_coordinator_is_degraded: HEALTH_CHECK_FAILED NODE_UNHEALTHY
a_handler_fails: DLQ_EVENTS_PURGED
a_dead_letter_is_discarded: HANDLER_FAILED
an_alert_is_severe: HEALTH_ALERT
a_damaged_copy_is_scrubbed: SYNC_CHECKSUM_FAILED TRANSPORT_CORRUPTION_DETECTED
a_training_is_requested: SYNC_TRIGGERED EVALUATION_REQUESTED PROMOTION_REQUESTED EXPORT_TRIGGERED
a_copy_is_requested: TRAINING_TRIGGERED
a_user_publishes_something_else: CUSTOM_EVENT YOUR_EVENT
a_variant_is_stopped_at_once: CLUSTER_STATUS_CHANGED
a_live_job_is_enqueued_again: WORK_QUEUED WORK_SUBMITTED
a_champion_misses_a_node: MODEL_DISTRIBUTION_COMPLETE
a_champion_reaches_all: DISTRIBUTION_INCOMPLETE
games_are_lost: MODEL_NOT_FOUND
a_test_begins: ELO_UPDATED
an_export_is_requested_early: TRAINING_THRESHOLD_REACHED
a_batch_is_played_and_copied: P2P_MODEL_SYNCED MODEL_SYNC_COMPLETE
a_model_is_copied: DATA_SYNC_COMPLETED GAME_SYNCED DATA_SYNC_STARTED
a_model_cannot_be_copied: DATA_SYNC_FAILED
a_node_is_lost: NODE_SUSPECT
a_node_misses_heartbeats: HOST_OFFLINE P2P_NODE_DEAD CLUSTER_CAPACITY_CHANGED
a_first_step_is_taken: RECOVERY_COMPLETED
a_step_helps: RECOVERY_INITIATED RECOVERY_FAILED
a_task_is_completed: TASK_SPAWNED TASK_FAILED TASK_CANCELLED TASK_ORPHANED
a_task_fails: TASK_COMPLETED
a_batch_is_played: QUEUED_EVENTS_SYNCED
a_program_takes_the_training_lock: LOCK_TIMEOUT TRAINING_LOCK_TIMEOUT
a_program_waits_for_the_training_lock_in_vain: TRAINING_LOCK_ACQUIRED
a_candidate_is_verified: MODEL_IMPORTED
a_model_is_imported: PROMOTION_CANDIDATE
a_late_training_ends: EVALUATION_RECOVERED
a_model_is_trained: PROGRESS_RECOVERED
a_line_is_opened: ITERATION_COMPLETE
an_operator_rolls_back: REGRESSION_MINOR REGRESSION_MODERATE REGRESSION_SEVERE REGRESSION_CRITICAL MODEL_PROMOTED
a_check_cannot_be_done: PROMOTION_REJECTED
every_file_is_listed: ORPHAN_GAMES_DETECTED ORPHAN_GAMES_REGISTERED
too_few_games_for_a_pack: CONSOLIDATION_COMPLETE
a_backup_is_made: S3_BACKUP_COMPLETED
small_games_are_packed: DATA_BACKUP_COMPLETED
a_disk_has_room_again: DISK_CLEANUP_TRIGGERED
a_node_keeps_failing: SYNC_NODE_UNREACHABLE
an_urgent_sync_fails: PRIORITY_SYNC_COMPLETED
an_urgent_sync_ends_well: PRIORITY_SYNC_FAILED
an_export_is_done: NPZ_COMBINATION_COMPLETE
games_are_copied: CLUSTER_MODEL_INVENTORY_UPDATED SELFPLAY_COMPLETE NEW_GAMES_AVAILABLE DATABASE_CREATED
"""
"""The nearest neighbour of a name where no cause has enough in common with its own."""


_BY_HAND = {
    name: cause for cause, words in re.findall(r"^(\w+): (.*)$", _NEIGHBOURS, re.MULTILINE) for name in words.split()
}


def cause_of(name: str) -> str:
    """The cause of *name* that has the fewest other names."""
    return min((cause for cause, names in NAMES.items() if name in names), key=lambda cause: len(NAMES[cause]))


def neighbour_of(name: str) -> str:
    """The cause without *name* that is most like a cause with it: most names in common, fewest of its own."""
    if name in _BY_HAND:
        return _BY_HAND[name]

    def likeness(neighbour: str) -> tuple[int, int]:
        return max(
            (len(NAMES[neighbour] & names), -len(NAMES[neighbour] - names)) for names in NAMES.values() if name in names
        )

    return max((cause for cause, names in NAMES.items() if name not in names and names), key=likeness)
