"""Orchestrator roles: leases of the store that one process at a time holds, renewed while it lives."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from ringrift.kernel.errors import RingriftError
from ringrift_compat.embedded_node import embedded
from ringrift_compat.tasks.admission import ProgramTasks, program_tasks


class OrchestratorRole(StrEnum):
    """The roles of the documents."""

    CLUSTER_ORCHESTRATOR = "cluster_orchestrator"
    IMPROVEMENT_DAEMON = "improvement_daemon"
    PIPELINE_ORCHESTRATOR = "pipeline_orchestrator"
    P2P_LEADER = "p2p_leader"
    TOURNAMENT_RUNNER = "tournament_runner"
    MODEL_SYNC = "model_sync"
    DATA_SYNC = "data_sync"
    UNIFIED_LOOP = "unified_loop"
    DISTILLATION_LEADER = "distillation_leader"
    PROMOTION_LEADER = "promotion_leader"
    EXTERNAL_SYNC_LEADER = "external_sync_leader"
    VAST_PIPELINE_LEADER = "vast_pipeline_leader"
    CLUSTER_DATA_SYNC_LEADER = "cluster_data_sync_leader"


async def _acquire(tasks: ProgramTasks, role: str, force: bool, metadata: Mapping[str, Any]) -> bool:
    tasks.renew_regularly()
    return await tasks.roles.take(role, force=force, metadata=metadata)


def acquire_orchestrator_role(role: str, force: bool = False, metadata: Mapping[str, Any] | None = None) -> bool:
    """Hold *role* until it is released or this process ends; False if another process has it or the store is away.

    With *force* it is taken from another holder.  A process may hold several roles, and acquire one twice.
    """
    name = OrchestratorRole(role).value
    try:
        return embedded.call(_acquire(program_tasks(), name, force, metadata or {}))
    except (RingriftError, OSError):
        return False


def release_orchestrator_role(role: str | None = None) -> bool:
    """Release *role*, or without one all that this process holds; whether it held any of them."""
    roles = program_tasks().roles
    names = roles.current() if role is None else [OrchestratorRole(role).value]
    return any([embedded.call(roles.release(name)) for name in names])


def has_orchestrator_role(role: str) -> bool:
    """Whether this process holds *role* now."""
    return program_tasks().roles.holds(OrchestratorRole(role).value)
