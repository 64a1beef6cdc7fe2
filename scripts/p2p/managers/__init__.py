"""The managers of the documented orchestrator in a checkout; elsewhere import ringrift_compat.cluster.managers."""

from ringrift_compat.cluster.managers import (
    JobManager,
    NodeSelector,
    SelfplayScheduler,
    StateManager,
    SyncPlanner,
    TrainingCoordinator,
)

__all__ = ["JobManager", "NodeSelector", "SelfplayScheduler", "StateManager", "SyncPlanner", "TrainingCoordinator"]
