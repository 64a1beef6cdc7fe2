"""The documented ``*_safe`` calls: they never raise; where the call fails, the answer does no harm.

No slot, no role, a full queue, nothing published: a broken guard that lets things pass guards nothing.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from importlib import import_module
from typing import Any

import msgspec

from ringrift.kernel.errors import RingriftError
from ringrift_compat.types import BackpressureLevel

_CAUGHT = (
    RingriftError, OSError, ValueError, RuntimeError, LookupError, TypeError, ImportError, FutureTimeout,
    msgspec.MsgspecError,
)  # fmt: skip
"""Errors that are answered instead of raised; any other error is a mistake in our code and must be visible."""
log = logging.getLogger(__name__)

_TARGETS: Mapping[str, tuple[str, Any]] = {
    "can_spawn_safe": ("tasks.task_coordinator:can_spawn", (False, "cannot be checked: {error}")),
    "register_task_safe": ("tasks.task_coordinator:TaskCoordinator.get_instance().register_task", None),
    "complete_task_safe": ("tasks.task_coordinator:TaskCoordinator.get_instance().complete_task", False),
    "fail_task_safe": ("tasks.task_coordinator:TaskCoordinator.get_instance().fail_task", False),
    "heartbeat_task_safe": ("tasks.task_coordinator:TaskCoordinator.get_instance().heartbeat_task", False),
    "acquire_role_safe": ("tasks.orchestrator_registry:acquire_orchestrator_role", False),
    "request_training_slot_safe": ("tasks.training_coordinator:request_training_slot", None),
    "check_backpressure_safe": ("health.queue_monitor:check_backpressure", BackpressureLevel.STOP),
    "should_throttle_safe": ("health.queue_monitor:should_throttle_production", True),
    "publish_event_safe": ("events.event_router:publish_sync", None),
    "emit_event_safe": ("events.event_router:publish_sync", None),
    "subscribe_safe": ("events.event_router:subscribe", None),
    "has_subscribers_safe": ("events.event_router:has_subscribers", False),
    "get_system_health_safe": ("health.overall:get_system_health", None),
    "get_healthy_nodes_safe": ("health.node_health:get_healthy_nodes", ()),
    "get_production_model_id_safe": ("pipeline.model_lifecycle:get_production_model_id", None),
    "get_pipeline_status_safe": ("pipeline.orchestrator:get_pipeline_status", None),
    "is_daemon_running_safe": ("daemons.manager:get_daemon_manager().is_running", False),
}
"""Every safe call: its target and the answer where that fails."""
__all__ = sorted(_TARGETS)


def _resolve(target: str) -> Callable[..., Any]:
    """The target, looked up when it is called: a part that cannot be loaded is a failure like any other."""
    home, _, path = target.partition(":")
    value: Any = import_module(f"ringrift_compat.{home}")
    for part in path.split("."):
        value = getattr(value, part.removesuffix("()"))
        value = value() if part.endswith("()") else value
    return value  # type: ignore[no-any-return]  # the table names functions and methods


def _make_safe(name: str, target: str, fallback: Any) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        try:
            return _resolve(target)(*args, **options)
        except _CAUGHT as error:
            log.warning("%s failed and answers %r: %s: %s", name, fallback, type(error).__name__, error)
            if isinstance(fallback, tuple) and fallback:
                return fallback[0], fallback[1].format(error=error)
            return fallback

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"As ``{target.partition(':')[2]}``; where that fails the answer is {fallback!r}."
    return call


def __getattr__(name: str) -> Callable[..., Any]:
    if name not in _TARGETS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    safe = globals()[name] = _make_safe(name, *_TARGETS[name])
    return safe
