"""Old names whose subject does not exist here, each group with its reason."""

_REASONS: dict[str, str] = {
    "one row in the store decides which node leads: there are no votes, no quorum and no two leaders": """
        VOTER_HEALING_REQUESTED VOTER_OFFLINE VOTER_ONLINE VOTER_DEMOTED VOTER_PROMOTED VOTER_FLAPPING QUORUM_LOST
        QUORUM_RESTORED QUORUM_AT_RISK QUORUM_RECOVERY_STARTED QUORUM_VALIDATION_FAILED QUORUM_PRIORITY_RECONNECT
        SPLIT_BRAIN_DETECTED SPLIT_BRAIN_RESOLVED""",
    "a role that is not renewed is free, and the node that takes it publishes cluster.role_taken": """
        LEADER_LOST LEADER_STEPDOWN LEADER_HEARTBEAT_MISSING LEADER_LEASE_EXPIRED BACKUP_CANDIDATES_PROBED""",
    "nodes meet in the store, not by gossip: there is no second view of the cluster that could part or heal": """
        PARTITION_HEALING_STARTED PARTITION_HEALED PARTITION_HEALING_FAILED HEALING_CONVERGENCE_FAILED
        GOSSIP_STATE_CLEANUP_COMPLETED PEER_DISCOVERY_EMERGENCY IDLE_STATE_BROADCAST IDLE_STATE_REQUEST""",
    "no peer-to-peer process stands beside a node that would have to be restarted by itself": """
        P2P_RESTART_TRIGGERED P2P_RESTARTED P2P_RECOVERY_NEEDED P2P_ZOMBIE_DETECTED P2P_CONNECTION_RESET_REQUESTED
        CLUSTER_P2P_RECOVERY_COMPLETED REMOTE_P2P_RECOVERY_SUCCESS REMOTE_P2P_RECOVERY_FAILED""",
    "a beat is a row of the roster and no event; when it stops, node.lost is published": """
        COORDINATOR_HEARTBEAT""",
    "no node is probed over SSH: each writes its own heartbeats": """
        SSH_LIVENESS_CHECK_STARTED SSH_LIVENESS_CHECK_SUCCEEDED SSH_LIVENESS_CHECK_FAILED""",
    "the network below is not ours to repair": "TAILSCALE_CLI_ERROR TAILSCALE_CLI_RECOVERED",
    "there is one store, and no second copy of its state that would need to follow a change": """
        REGISTRY_UPDATED METRICS_UPDATED CACHE_INVALIDATED CLUSTER_MODEL_INVENTORY_UPDATED STATE_PERSISTED
        CONFIG_UPDATED CONFIG_DIVERGENCE_DETECTED SCHEDULER_REGISTERED""",
    "one connection writes to the store: there is no pool that could run out": """
        SQLITE_BACKPRESSURE SQLITE_CONNECTION_WARNING""",
    "a job has a lease with a fence: there are no locks to wait for": "LOCK_TIMEOUT DEADLOCK_DETECTED",
    "every node claims from one queue: there is no second one for when the first is away": """
        AUTONOMOUS_QUEUE_ACTIVATED AUTONOMOUS_QUEUE_DEACTIVATED""",
    "machines are not rented here": "BUDGET_EXCEEDED BUDGET_ALERT",
    "no outer drive is searched for models: each comes out of training here and is evaluated at once": """
        OWC_MODELS_DISCOVERED OWC_MODEL_DISCOVERED BACKLOG_DISCOVERY_COMPLETED""",
    "there is no curriculum: every variant of the settings has a line of its own": """
        CURRICULUM_REBALANCED CURRICULUM_ADVANCED CURRICULUM_ADVANCEMENT_NEEDED CURRICULUM_PROPAGATE CURRICULUM_ROLLBACK
        CURRICULUM_ROLLBACK_COMPLETED CURRICULUM_RESET_REQUESTED WEIGHT_UPDATED OPPONENT_MASTERED""",
    "weights are not carried over from one variant to another": "CASCADE_TRANSFER_TRIGGERED CASCADE_TRANSFER_FAILED",
    "the loop does not search for parameters or architectures: settings define how it trains": """
        CMAES_TRIGGERED CMAES_COMPLETED NAS_TRIGGERED NAS_STARTED NAS_GENERATION_COMPLETE NAS_COMPLETED
        NAS_BEST_ARCHITECTURE PBT_STARTED PBT_GENERATION_COMPLETE PBT_COMPLETED HYPERPARAMETER_UPDATED
        ADAPTIVE_PARAMS_CHANGED ARCHITECTURE_WEIGHTS_UPDATED EXPLORATION_BOOST EXPLORATION_ADJUSTED""",
    "how samples are drawn is the workload's own business": "PER_BUFFER_REBUILT PER_PRIORITIES_UPDATED",
    "games are not searched again: an export reads them as they were played": """
        REANALYSIS_STARTED REANALYSIS_COMPLETED REANALYSIS_FAILED""",
    "a workload has one set of rules: there is no second one to compare it with, and an export replays every game": """
        PARITY_VALIDATION_STARTED PARITY_VALIDATION_COMPLETED PARITY_FAILURE_RATE_CHANGED""",
    "games are not scored: what does not replay is refused at the export": """
        QUALITY_CHECK_REQUESTED QUALITY_SCORE_UPDATED QUALITY_DISTRIBUTION_CHANGED QUALITY_FEEDBACK_ADJUSTED""",
}


def retired() -> dict[str, str]:
    """Every retired name with its reason."""
    return {name: reason for reason, names in _REASONS.items() for name in names.split()}
