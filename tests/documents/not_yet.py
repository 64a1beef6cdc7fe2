"""Not yet: what the documents name and show and we do not serve yet; a row that has come true fails its test."""

MODULES = """
    adaptive_resource_manager auto_scaler cluster_watchdog_daemon curriculum_integration curriculum_weights
    duration_scheduler host_health_policy idle_resource_daemon job_scheduler
    load_forecaster metrics_analysis_orchestrator multi_provider_orchestrator node_policies node_recovery_daemon
    optimization_coordinator p2p_auto_deployer quality_monitor_daemon recovery_orchestrator
    resource_monitoring_coordinator resource_optimizer resource_targets selfplay_scheduler slurm_backend
    stability_heuristic training_freshness unified_idle_shutdown_daemon
    unified_resource_coordinator utilization_optimizer
"""
"""Modules, those of ``app.coordination`` without it.  No name of theirs is served either."""

NAMES: dict[str, str] = {}
"""Names that are missing in modules which are there."""

BLOCKS = """001.7"""
"""Blocks, by document and place."""
