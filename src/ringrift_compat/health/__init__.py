"""The documented health: results of checks, nodes, the whole system, queues, thresholds and alerts."""
