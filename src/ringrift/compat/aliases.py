"""Aliases: the whole compatibility surface: documented module, documented name, and where it is served.

A name that ends in ``*`` stands for every name of its target that begins so.  A module that is not listed does not
import, and a name that is not listed says what its module offers.
"""

_C = "ringrift.compat."


def _from(home: str, names: str) -> dict[str, str]:
    """Each of *names*, served by the module *home* under the same name, or where it says ``old=ours``, as *ours*."""
    pairs = (name.partition("=")[::2] for name in names.split())
    return {old: f"{_C}{home}:{ours or old}" for old, ours in pairs}


_EMITTERS = {"emit_*": f"{_C}emitters"}
_ROUTER = (
    _from(
        "events",
        """get_router get_event_router get_event_coordinator EventRouter UnifiedEventRouter UnifiedEventCoordinator
        publish publish_sync subscribe unsubscribe has_subscribers""",
    )
    | _from("router_event", "EventSource RouterEvent")
    | _from("event_types", "DataEventType StageEvent")
    | _from("handlers", "CoordinatorStats=HandlerStats")
)
_DATA = (
    _from("event_types", "DataEventType EventType")
    | _from("buses", "DataEvent DataEventBus EventBus=DataEventBus get_data_event_bus get_event_bus=get_data_event_bus")
    | _EMITTERS
)
_STAGES = _from("event_types", "StageEvent") | _from("buses", "StageEventBus StageCompletionResult get_stage_event_bus")
_QUEUE = _from("queue", "CrossProcessEventQueue get_event_queue publish_event")
_NAMING = _from(
    "naming",
    """normalize_event_type is_canonical is_known get_variants get_data_event_type get_stage_event CANONICAL_EVENT_NAMES
    STAGE_TO_DATA_EVENT_MAP DATA_TO_STAGE_EVENT_MAP""",
)
_TRACING = {name: f"ringrift.bus.spans:{name}" for name in ("traced", "span", "get_trace_id")}
_LETTERS = _from("dead_letters", "DeadLetterQueue get_dead_letter_queue run_retry_daemon")
_HANDLERS = _from("handlers", "HandlerBase HandlerStats BaseEventHandler EventSubscriptionMixin")
_RESILIENCE = _from("handlers", "make_handlers_resilient resilient_handler HandlerStats")
_LEVELS = _from("levels", "BackpressureLevel QueueType TaskType BoardType")
_HEALTH = _from("health", "HealthCheckResult CoordinatorStatus CoordinatorProtocol DaemonProtocol")
_COLLECTING = _from("collecting", "BoundedHistory CallbackRegistry")
_BOOTSTRAP = _from(
    "bootstrap",
    """initialize_all_coordinators bootstrap_coordination shutdown_coordination shutdown_all_coordinators
    get_bootstrap_status get_system_health COORDINATOR_REGISTRY""",
)

ALIASES: dict[str, dict[str, str]] = {
    "app.coordination": _ROUTER
    | _TRACING
    | _LETTERS
    | _BOOTSTRAP
    | _STAGES
    | _QUEUE
    | _HANDLERS
    | _EMITTERS
    | _LEVELS
    | _HEALTH
    | _COLLECTING,
    "app.coordination.contracts": _HEALTH,
    "app.coordination.coordination_bootstrap": _BOOTSTRAP,
    "app.coordination.core_events": _ROUTER | _NAMING | _EMITTERS,
    "app.coordination.cross_process_events": _QUEUE,
    "app.coordination.data_events": _DATA,
    "app.coordination.dead_letter_queue": _LETTERS,
    "app.coordination.event_emitters": _EMITTERS,
    "app.coordination.event_mappings": _NAMING,
    "app.coordination.event_normalization": _NAMING,
    "app.coordination.event_router": _ROUTER | _EMITTERS,
    "app.coordination.event_subscription_mixin": _from("handlers", "EventSubscriptionMixin"),
    "app.coordination.event_subscription_registry": _from(
        "registry", "DELEGATION_REGISTRY INIT_CALL_REGISTRY DelegationSpec InitCallSpec get_subscriptions"
    ),
    "app.coordination.handler_base": _HANDLERS,
    "app.coordination.handler_resilience": _RESILIENCE,
    "app.coordination.base_handler": _HANDLERS,
    "app.coordination.protocols": _HEALTH,
    "app.coordination.stage_events": _STAGES,
    "app.coordination.tracing": _TRACING,
    "app.coordination.types": _LEVELS,
    "app.coordination.unified_event_coordinator": _ROUTER | _EMITTERS,
    "app.coordination.utils": _COLLECTING,
    "app.core.event_bus": _from("buses", "EventBus Event get_event_bus=get_core_event_bus"),
    "app.distributed.cross_process_events": _QUEUE,
    "app.distributed.data_events": _DATA,
    "app.distributed.stage_events": _STAGES,
}

REPLACED: dict[str, str] = {
    "app.coordination.base_handler": "app.coordination.handler_base",
    "app.coordination.unified_event_coordinator": "app.coordination.event_router",
}
"""Paths that the documents call deprecated, archived or removed: importing one warns with what took its place."""
