"""Aliases: the whole compatibility surface: documented module, documented name, and where it is served.

A name that ends in ``*`` stands for every name of its target that begins so.  A module that is not listed does not
import, and a name that is not listed says what its module offers.
"""

_C = "ringrift_compat."


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
    | _from("counting", "CoordinatorStats get_coordinator_stats")
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
_RESILIENCE = _from(
    "handlers", "make_handlers_resilient resilient_handler ResilientHandlerConfig CircuitOpen HandlerStats"
)
_LEVELS = _from("levels", "BackpressureLevel QueueType TaskType BoardType")
_HEALTH = _from("health", "HealthCheckResult CoordinatorStatus CoordinatorProtocol DaemonProtocol")
_HELPER = _from("health", "HealthCheckHelper HealthCheckResult CoordinatorStatus")
_NODE_HEALTH = _from(
    "node_health",
    """HealthCheckOrchestrator get_health_check_orchestrator NodeHealth NodeHealthState NodeHealthDetails=NodeHealth
    NodeMonitoringStatus=NodeHealth get_node_health get_all_node_health get_healthy_nodes get_degraded_nodes
    get_unhealthy_nodes get_cluster_health_summary""",
)
_SYSTEM_HEALTH = _from(
    "system_health",
    """UnifiedHealthManager get_health_manager SystemHealthScore CircuitState get_system_health_score
    get_system_health_level should_pause_pipeline""",
) | _from("levels", "RecoveryAction ErrorSeverity SystemHealthLevel")
_PRESSURE = _from(
    "pressure",
    """check_backpressure should_throttle_production should_stop_production get_throttle_factor QueueMonitor QueueStatus
    get_queue_monitor get_queue_status""",
)
_COLLECTING = _from("collecting", "BoundedHistory CallbackRegistry MetricsAccumulator")
_BASES = _from("coordinating", "CoordinatorBase BaseOrchestrator IllegalChange") | _from(
    "remembering", "SQLitePersistenceMixin"
)
_CYCLING = _from("cycling", "BaseDaemon DaemonConfig StopRefused")
_SINGLETONS = _from(
    "singletons",
    """SingletonMixin ThreadSafeSingletonMixin LazySingletonMixin PersistentSingletonMixin SingletonMeta singleton""",
)
_CONFIG = _from("configuring", "CoordinatorConfig get_config set_config update_config reset_config")
_SNAPSHOTS = _from(
    "snapshots", "SnapshotCoordinator StateSnapshot StatePersistable CorruptSnapshot get_snapshot_coordinator"
)
_THRESHOLDS = _from(
    "thresholds", "DynamicThreshold ThresholdManager AdjustmentStrategy get_threshold_manager get_threshold"
)
_ALERTS = _from("alerting", "Alert AlertSeverity AlertCategory")
_BOOTSTRAP = _from(
    "bootstrap",
    """initialize_all_coordinators bootstrap_coordination shutdown_coordination shutdown_all_coordinators
    get_bootstrap_status COORDINATOR_REGISTRY""",
) | _from("overall", "get_system_health")

_LIMIT = {"LimitReached": "ringrift.kernel.errors:LimitReached"}
_TASKS = (
    _from("levels", "TaskType")
    | _from(
        "tasks",
        """TaskCoordinator CoordinatorRunState TaskInfo TaskLimits TaskStatus can_spawn get_coordinator
        get_task_coordinator""",
    )
    | _LIMIT
)
_LIFECYCLE = _from(
    "task_lifecycle",
    "TaskLifecycleCoordinator get_task_lifecycle_coordinator get_task_stats wire_task_events",
) | _from("tasks", "TaskInfo TaskStatus")
_DECORATORS = _from("task_decorators", "coordinate_task task_context") | _LIMIT
_ROLES = _from(
    "roles",
    """OrchestratorRole OrchestratorState OrchestratorInfo OrchestratorRegistry acquire_orchestrator_role
    release_orchestrator_role orchestrator_role get_role_holder is_orchestrator_role_available has_orchestrator_role
    get_registry""",
)
_TRAINING = _from(
    "training",
    """TrainingCoordinator get_training_coordinator request_training_slot release_training_slot update_training_progress
    can_train training_slot""",
)
_TRAINING_BRIDGE = _from(
    "training",
    """AsyncTrainingBridge get_training_bridge async_request_training async_can_train async_release_training
    async_update_progress async_training_slot""",
)
_SAFE = """
    can_spawn_safe check_spawn_allowed register_task_safe complete_task_safe fail_task_safe cancel_task_safe
    heartbeat_task_safe acquire_role_safe release_role_safe has_role_safe get_role_holder_safe is_role_available_safe
    request_training_slot_safe release_training_slot_safe can_train_safe check_backpressure_safe should_throttle_safe
    should_stop_safe get_throttle_factor_safe publish_event_safe emit_event_safe subscribe_safe has_subscribers_safe
    get_system_health_safe get_healthy_nodes_safe get_production_model_id_safe get_pipeline_status_safe
    is_daemon_running_safe liveness_probe_safe safely
"""
_MODELS = _from(
    "models",
    """ModelLifecycleCoordinator ModelRecord ModelState get_model_lifecycle_coordinator get_production_model_id""",
)
_CIRCUITS = _from("circuits", "CircuitBreaker CircuitState")
_ACTIONS = _from(
    "pipeline_actions", "trigger_data_sync trigger_npz_export trigger_training trigger_evaluation trigger_promotion"
) | _from("buses", "StageCompletionResult")
_PIPELINE = _CIRCUITS | _from(
    "pipelines", "DataPipelineOrchestrator get_pipeline_orchestrator wire_pipeline_events get_pipeline_status"
)
_TRIGGERS = _from(
    "pipelines",
    """TriggerConditions get_trigger_conditions should_trigger_sync should_trigger_export should_trigger_training
    should_trigger_evaluation should_trigger_promotion""",
)
_SELFPLAY = _from(
    "selfplay", "SelfplayOrchestrator get_selfplay_orchestrator wire_selfplay_events emit_selfplay_completion"
)
_STAGE = _from("stages", "PipelineStage")
_DAEMON_TYPES = _from("daemon_types", "DaemonType DaemonState DaemonInfo DaemonManagerConfig")
_DAEMON_TABLES = _from(
    "daemon_registry",
    """DaemonSpec DAEMON_REGISTRY DAEMON_STARTUP_ORDER DAEMON_DEPENDENCIES DAEMON_CATEGORIES DAEMON_PROFILES
    CRITICAL_DAEMONS get_spec get_category_daemons get_profile_daemons validate_registry""",
)
_DAEMONS = _DAEMON_TYPES | _from("daemon_manager", "DaemonManager get_daemon_manager")
_DAEMON_FACTORY = _from("daemon_runners", "DaemonFactory get_daemon_factory DaemonRun")
_DAEMON_ADAPTERS = _from(
    "daemon_adapters",
    """DaemonAdapter DistillationDaemonAdapter PromotionDaemonAdapter ExternalDriveSyncAdapter VastCpuPipelineAdapter
    get_daemon_adapter""",
)

ALIASES: dict[str, dict[str, str]] = {
    "app.coordination": _ROUTER
    | _TASKS
    | _LIFECYCLE
    | _DECORATORS
    | _ROLES
    | _TRAINING
    | _TRAINING_BRIDGE
    | _TRACING
    | _LETTERS
    | _BOOTSTRAP
    | _STAGES
    | _QUEUE
    | _HANDLERS
    | _EMITTERS
    | _LEVELS
    | _HEALTH
    | _NODE_HEALTH
    | _SYSTEM_HEALTH
    | _PRESSURE
    | _BASES
    | _CYCLING
    | _SINGLETONS
    | _CONFIG
    | _SNAPSHOTS
    | _THRESHOLDS
    | _ALERTS
    | _COLLECTING
    | _DAEMONS,
    "app.coordination.data_pipeline_orchestrator": _PIPELINE | _STAGE,
    "app.coordination.pipeline_actions": _ACTIONS | _STAGE,
    "app.coordination.pipeline_triggers": _TRIGGERS | _STAGE,
    "app.coordination.selfplay_orchestrator": _SELFPLAY,
    "app.coordination.backpressure": _PRESSURE | _LEVELS,
    "app.coordination.alert_types": _ALERTS,
    "app.coordination.async_bridge_manager": _from("bridging", "AsyncBridgeManager BridgeClosed get_bridge_manager"),
    "app.coordination.base_daemon": _CYCLING,
    "app.coordination.base_orchestrator": _BASES,
    "app.coordination.coordinator_base": _BASES | _SINGLETONS | _from("health", "CoordinatorStatus HealthCheckResult"),
    "app.coordination.coordinator_config": _CONFIG,
    "app.coordination.coordinator_dependencies": _from(
        "depending",
        """CoordinatorDependencyGraph CircularDependency get_dependency_graph get_initialization_order get_dependents
        validate_dependencies""",
    ),
    "app.coordination.coordinator_persistence": _SNAPSHOTS,
    "app.coordination.core_utils": _TRACING | _COLLECTING,
    "app.coordination.dynamic_thresholds": _THRESHOLDS,
    "app.coordination.enums": _LEVELS
    | _from("daemon_types", "DaemonType DaemonState")
    | _from("guarding", "LeadershipRole")
    | _from("health", "CoordinatorStatus")
    | _from("event_types", "DataEventType StageEvent")
    | _from("router_event", "EventSource")
    | _from("alerting", "AlertSeverity AlertCategory")
    | _from("levels", "RecoveryAction ErrorSeverity SystemHealthLevel")
    | _from("models", "ModelState")
    | _from("node_health", "NodeHealthState")
    | _from("roles", "OrchestratorRole OrchestratorState")
    | _from("tasks", "CoordinatorRunState TaskStatus"),
    "app.coordination.integration_bridge": _from("bridging", "get_integration_status"),
    "app.coordination.master_loop_guard": _from(
        "guarding",
        """is_master_loop_running get_master_loop_holder ensure_master_loop_running require_master_loop
        master_loop_guard NoMasterLoop""",
    ),
    "app.coordination.singleton_mixin": _SINGLETONS,
    "app.coordination.contracts": _HEALTH,
    "app.coordination.coordination_bootstrap": _BOOTSTRAP,
    "app.coordination.core_events": _ROUTER | _NAMING | _EMITTERS,
    "app.coordination.cross_process_events": _QUEUE,
    "app.coordination.data_events": _DATA,
    "app.coordination.daemon_adapters": _DAEMON_ADAPTERS,
    "app.coordination.daemon_factory": _DAEMON_FACTORY | _DAEMON_TYPES,
    "app.coordination.daemon_factory_implementations": {"create_*": f"{_C}daemon_runners"},
    "app.coordination.daemon_lifecycle": _DAEMON_TYPES | _from("daemon_figures", "DaemonLifecycleManager"),
    "app.coordination.daemon_manager": _DAEMONS,
    "app.coordination.daemon_metrics": _from("daemon_figures", "DaemonMetrics get_daemon_metrics"),
    "app.coordination.daemon_registry": _DAEMON_TABLES,
    "app.coordination.daemon_runners": _from("daemon_runners", "get_runner DaemonRun")
    | {"create_*": f"{_C}daemon_runners", "run_*": f"{_C}daemon_runners"},
    "app.coordination.daemon_stats": _from("daemon_figures", "DaemonStats get_daemon_stats get_all_daemon_stats"),
    "app.coordination.daemon_types": _DAEMON_TYPES | _DAEMON_TABLES,
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
    "app.coordination.facade": _from(
        "together", "CoordinationFacade get_coordination_facade get_facade=get_coordination_facade"
    ),
    "app.coordination.helpers": _from("safely", _SAFE),
    "app.coordination.model_lifecycle_coordinator": _MODELS,
    "app.coordination.unified_registry": _from(
        "together",
        """UnifiedRegistry get_unified_registry get_registry=get_unified_registry register_coordinator
        get_coordinator=get_coordinator_by_name""",
    ),
    "app.coordination.health_check_helper": _HELPER,
    "app.coordination.health_check_orchestrator": _NODE_HEALTH | _HELPER,
    "app.coordination.health_facade": _NODE_HEALTH | _SYSTEM_HEALTH | _HELPER | _from("overall", "get_system_health"),
    "app.coordination.node_health_monitor": _NODE_HEALTH
    | _from(
        "node_health",
        "NodeHealthMonitor=HealthCheckOrchestrator get_node_health_monitor=get_health_check_orchestrator",
    ),
    "app.coordination.node_status": _NODE_HEALTH
    | _from("node_health", "get_node_status=get_node_health get_all_node_status=get_all_node_health"),
    "app.coordination.protocols": _HEALTH,
    "app.coordination.queue_monitor": _PRESSURE | _LEVELS,
    "app.coordination.stage_events": _STAGES,
    "app.coordination.async_training_bridge": _TRAINING_BRIDGE,
    "app.coordination.orchestrator_registry": _ROLES,
    "app.coordination.task_coordinator": _TASKS,
    "app.coordination.task_decorators": _DECORATORS,
    "app.coordination.task_lifecycle_coordinator": _LIFECYCLE,
    "app.coordination.training_coordinator": _TRAINING,
    "app.coordination.system_health_monitor": _SYSTEM_HEALTH
    | _from("system_health", "SystemHealthMonitor=UnifiedHealthManager get_system_health_monitor=get_health_manager"),
    "app.coordination.tracing": _TRACING,
    "app.coordination.types": _LEVELS,
    "app.coordination.unified_event_coordinator": _ROUTER | _EMITTERS,
    "app.coordination.unified_health_manager": _SYSTEM_HEALTH,
    "app.coordination.utils": _COLLECTING,
    "app.core.event_bus": _from("buses", "EventBus Event get_event_bus=get_core_event_bus"),
    "app.distributed.cross_process_events": _QUEUE,
    "app.distributed.data_events": _DATA,
    "app.distributed.stage_events": _STAGES,
}

ALIASES |= {
    f"app.coordination.{module}": _from("daemon_views", names)
    for module, names in (
        ("auto_export_daemon", "AutoExportDaemon"),
        ("auto_promotion_daemon", "AutoPromotionDaemon"),
        ("evaluation_daemon", "EvaluationDaemon"),
        ("feedback_loop_controller", "FeedbackLoopController"),
        ("gauntlet_feedback_controller", "GauntletFeedbackController"),
        ("maintenance_daemon", "MaintenanceDaemon"),
        ("model_distribution_daemon", "ModelDistributionDaemon"),
        ("model_performance_watchdog", "ModelPerformanceWatchdog"),
        ("npz_distribution_daemon", "NpzDistributionDaemon"),
        ("queue_populator", "UnifiedQueuePopulator QueuePopulator=UnifiedQueuePopulator"),
        ("tournament_daemon", "TournamentDaemon"),
        ("training_trigger_daemon", "TrainingTriggerDaemon"),
        ("unified_distribution_daemon", "UnifiedDistributionDaemon"),
        ("unified_queue_populator", "UnifiedQueuePopulator"),
        ("unified_replication_daemon", "UnifiedReplicationDaemon"),
        ("work_queue_monitor_daemon", "WorkQueueMonitorDaemon"),
    )
}

_CLUSTER = _NODE_HEALTH | _from("daemon_views", "ClusterMonitorDaemon")
ALIASES |= {
    f"app.coordination.{module}": _CLUSTER
    for module in ("cluster_monitor_daemon", "robust_cluster_monitor", "unified_cluster_monitor")
}

REPLACED: dict[str, str] = {
    "app.coordination.cluster_monitor_daemon": "app.coordination.unified_cluster_monitor",
    "app.coordination.robust_cluster_monitor": "app.coordination.unified_cluster_monitor",
    "app.coordination.model_distribution_daemon": "app.coordination.unified_distribution_daemon",
    "app.coordination.npz_distribution_daemon": "app.coordination.unified_distribution_daemon",
    "app.coordination.queue_populator": "app.coordination.unified_queue_populator",
    "app.coordination.base_handler": "app.coordination.handler_base",
    "app.coordination.node_health_monitor": "app.coordination.health_check_orchestrator",
    "app.coordination.system_health_monitor": "app.coordination.unified_health_manager",
    "app.coordination.unified_event_coordinator": "app.coordination.event_router",
}
"""Paths that the documents call deprecated, archived or removed: importing one warns with what took its place."""
