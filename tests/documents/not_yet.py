"""Not yet: what the documents name and show and we do not serve yet; a row that has come true fails its test."""

MODULES = """
    adaptive_resource_manager alert_types async_bridge_manager async_training_bridge auto_export_daemon
    auto_promotion_daemon auto_scaler auto_sync_daemon backpressure bandwidth_manager base_daemon
    base_orchestrator cache_coordination_orchestrator cluster.p2p cluster_data_sync cluster_monitor_daemon
    cluster_status_monitor cluster_transport cluster_watchdog_daemon coordinator_base coordinator_config
    coordinator_dependencies coordinator_persistence core_utils curriculum_integration curriculum_weights
    daemon_adapters daemon_factory daemon_factory_implementations daemon_lifecycle daemon_manager daemon_metrics
    daemon_registry daemon_runners daemon_stats daemon_types data_cleanup_daemon data_consolidation_daemon
    data_pipeline_orchestrator database_sync_manager delivery_ledger delivery_retry_queue
    disk_space_manager_daemon distributed_lock duration_scheduler dynamic_thresholds enums ephemeral_data_guard
    ephemeral_sync evaluation_daemon facade feedback_loop_controller feedback_signals gauntlet_feedback_controller
    health_check_helper health_check_orchestrator health_facade helpers host_health_policy idle_resource_daemon
    integration_bridge job_scheduler leadership_coordinator load_forecaster maintenance_daemon master_loop_guard
    metrics_analysis_orchestrator model_distribution_daemon model_lifecycle_coordinator model_performance_watchdog
    multi_provider_orchestrator node_availability_cache node_circuit_breaker node_health_monitor node_policies
    node_recovery_daemon node_status npz_distribution_daemon npz_validation optimization_coordinator
    orchestrator_registry orphan_detection_daemon p2p_auto_deployer p2p_backend p2p_integration pipeline_actions
    pipeline_triggers quality_monitor_daemon queue_monitor queue_populator recovery_orchestrator
    resource_monitoring_coordinator resource_optimizer resource_targets robust_cluster_monitor s3_backup_daemon
    safeguards selfplay_orchestrator selfplay_scheduler singleton_mixin slurm_backend stability_heuristic
    stall_detection sync_bandwidth sync_base sync_bloom_filter sync_constants sync_coordinator sync_durability
    sync_facade sync_mutex sync_router sync_stall_handler system_health_monitor task_coordinator task_decorators
    task_lifecycle_coordinator tournament_daemon training_activity_daemon training_coordinator training_freshness
    training_trigger_daemon transaction_isolation transfer_verification unified_distribution_daemon
    unified_feedback unified_health_manager unified_idle_shutdown_daemon unified_inventory unified_queue_populator
    unified_registry unified_replication_daemon unified_resource_coordinator utilization_optimizer work_queue
    work_queue_monitor_daemon app.distributed.p2p_sync app.distributed.unified_data_sync
    app.training.unified_signals
"""
"""Modules, those of ``app.coordination`` without it.  No name of theirs is served either."""

NAMES: dict[str, str] = {
    "app.coordination": """
        SyncPriority TaskCoordinator can_spawn check_backpressure execute_priority_sync get_sync_recommendations
    """,
}
"""Names that are missing in modules which are there."""

BLOCKS = """
    000.5 000.8 000.9 001.4 001.5 001.6 001.7 002.1 002.2 002.3 002.4 002.5 002.6 002.7 002.8 002.17 002.18 002.19
    002.20 002.21 002.23 002.30 002.31 002.33 002.34 003.1 004.1 004.3 004.4 004.6 004.7
"""
"""Blocks, by document and place."""
