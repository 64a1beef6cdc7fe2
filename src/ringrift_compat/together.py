"""The documented facade and registry: all of this program behind one object, and every coordinator by its name."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from ringrift.bus.delivery import attempt_plain
from ringrift.kernel.errors import IdConflict, LimitReached, UnknownName
from ringrift_compat import bootstrap, overall
from ringrift_compat.ambient import Embedded, ambient
from ringrift_compat.coordinators import COORDINATOR_REGISTRY
from ringrift_compat.daemon_manager import get_daemon_manager
from ringrift_compat.daemon_types import DaemonInfo, DaemonType
from ringrift_compat.events import get_router
from ringrift_compat.health import HealthCheckResult, read_result
from ringrift_compat.listening import Callback
from ringrift_compat.models import get_production_model_id
from ringrift_compat.pipelines import get_pipeline_status
from ringrift_compat.router_event import RouterEvent
from ringrift_compat.tasks import TaskInfo, can_spawn, get_coordinator
from ringrift_compat.training import release_training_slot, request_training_slot

KEPT = "own coordinators"
OWN_MAX = 1000


class CoordinationFacade:
    """What most programs need, in one place; each call is that of the part that it names."""

    def initialize(self, auto_trigger_pipeline: bool | None = None) -> dict[str, Any]:
        """Start every coordinator whose duty is built."""
        return bootstrap.initialize_all_coordinators(auto_trigger_pipeline)

    def shutdown(self) -> None:
        """Close the node of this program."""
        bootstrap.shutdown_coordination()

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def can_spawn_task(self, task_type: str, node_id: str) -> tuple[bool, str]:
        """Whether a task could begin now, and why not."""
        return can_spawn(task_type, node_id)

    def spawn_task(self, task_id: str, task_type: str, node_id: str, pid: int = 0, **metadata: Any) -> str:
        """Take a place for a task; its id.  Raises LimitReached."""
        return get_coordinator().register_task(task_id, task_type, node_id, pid, metadata)

    def complete_task(self, task_id: str) -> bool:
        """The task has done what it was to do."""
        return get_coordinator().complete_task(task_id)

    def fail_task(self, task_id: str, error: str = "") -> bool:
        """The task has failed."""
        return get_coordinator().fail_task(task_id, error)

    def get_task(self, task_id: str) -> TaskInfo | None:
        """The task of this id, running or ended."""
        return get_coordinator().get_task(task_id)

    # -- training and models -------------------------------------------------------------------------------------------

    def request_training_slot(self, board_type: str, num_players: int) -> str | None:
        """A slot for a training, if there is one."""
        return request_training_slot(board_type, num_players)

    def release_training_slot(self, job_id: str, status: str = "completed") -> bool:
        """Give a slot back."""
        return release_training_slot(job_id, status)

    def get_production_model_id(self, config_key: str | None = None) -> str | None:
        """The champion of a variant."""
        return get_production_model_id(config_key)

    def get_pipeline_status(self) -> dict[str, Any]:
        """Where each variant stands."""
        return get_pipeline_status()

    # -- events --------------------------------------------------------------------------------------------------------

    def publish_event(self, event_type: object, payload: Mapping[str, Any] | None = None, source: str = "") -> Any:
        """Publish; what is returned can be awaited, or asked for its result."""
        return get_router().publish(event_type, payload, source)

    def subscribe(self, event_type: object, callback: Callback) -> None:
        """Hear of events of this name."""
        get_router().subscribe(event_type, callback)

    def get_recent_events(self, limit: int = 100) -> list[RouterEvent]:
        """The last events, oldest first."""
        return get_router().get_recent_events(limit)

    # -- daemons and health --------------------------------------------------------------------------------------------

    async def start_daemon(self, daemon_type: DaemonType) -> bool:
        """Start a daemon; whether it runs."""
        return await get_daemon_manager().start(daemon_type)

    async def stop_daemon(self, daemon_type: DaemonType) -> bool:
        """Stop a daemon; whether it has stopped."""
        return await get_daemon_manager().stop(daemon_type)

    def get_daemon_status(self, daemon_type: DaemonType) -> DaemonInfo:
        """What is known of one daemon."""
        return get_daemon_manager().get_daemon_status(daemon_type)

    def get_system_health(self) -> dict[str, Any]:
        """The health of everything."""
        return overall.get_system_health()


class UnifiedRegistry:
    """Every coordinator by its name: those of the bootstrap, and a program's own."""

    def register(self, name: str, coordinator: Any) -> None:
        """Let *coordinator* be known as *name* until the node of this program closes.  Raises IdConflict."""
        own = _own(ambient.node())
        if name in COORDINATOR_REGISTRY or own.get(name, coordinator) is not coordinator:
            raise IdConflict(name)
        if len(own) >= OWN_MAX:
            raise LimitReached(name, "coordinators of one program", len(own), OWN_MAX)
        own[name] = coordinator

    def unregister(self, name: str) -> bool:
        """Forget one's own coordinator *name*; whether it was known."""
        return _own(ambient.node()).pop(name, None) is not None

    def get(self, name: str) -> Any:
        """The coordinator *name*: one's own, or how one of the bootstrap is declared.  Raises UnknownName."""
        known = {**COORDINATOR_REGISTRY, **_own(ambient.node())}
        if name not in known:
            raise UnknownName("coordinator", name, known)
        return known[name]

    def list_coordinators(self) -> list[str]:
        """Every name, those of the bootstrap first, in the order they start in."""
        return [*COORDINATOR_REGISTRY, *_own(ambient.node())]

    def get_health(self) -> dict[str, HealthCheckResult]:
        """How each is that runs: a coordinator of the bootstrap by its daemons, one's own by its ``health_check``.

        One whose check raises, or that has none, is not healthy.
        """
        found = overall.coordinators().items()
        told = {name: HealthCheckResult.from_health(health, score=health.points) for name, health in found}
        return told | {name: _asked(one) for name, one in _own(ambient.node()).items()}


def _own(node: Embedded) -> dict[str, Any]:
    found: dict[str, Any] = node.kept.setdefault(KEPT, {})
    return found


def _asked(coordinator: Any) -> HealthCheckResult:
    check: Callable[[], object] | None = getattr(coordinator, "health_check", None)
    if check is None:
        return HealthCheckResult.unhealthy("has no health_check")
    answer, wrong = attempt_plain(check)
    if wrong is not None:
        return HealthCheckResult.unhealthy(f"its check failed: {type(wrong).__name__}: {wrong}")
    return read_result(answer)


@cache
def get_coordination_facade() -> CoordinationFacade:
    """The facade of this program."""
    return CoordinationFacade()


@cache
def get_unified_registry() -> UnifiedRegistry:
    """The registry of this program."""
    return UnifiedRegistry()


def register_coordinator(name: str, coordinator: Any) -> None:
    """As :meth:`UnifiedRegistry.register`."""
    get_unified_registry().register(name, coordinator)


def get_coordinator_by_name(name: str) -> Any:
    """As :meth:`UnifiedRegistry.get`."""
    return get_unified_registry().get(name)
