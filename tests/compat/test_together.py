"""The facade does what its parts do, and the registry knows every coordinator and how it is."""

import pytest

from compat.ears import home
from ringrift.kernel.errors import IdConflict, LimitReached, UnknownName
from ringrift_compat.ambient import ambient
from ringrift_compat.coordinators import COORDINATOR_REGISTRY
from ringrift_compat.daemon_types import DaemonType
from ringrift_compat.health import HealthCheckResult
from ringrift_compat.tasks import get_coordinator
from ringrift_compat.together import get_coordination_facade, get_unified_registry

__all__ = ["home"]


class Own:
    """A coordinator of somebody's own."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def health_check(self) -> object:
        """How it is."""
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def test_the_facade_is_the_parts_it_names() -> None:
    """A task that it spawns is the task coordinator's with its limit, an event that it publishes is the router's."""
    facade = get_coordination_facade()

    assert facade.spawn_task("t1", "training", "node-1", shard=3) == "t1"
    assert [task.metadata for task in get_coordinator().get_tasks()] == [{"shard": 3}]
    assert facade.can_spawn_task("training", "node-1")[0] is False
    with pytest.raises(LimitReached):
        facade.spawn_task("t2", "training", "node-1")
    assert facade.complete_task("t1") is True
    said = facade.publish_event("EVENT_A", {"n": 1}).result()
    assert facade.get_recent_events()[-1].event_id == said.event_id
    assert facade.get_production_model_id() is None


def test_the_facade_starts_daemons_and_coordinators() -> None:
    """What it starts runs, and health tells of it."""
    facade = get_coordination_facade()

    assert "pipeline_orchestrator" in facade.initialize()["_instances"]
    assert facade.get_daemon_status(DaemonType.DATA_PIPELINE) is not None
    assert facade.get_system_health()["status"] == "healthy"
    facade.shutdown()
    assert not ambient.is_open


def test_the_registry_knows_everybody() -> None:
    """Those of the bootstrap and one's own are found by name; a name is one coordinator's only."""
    registry, mine = get_unified_registry(), Own(HealthCheckResult(healthy=True))

    registry.register("mine", mine)
    registry.register("mine", mine)
    assert registry.get("mine") is mine
    assert registry.list_coordinators() == [*COORDINATOR_REGISTRY, "mine"]
    with pytest.raises(IdConflict):
        registry.register("mine", Own(None))
    with pytest.raises(IdConflict):
        registry.register("task_coordinator", mine)
    with pytest.raises(UnknownName):
        registry.get("nobody")
    assert registry.unregister("mine")
    assert not registry.unregister("mine")


def test_a_coordinator_that_cannot_tell_is_not_healthy() -> None:
    """A check that raises, answers nothing or does not exist is unhealthy; one that says it is well is healthy."""
    registry = get_unified_registry()
    registry.register("well", Own(HealthCheckResult(healthy=True)))
    registry.register("raises", Own(ValueError("broken")))
    registry.register("silent", Own(None))
    registry.register("without", object())

    found = registry.get_health()

    assert [bool(found[name]) for name in ("well", "raises", "silent", "without")] == [True, False, False, False]
    assert "broken" in found["raises"].message
    assert bool(found["event_coordinator"])
