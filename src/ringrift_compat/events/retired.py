"""Old names whose subject never comes here, each group with its reason."""

_REASONS: dict[str, str] = {
    "one row in the store decides which node leads: there are no votes, no quorum and no two leaders": """
        VOTER_HEALING_REQUESTED VOTER_OFFLINE VOTER_ONLINE VOTER_DEMOTED VOTER_PROMOTED VOTER_FLAPPING QUORUM_LOST
        QUORUM_RESTORED QUORUM_AT_RISK QUORUM_RECOVERY_STARTED QUORUM_VALIDATION_FAILED QUORUM_PRIORITY_RECONNECT
        SPLIT_BRAIN_DETECTED SPLIT_BRAIN_RESOLVED BACKUP_CANDIDATES_PROBED""",
    "a role is released and taken from the store, never handed from node to node": "COORDINATOR_HANDOFF",
    "the store decides, and gossip only shortens suspicion: there is no second view that could part or heal": """
        PARTITION_HEALING_STARTED PARTITION_HEALED PARTITION_HEALING_FAILED HEALING_CONVERGENCE_FAILED
        GOSSIP_STATE_CLEANUP_COMPLETED PEER_DISCOVERY_EMERGENCY IDLE_STATE_BROADCAST IDLE_STATE_REQUEST""",
    "no peer-to-peer process stands beside a node that would have to be restarted by itself": """
        P2P_RESTART_TRIGGERED P2P_RESTARTED P2P_RECOVERY_NEEDED P2P_ZOMBIE_DETECTED P2P_CONNECTION_RESET_REQUESTED
        CLUSTER_P2P_RECOVERY_COMPLETED REMOTE_P2P_RECOVERY_SUCCESS REMOTE_P2P_RECOVERY_FAILED""",
    "a heartbeat is a row of the roster and no event; when it stops, node.lost is published": "COORDINATOR_HEARTBEAT",
    "watch reports each lost node by itself: node.lost, P2P_NODE_DEAD": "P2P_NODES_DEAD",
    "a file is listed in the transaction that ends its job, so there is nothing to prevent": "ORPHAN_GAME_PREVENTED",
    "a match begins when its files are there, and a node that lacks one fetches it first": "MODEL_EVALUATION_BLOCKED",
    "packing is one step of a daemon; when it has ended, data.packed is published": "CONSOLIDATION_STARTED",
    "no node is probed over SSH: each writes its own heartbeats": """
        SSH_LIVENESS_CHECK_STARTED SSH_LIVENESS_CHECK_SUCCEEDED SSH_LIVENESS_CHECK_FAILED SSH_NODE_UNRESPONSIVE
        SSH_NODE_RECOVERED""",
    "the network below is not ours to repair": "TAILSCALE_CLI_ERROR TAILSCALE_CLI_RECOVERED",
    "no daemon here keeps sockets of its own that could leak": "SOCKET_LEAK_DETECTED SOCKET_LEAK_RECOVERED",
    "there is one store, written in transactions: no state is saved from memory now and then": "STATE_PERSISTED",
    "one connection writes to the store: there is no pool that could run out": """
        SQLITE_BACKPRESSURE SQLITE_CONNECTION_WARNING""",
    "every wait for a lock ends after its time, and a lock ends with its holder": "DEADLOCK_DETECTED",
    "a node that is cut off cannot tell that it plays on alone; what it played comes in as QUEUED_EVENTS_SYNCED": """
        AUTONOMOUS_QUEUE_ACTIVATED AUTONOMOUS_QUEUE_DEACTIVATED""",
    "weights are not carried over from one variant to another": "CASCADE_TRANSFER_TRIGGERED CASCADE_TRANSFER_FAILED",
    "how samples are drawn is the workload's own business": "PER_BUFFER_REBUILT PER_PRIORITIES_UPDATED",
    "games are not searched again: an export reads them as they were played": """
        REANALYSIS_STARTED REANALYSIS_COMPLETED REANALYSIS_FAILED""",
}


def retired() -> dict[str, str]:
    """Every retired name with its reason."""
    return {name: reason for reason, names in _REASONS.items() for name in names.split()}
