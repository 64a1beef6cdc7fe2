"""Not yet: what the documents name and show and we do not serve yet; a row that has come true fails its test."""

MODULES = """
    adaptive_resource_manager auto_scaler auto_sync_daemon bandwidth_manager cache_coordination_orchestrator
    cluster_data_sync cluster_transport cluster_watchdog_daemon curriculum_integration curriculum_weights
    data_cleanup_daemon data_consolidation_daemon database_sync_manager disk_space_manager_daemon
    duration_scheduler ephemeral_data_guard ephemeral_sync host_health_policy idle_resource_daemon job_scheduler
    load_forecaster metrics_analysis_orchestrator multi_provider_orchestrator node_policies node_recovery_daemon
    optimization_coordinator orphan_detection_daemon p2p_auto_deployer quality_monitor_daemon
    recovery_orchestrator resource_monitoring_coordinator resource_optimizer resource_targets s3_backup_daemon
    selfplay_scheduler slurm_backend stability_heuristic sync_bandwidth sync_base sync_bloom_filter
    sync_constants sync_coordinator sync_facade sync_mutex sync_router sync_stall_handler
    training_activity_daemon training_freshness transaction_isolation transfer_verification
    unified_idle_shutdown_daemon unified_resource_coordinator utilization_optimizer app.distributed.p2p_sync
    app.distributed.unified_data_sync
"""
"""Modules, those of ``app.coordination`` without it.  No name of theirs is served either."""

NAMES: dict[str, str] = {
    "app.coordination": """
        SyncPriority execute_priority_sync get_sync_recommendations
    """,
}
"""Names that are missing in modules which are there."""

BLOCKS = """
    000.9 001.6 001.7 002.17 002.18 002.19
    002.20 002.21 002.23 002.33 002.34 003.1 004.1 004.3 004.6
"""
"""Blocks, by document and place."""
