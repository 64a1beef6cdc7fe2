"""The documented orchestrator roles: leases of the store that one process at a time holds, renewed while it lives."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any

from ringrift.kernel.errors import NotLeader, RingriftError
from ringrift.work.exclusive import Holding
from ringrift_compat.admitting import Admitting, admitting
from ringrift_compat.ambient import ambient


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


class OrchestratorState(StrEnum):
    """What a holder is doing."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    DEAD = "dead"


@dataclass
class OrchestratorInfo:
    """Who holds a role."""

    role: OrchestratorRole
    pid: int
    hostname: str
    started_at: float
    state: OrchestratorState = OrchestratorState.RUNNING
    metadata: dict[str, Any] = field(default_factory=dict)


async def _take(roles: Admitting, role: str, force: bool, metadata: Mapping[str, Any] | None) -> bool:
    roles.keep()
    return await roles.roles.take(role, force=force, metadata=metadata)


def _shown(told: Holding) -> OrchestratorInfo:
    return OrchestratorInfo(
        role=OrchestratorRole(told.role), pid=told.process.pid, hostname=told.node, started_at=told.since,
        metadata=told.metadata,
    )  # fmt: skip


def acquire_orchestrator_role(
    role: str, force: bool = False, metadata: Mapping[str, Any] | None = None, **more: Any
) -> bool:
    """Hold *role* until it is released or this process ends; False if another process holds it, or nobody can tell.

    With *force* it is taken from whoever holds it.  A process may hold several, and one that it has already is its own.
    """
    wanted = OrchestratorRole(role)
    try:
        return ambient.call(_take(admitting(), wanted.value, force, {**(metadata or {}), **more}))
    except (RingriftError, OSError):
        return False


def release_orchestrator_role(role: str | None = None) -> bool:
    """Give *role* back, or without one all that this process holds; whether it held any of them."""
    roles = admitting().roles
    wanted = roles.held() if role is None else [OrchestratorRole(role).value]
    return any([ambient.call(roles.give(one)) for one in wanted])


@contextmanager
def orchestrator_role(
    role: str, force: bool = False, metadata: Mapping[str, Any] | None = None
) -> Iterator[OrchestratorRole]:
    """Hold *role* while the body runs.  Raises NotLeader if another process holds it.

    Where this process held it before, it holds it afterwards too.
    """
    wanted = OrchestratorRole(role)
    roles = admitting()
    before = roles.roles.holds(wanted.value)
    if not ambient.call(_take(roles, wanted.value, force, metadata)):
        told = ambient.call(roles.roles.holder(wanted.value))
        raise NotLeader(wanted.value, "nobody any more" if told is None else f"process {told.process.pid}")
    try:
        yield wanted
    finally:
        if not before:
            ambient.call(roles.roles.give(wanted.value))


def get_role_holder(role: str) -> OrchestratorInfo | None:
    """Who holds *role*, in whatever process; None if it is free."""
    told = ambient.call(admitting().roles.holder(OrchestratorRole(role).value))
    return None if told is None else _shown(told)


def is_orchestrator_role_available(role: str) -> bool:
    """Whether *role* could be taken now; False when nobody can tell."""
    wanted = OrchestratorRole(role)
    try:
        return ambient.call(admitting().roles.holder(wanted.value)) is None
    except (RingriftError, OSError):
        return False


def has_orchestrator_role(role: str) -> bool:
    """Whether this process may act in *role* now."""
    return admitting().roles.holds(OrchestratorRole(role).value)


class OrchestratorRegistry:
    """The roles of this home, as one thing to call."""

    @classmethod
    def get_instance(cls) -> "OrchestratorRegistry":
        """The registry."""
        return get_registry()

    def acquire_role(self, role: str, force: bool = False, metadata: Mapping[str, Any] | None = None) -> bool:
        """As :func:`acquire_orchestrator_role`."""
        return acquire_orchestrator_role(role, force, metadata)

    def release_role(self, role: str | None = None) -> bool:
        """As :func:`release_orchestrator_role`."""
        return release_orchestrator_role(role)

    def get_role_holder(self, role: str) -> OrchestratorInfo | None:
        """As :func:`get_role_holder`."""
        return get_role_holder(role)

    def is_role_held(self, role: str) -> bool:
        """Whether any process holds *role*; True when nobody can tell."""
        return not is_orchestrator_role_available(role)

    def get_active_orchestrators(self) -> list[OrchestratorInfo]:
        """Everybody who holds a role."""
        found = [get_role_holder(role) for role in OrchestratorRole]
        return [one for one in found if one is not None]

    def heartbeat(self) -> bool:
        """Renew what this process holds, which happens by itself too; whether it holds anything still."""
        roles = admitting().roles
        ambient.call(roles.renew())
        return bool(roles.held())


@cache
def get_registry() -> OrchestratorRegistry:
    """The roles of this program's home."""
    return OrchestratorRegistry()
