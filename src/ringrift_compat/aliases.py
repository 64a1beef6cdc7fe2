"""Aliases: every documented module, the names that it serves and where they are, or what does its job here.

The documents print 165 module paths.  One that has names serves those that the documents print, in code, tables or
prose, and the families of names that they print as a pattern; those of daemons that look after files have the runner of
their duty under their own name.  One without names imports, and its ``__doc__`` says which part of RingRift does its
job.  One whose job is not built yet raises ModuleNotFoundError, which says so.
"""

from collections.abc import Iterator, Mapping

_HOME, _ROOT = "ringrift_compat.", "app.coordination"

_NAMES: Mapping[str, str] = {
    "cluster.cluster_monitor": "ClusterMonitor ClusterStatus",
    "cluster.distributed_lock": "TrainingLock acquire_training_lock training_lock",
    "cluster.loops": """LoopManager EloSyncLoop IdleDetectionLoop AutoScalingLoop JobReaperLoop QueuePopulatorLoop
        ValidationLoop""",
    "cluster.managers": "Dispatch JobManager SelfplayScheduler StateManager SyncPlanner TrainingCoordinator",
    "cluster.node_selector": "NodeSelector RankedNode",
    "cluster.orchestrator": "P2POrchestrator",
    "cluster.p2p_backend": "P2PBackend discover_p2p_leader_url",
    "cluster.work_queue": "WorkItem WorkQueue",
    "coordinators.bootstrap": """bootstrap_coordination get_bootstrap_status initialize_all_coordinators
        shutdown_all_coordinators shutdown_coordination COORDINATOR_REGISTRY""",
    "coordinators.coordinator_base": "CoordinatorBase BaseOrchestrator IllegalChange",
    "coordinators.coordinator_config": "CoordinatorConfig get_config",
    "coordinators.snapshots": "SnapshotCoordinator StateSnapshot CorruptSnapshot",
    "coordinators.sqlite_persistence": "SQLitePersistenceMixin",
    "daemons.adapters": """DistillationDaemonAdapter ExternalDriveSyncAdapter PromotionDaemonAdapter
        VastCpuPipelineAdapter get_daemon_adapter""",
    "daemons.base_daemon": "BaseDaemon StopRefused",
    "daemons.manager": "DaemonManager get_daemon_manager",
    "daemons.registry": "DaemonSpec DAEMON_REGISTRY",
    "daemons.runners": "get_runner UnifiedDistributionDaemon UnifiedQueuePopulator UnifiedReplicationDaemon",
    "daemons.runners/consolidation": "DataConsolidationDaemon",
    "daemons.runners/disk": "DiskSpaceManagerDaemon",
    "daemons.runners/orphans": "OrphanDetectionDaemon",
    "daemons.runners/s3": "S3BackupDaemon",
    "daemons.runners/training": "TrainingActivityDaemon",
    "daemons.types": "DaemonInfo DaemonManagerConfig DaemonState DaemonType",
    "daemons.types/enums": "DaemonState DaemonType",
    "events.buses": "DataEventBus EventBus=DataEventBus get_data_event_bus get_event_bus=get_data_event_bus",
    "events.buses/core": "EventBus Event get_event_bus=get_core_event_bus",
    "events.buses/stage": "StageEventBus StageCompletionResult",
    "events.cross_process_queue": "CrossProcessEventQueue publish_event",
    "events.dead_letters": "DeadLetterQueue get_dead_letter_queue run_retry_daemon",
    "events.event_emitters": "emit_*",
    "events.event_router": """EventRouter UnifiedEventRouter UnifiedEventCoordinator get_router get_event_router
        get_event_coordinator publish publish_sync subscribe unsubscribe has_subscribers""",
    "events.event_stats": "CoordinatorStats",
    "events.event_types": "DataEventType",
    "events.handler_base": "HandlerBase HandlerStats EventSubscriptionMixin",
    "events.handler_resilience": "make_handlers_resilient ResilientHandlerConfig CircuitOpen",
    "events.router_event": "EventSource RouterEvent",
    "events.subscription_registry": "DELEGATION_REGISTRY INIT_CALL_REGISTRY",
    "health.circuit_breaker": "CircuitBreaker",
    "health.dynamic_thresholds": "DynamicThreshold ThresholdManager",
    "types": "BackpressureLevel BoardType QueueType TaskType",
    "types/recovery": "RecoveryAction",
    "health.node_health": """HealthCheckOrchestrator get_health_check_orchestrator NodeHealthState
        NodeMonitoringStatus get_node_health get_healthy_nodes""",
    "health.overall": "get_system_health",
    "health.protocols": "HealthCheckResult CoordinatorStatus CoordinatorProtocol DaemonProtocol",
    "health.protocols/helper": "HealthCheckHelper HealthCheckResult CoordinatorStatus",
    "health.queue_monitor": "check_backpressure should_throttle_production",
    "health.safeguards": "Safeguards check_before_spawn",
    "health.system_health": "UnifiedHealthManager",
    "helpers": "*_safe",
    "pipeline.model_lifecycle": "ModelLifecycleCoordinator get_production_model_id AmbiguousVariant",
    "pipeline.orchestrator": "get_pipeline_status wire_pipeline_events",
    "pipeline.pipeline_actions": """trigger_data_sync trigger_evaluation trigger_npz_export trigger_promotion
        trigger_training""",
    "pipeline.unified_signals": "UnifiedSignalComputer TrainingSignals",
    "pipeline.selfplay_orchestrator": "wire_selfplay_events emit_selfplay_completion",
    "singleton_mixin": """SingletonMixin ThreadSafeSingletonMixin LazySingletonMixin PersistentSingletonMixin
        SingletonMeta""",
    "sync.auto_sync": "AutoSyncDaemon SyncStrategy",
    "sync.auto_sync/router": "SyncRouter",
    "sync.bandwidth_manager": """BandwidthManager BandwidthAllocation TransferPriority get_bandwidth_manager
        request_bandwidth release_bandwidth""",
    "sync.cache_coordination": "CacheInvalidation invalidate_model_caches wire_cache_events",
    "sync.cluster_files": "TransportResult=CopyResult PrioritySyncResult=CopyResult",
    "sync.cluster_transport": "ClusterTransport get_cluster_transport",
    "sync.ephemeral_data_guard": "checkpoint_games request_evacuation",
    "sync.sync_bandwidth": "BandwidthCoordinatedRsync BatchRsync SyncResult",
    "sync.bloom_filter": "BloomFilter get_node_filter",
    "sync.sync_facade": "SyncBackend SyncFacade SyncRequest SyncResponse get_sync_facade sync",
    "sync.sync_facade/base": "SyncBackend SyncRequest SyncResponse",
    "sync.sync_planner": """SyncCoordinator SyncPlan SyncPriority SyncRecommendation SyncScheduler=SyncCoordinator
        execute_priority_sync get_sync_recommendations""",
    "sync.sync_mutex": "SyncLock=ProgramLock acquire_sync_lock release_sync_lock sync_lock",
    "sync.transaction_isolation": "MergeTransaction begin_merge_transaction=MergeTransaction merge_transaction",
    "sync.transfer_verification": "TransferVerification compute_file_checksum verify_transfer",
    "tasks.master_loop_guard": "master_loop_guard",
    "tasks.master_loop_guard/enums": "LeadershipRole",
    "tasks.orchestrator_registry": "OrchestratorRole acquire_orchestrator_role release_orchestrator_role",
    "tasks.task_coordinator": "TaskCoordinator can_spawn",
    "tasks.task_decorators": "coordinate_task task_context",
    "tasks.task_lifecycle": "get_task_stats wire_task_events",
    "tasks.training_coordinator": "request_training_slot release_training_slot training_slot",
    "tasks.training_coordinator/async": "async_request_training async_can_train async_release_training",
    "utils": "BoundedHistory CallbackRegistry",
    "utils/yaml": "load_yaml",
    "ringrift.kernel.transfer_settings": "STRATEGIES TRANSFER_CLASSES TRANSPORTS",
    "ringrift.workload.npz": "NpzArray NpzReport validate_npz",
    "ringrift.sync.strategies": "PUSH_SECONDS_MAX",
    "ringrift.bus.spans": "traced span get_trace_id",
}
"""The part of ours that serves the names, and the names; ``documented=ours`` where ours is called otherwise.

Beside the names that the documents print there are the errors and the arguments that one needs to use them.

A name with ``*`` stands for every name of ``__all__`` that fits it; what follows ``/`` only tells two rows apart.
"""

_MODULES = """
    async_training_bridge           tasks.training_coordinator/async
    auto_sync_daemon                sync.auto_sync
    backpressure                    health.queue_monitor types
    base_handler                    events.handler_base
    base_orchestrator               coordinators.coordinator_base
    cache_coordination_orchestrator sync.cache_coordination
    cluster.p2p                     cluster.p2p_backend
    cluster_data_sync               sync.auto_sync
    cluster_transport               sync.cluster_transport sync.cluster_files
    cluster_status_monitor          cluster.cluster_monitor
    contracts                       health.protocols
    coordination_bootstrap          coordinators.bootstrap
    coordinator_base                coordinators.coordinator_base coordinators.sqlite_persistence health.protocols
    coordinator_persistence         coordinators.snapshots
    core_events                     events.event_router events.router_event events.event_types events.event_emitters
    core_utils                      ringrift.bus.spans utils utils/yaml cluster.distributed_lock sync.sync_mutex
    cross_process_events            events.cross_process_queue
    daemon_adapters                 daemons.adapters
    daemon_factory                  daemons.types
    daemon_lifecycle                daemons.types
    daemon_manager                  daemons.manager daemons.types
    daemon_registry                 daemons.registry daemons.types
    daemon_runners                  daemons.runners
    daemon_types                    daemons.types
    data_consolidation_daemon       daemons.runners/consolidation
    disk_space_manager_daemon       daemons.runners/disk
    orphan_detection_daemon         daemons.runners/orphans
    s3_backup_daemon                daemons.runners/s3
    training_activity_daemon        daemons.runners/training
    data_pipeline_orchestrator      pipeline.orchestrator health.circuit_breaker
    dead_letter_queue               events.dead_letters
    enums                           daemons.types/enums tasks.master_loop_guard/enums types events.event_types
    ephemeral_sync                  sync.auto_sync
    event_router                    events.event_router events.router_event events.event_types events.event_stats
                                    events.event_emitters
    event_subscription_mixin        events.handler_base
    event_subscription_registry     events.subscription_registry
    feedback_signals                pipeline.unified_signals
    health_check_helper             health.protocols/helper
    health_check_orchestrator       health.node_health health.protocols/helper
    health_facade                   health.node_health health.system_health health.overall health.protocols/helper
    model_lifecycle_coordinator     pipeline.model_lifecycle
    node_health_monitor             health.node_health
    node_status                     health.node_health
    npz_validation                  ringrift.workload.npz
    protocols                       health.protocols
    queue_monitor                   health.queue_monitor types
    queue_populator                 daemons.runners
    queue_populator_daemon          daemons.runners
    stage_events                    events.buses/stage
    sync_base                       sync.sync_facade/base
    sync_bandwidth                  sync.sync_bandwidth sync.bandwidth_manager
    sync_bloom_filter               sync.bloom_filter
    sync_coordinator                sync.sync_planner sync.cluster_files sync.sync_facade sync.auto_sync
    sync_constants                  ringrift.kernel.transfer_settings ringrift.sync.strategies
    sync_router                     sync.auto_sync/router
    system_health_monitor           health.system_health types/recovery
    task_coordinator                tasks.task_coordinator types
    task_lifecycle_coordinator      tasks.task_lifecycle
    tracing                         ringrift.bus.spans
    unified_distribution_daemon     daemons.runners
    unified_event_coordinator       events.event_router events.router_event events.event_stats events.event_emitters
    unified_feedback                pipeline.unified_signals
    unified_health_manager          health.system_health types/recovery
    unified_queue_populator         daemons.runners
    unified_replication_daemon      daemons.runners
    app.core.event_bus              events.buses/core
    app.distributed.cross_process_events    events.cross_process_queue
    app.distributed.data_events     events.event_types events.buses events.event_emitters
    app.distributed.stage_events    events.buses/stage
    app.training.unified_signals    pipeline.unified_signals"""
"""A documented module, below app.coordination where it has no dots, and the rows of names that it serves."""

_SAME_NAME = """
    cluster.distributed_lock cluster.p2p_backend cluster.work_queue
    coordinators.coordinator_config daemons.base_daemon events.event_emitters events.handler_base
    events.handler_resilience health.dynamic_thresholds health.safeguards helpers pipeline.pipeline_actions
    pipeline.selfplay_orchestrator singleton_mixin sync.bandwidth_manager
    sync.ephemeral_data_guard sync.sync_facade sync.sync_mutex
    sync.transaction_isolation sync.transfer_verification tasks.master_loop_guard tasks.orchestrator_registry
    tasks.task_decorators tasks.training_coordinator types utils
"""
"""Rows that a documented module of the same name serves, and no others."""

_DONE_BY = """
    alert_types: ringrift.events.alert has the events that open and clear alerts
    async_bridge_manager: every call may be made from any thread or loop; the embedded node runs it on its own
    auto_export_daemon: the daemon "pipeline" exports when a line has policy.games_per_export new games
    auto_promotion_daemon: the daemon "pipeline" promotes the candidates that pass the gate
    cluster_monitor_daemon robust_cluster_monitor unified_cluster_monitor: the daemons "beat" and "watch" do it
    coordinator_dependencies: COORDINATOR_REGISTRY of coordination_bootstrap has the layers and needs
    daemon_factory_implementations: ringrift.daemons has a spec for every daemon
    daemon_metrics: "ringrift daemons" shows restarts, errors and health of every daemon
    daemon_stats: DaemonManager.get_status() has the counts of every daemon
    data_cleanup_daemon: the daemon "sweep" deletes what nothing needs; what is damaged is set aside and copied again
    database_sync_manager: one store has ratings and the register of models, so that there is nothing to sync
    delivery_ledger: ringrift.sync.receipts has every verified copy; failed deliveries of events are dead letters
    delivery_retry_queue: ringrift.sync.failed_copies tries a copy that failed again after 30, 60, 120 and 240 s
    evaluation_daemon: the daemon "pipeline" evaluates every candidate
    event_mappings: every name of an event, in any spelling, is the same event for publish() and subscribe()
    event_normalization: publish() and subscribe() accept every spelling of the name of an event
    facade: the package app.coordination has the names of all modules
    feedback_loop_controller: the daemon "pipeline" turns results into signals for later jobs
    gauntlet_feedback_controller: the daemon "pipeline" reacts to evaluations
    integration_bridge: all buses are views of one log, so there is nothing to connect
    leadership_coordinator: the daemon "elect" competes for the roles of a cluster and renews them
    maintenance_daemon: the daemon "sweep" deletes what is too old and keeps the store small
    model_distribution_daemon npz_distribution_daemon: the daemon "replicate" copies files to other nodes
    model_performance_watchdog: the daemon "pipeline" keeps win rates and reviews a champion that does worse
    node_availability_cache: the daemon "watch" keeps what it last saw of every node; ringrift.cluster.liveness reads it
    node_circuit_breaker: ringrift.work.breakers has one for every node, "ringrift status" shows it, safeguards obeys it
    p2p_integration: a node of any machine has its record in the roster, one queue of jobs and one log of events
    pipeline_triggers: ringrift.pipeline decides when each stage of a line starts; see "ringrift why"
    stall_detection: ringrift.kernel.stall_detector finds what stood still; the daemon "rescue" ends it
    sync_stall_handler: ringrift.sync.stall ends a transfer without bytes, and another holder or transport goes on
    sync_durability: a file counts as copied when its bytes are on the disk and their hash is right
    tournament_daemon: the daemon "ladder" requests matches that make the ratings of a line more certain
    training_trigger_daemon: the daemon "pipeline" starts training when the samples of a line are exported
    unified_inventory: ringrift.sync.ledger has every file and the nodes that hold it
    unified_registry: COORDINATOR_REGISTRY of coordination_bootstrap has every coordinator by its name
    app.core.ssh: ringrift.sync.transports.ssh moves files over ssh, with pinned host keys
    app.distributed.p2p_sync: workers with --serve send files to each other; ringrift.sync.transports.http
    app.distributed.unified_data_sync: the daemon "replicate" plans copies for nodes that train, play or hold too few
    app.core.node: ringrift.cluster.roster has the record of every node, with its facts and what it does
    work_queue_monitor_daemon: the daemon "measure_queues" measures the queues
"""
"""Documented modules without names: what does their job."""

_NOT_YET = """
    adaptive_resource_manager auto_scaler cluster_watchdog_daemon curriculum_integration curriculum_weights
    duration_scheduler host_health_policy idle_resource_daemon job_scheduler
    load_forecaster metrics_analysis_orchestrator multi_provider_orchestrator node_policies node_recovery_daemon
    optimization_coordinator p2p_auto_deployer quality_monitor_daemon recovery_orchestrator
    resource_monitoring_coordinator resource_optimizer resource_targets selfplay_scheduler slurm_backend
    stability_heuristic training_freshness unified_idle_shutdown_daemon
    unified_resource_coordinator utilization_optimizer
"""

_REPLACED = """
    cluster.p2p p2p_backend
    cluster_monitor_daemon unified_cluster_monitor
    robust_cluster_monitor unified_cluster_monitor
    model_distribution_daemon unified_distribution_daemon
    npz_distribution_daemon unified_distribution_daemon
    queue_populator unified_queue_populator
    queue_populator_daemon unified_queue_populator
    base_handler handler_base
    node_health_monitor health_check_orchestrator
    system_health_monitor unified_health_manager
    unified_event_coordinator event_router
    sync_coordinator auto_sync_daemon
    ephemeral_sync auto_sync_daemon
    cluster_data_sync auto_sync_daemon
"""


def _path(module: str) -> str:
    return module if module.startswith("app.") else f"{_ROOT}.{module}"


def _targets(row: str) -> dict[str, str]:
    """The names of *row* and where each is, as ``module:name``; a family has no name of its own."""
    home = row.partition("/")[0]
    home = home if home.startswith("ringrift.") else _HOME + home
    pairs = (name.partition("=")[::2] for name in _NAMES[row].split())
    return {name: home if "*" in name else f"{home}:{ours or name}" for name, ours in pairs}


def _served() -> Iterator[tuple[str, dict[str, str]]]:
    rows: dict[str, list[str]] = {}
    for line in _MODULES.splitlines():
        indent = len(line) - len(line.lstrip())
        words = line.split()
        if indent == 4:
            rows[_path(words[0])] = words[1:]
        elif words:
            rows[next(reversed(rows))] += words
    rows |= {_path(row.rpartition(".")[2]): [row] for row in _SAME_NAME.split()}
    for module, homes in rows.items():
        yield module, {name: target for row in homes for name, target in _targets(row).items()}


ALIASES: dict[str, dict[str, str]] = dict(_served())
DONE_BY = {
    _path(module): text.strip()
    for modules, _, text in (line.partition(":") for line in _DONE_BY.splitlines())
    for module in modules.split()
}
NOT_YET = frozenset(map(_path, _NOT_YET.split()))
REPLACED = {_path(old): _path(new) for old, new in (line.split() for line in _REPLACED.splitlines() if line.strip())}
"""Paths that the documents call deprecated, archived or removed: importing one warns with its replacement."""

# What several modules call the same is that of the first in the package itself, which has the names of all of them.
ALIASES[_ROOT] = {
    name: target for row in _NAMES if row != "events.buses/core" for name, target in reversed(_targets(row).items())
}
ALIASES |= {module: {} for module in DONE_BY}
