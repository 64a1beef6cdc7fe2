"""The documented ``*_safe`` calls: they never raise, and where nobody can tell they answer no.

A guard that says yes when it is broken guards nothing; so one that fails says what keeps the machines from harm: no
place, no role, a full queue, and nothing was published.
"""

import inspect
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import Any

import msgspec

from ringrift.kernel.errors import RingriftError
from ringrift_compat.levels import BackpressureLevel

CAUGHT = (
    RingriftError,
    OSError,
    ValueError,
    RuntimeError,
    LookupError,
    TypeError,
    Late,
    msgspec.MsgspecError,
)
"""What is answered instead of raised; whatever else is raised is a mistake in our code and must be seen."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Guard:
    """What a safe call calls, and what it answers where that fails."""

    target: str
    closed: Any
    why: bool = False
    """Whether the answer is *closed* with the reason behind it."""


GUARDS: Mapping[str, Guard] = {
    "can_spawn_safe": Guard("tasks:can_spawn", False, why=True),
    "check_spawn_allowed": Guard("tasks:can_spawn", False, why=True),
    "register_task_safe": Guard("safely:_register", None),
    "complete_task_safe": Guard("safely:_complete", False),
    "fail_task_safe": Guard("safely:_fail", False),
    "cancel_task_safe": Guard("safely:_cancel", False),
    "heartbeat_task_safe": Guard("safely:_heartbeat", False),
    "acquire_role_safe": Guard("roles:acquire_orchestrator_role", False),
    "release_role_safe": Guard("roles:release_orchestrator_role", False),
    "has_role_safe": Guard("roles:has_orchestrator_role", False),
    "get_role_holder_safe": Guard("roles:get_role_holder", None),
    "is_role_available_safe": Guard("roles:is_orchestrator_role_available", False),
    "request_training_slot_safe": Guard("training:request_training_slot", None),
    "release_training_slot_safe": Guard("training:release_training_slot", False),
    "can_train_safe": Guard("training:can_train", False),
    "check_backpressure_safe": Guard("pressure:check_backpressure", BackpressureLevel.STOP),
    "should_throttle_safe": Guard("pressure:should_throttle_production", True),
    "should_stop_safe": Guard("pressure:should_stop_production", True),
    "get_throttle_factor_safe": Guard("pressure:get_throttle_factor", 0.0),
    "publish_event_safe": Guard("events:publish_sync", None),
    "emit_event_safe": Guard("events:publish_sync", None),
    "subscribe_safe": Guard("safely:_subscribe", False),
    "has_subscribers_safe": Guard("events:has_subscribers", False),
    "get_system_health_safe": Guard("overall:get_system_health", None),
    "get_healthy_nodes_safe": Guard("node_health:get_healthy_nodes", ()),
    "get_production_model_id_safe": Guard("models:get_production_model_id", None),
    "get_pipeline_status_safe": Guard("pipelines:get_pipeline_status", None),
    "is_daemon_running_safe": Guard("safely:_is_running", False),
    "liveness_probe_safe": Guard("safely:_is_alive", False),
}
"""Every safe call."""
__all__ = sorted(GUARDS)


def _coordinator() -> Any:
    return _target("tasks:get_coordinator")()


def _register(*args: Any, **options: Any) -> str:
    """A place for a task; its id."""
    found: str = _coordinator().register_task(*args, **options)
    return found


def _complete(*args: Any, **options: Any) -> bool:
    return bool(_coordinator().complete_task(*args, **options))


def _fail(*args: Any, **options: Any) -> bool:
    return bool(_coordinator().fail_task(*args, **options))


def _cancel(*args: Any, **options: Any) -> bool:
    return bool(_coordinator().cancel_task(*args, **options))


def _heartbeat(*args: Any, **options: Any) -> bool:
    return bool(_coordinator().heartbeat_task(*args, **options))


def _subscribe(event_type: object, callback: Callable[..., Any]) -> bool:
    _target("events:subscribe")(event_type, callback)
    return True


def _is_running(daemon_type: object) -> bool:
    return bool(_target("daemon_manager:get_daemon_manager")().is_running(daemon_type))


def _is_alive() -> bool:
    return bool(_target("daemon_manager:get_daemon_manager")().liveness_probe())


def _target(name: str) -> Callable[..., Any]:
    """What *name* calls, looked up when it is called: a part that cannot even be loaded is a failure like any other."""
    home, _, own = name.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"ringrift_compat.{home}"), own)
    return found


def _answer(name: str, guard: Guard, wrong: BaseException) -> Any:
    log.warning("%s answers %r: %s: %s", name, guard.closed, type(wrong).__name__, wrong)
    return (guard.closed, f"nobody can tell: {wrong}") if guard.why else guard.closed


def _safe(name: str, guard: Guard) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        try:
            return _target(guard.target)(*args, **options)
        except (*CAUGHT, ImportError) as wrong:
            return _answer(name, guard, wrong)

    call.__name__ = call.__qualname__ = name
    closed = f"({guard.closed!r}, why)" if guard.why else repr(guard.closed)
    call.__doc__ = f"As ``{guard.target.partition(':')[2].strip('_')}``, but where it fails the answer is {closed}."
    return call


def safely(call: Callable[..., Any], default: Any = None) -> Callable[..., Any]:
    """*call*, plain or async, that answers *default* where it fails: for guards of one's own, say no."""
    guard = Guard("", default)

    if inspect.iscoroutinefunction(call):

        @wraps(call)
        async def wait(*args: Any, **options: Any) -> Any:
            try:
                return await call(*args, **options)
            except (TimeoutError, *CAUGHT) as wrong:
                return _answer(call.__qualname__, guard, wrong)

        return wait

    @wraps(call)
    def plain(*args: Any, **options: Any) -> Any:
        try:
            return call(*args, **options)
        except CAUGHT as wrong:
            return _answer(call.__qualname__, guard, wrong)

    return plain


def __getattr__(name: str) -> Callable[..., Any]:
    if name not in GUARDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = globals()[name] = _safe(name, GUARDS[name])
    return made
