"""Adapters of the documents about nodes, leaders, locks and queues of a cluster."""
