"""Daemon duties: the one table of documented daemons: what each is about, and who does its duty here.

A duty is done by a daemon of ours, by a part that every node has, or by nobody yet.  Only what is really done today
names a daemon; the rest says which work brings it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ringrift.daemons import DAEMONS

NOT_YET = "not yet: "
PART = "part: "
# Old name, then the daemon of ours, ``part: …`` or ``not yet: …``.  Groups are the categories of the documents.
_ROWS = {
    "core": """
        EVENT_ROUTER                    part: the router of every node
        DAEMON_WATCHDOG                 part: the supervisor of every node
        CROSS_PROCESS_POLLER            part: the router of every node, which reads the one log of all processes
        COORDINATOR_HEALTH_MONITOR      part: the supervisor of every node
        CONFIG_VALIDATOR                part: settings, which are checked when a node opens
        DLQ_RETRY                       redeliver
        CONFIG_SYNC                     not yet: settings that nodes share over the network
        P2P_BACKEND                     not yet: nodes over a network
        P2P_AUTO_DEPLOY                 not yet: providers
        P2P_RECOVERY                    not yet: nodes over a network
        VOTER_HEALTH_MONITOR            not yet: nodes over a network
        TAILSCALE_HEALTH                not yet: nodes over a network
        CONNECTIVITY_RECOVERY           not yet: nodes over a network
        SOCKET_LEAK_RECOVERY            not yet: nodes over a network
        DATA_SERVER                     not yet: files over a network
    """,
    "sync": """
        AUTO_SYNC                       replicate
        SYNC_COORDINATOR                replicate
        CLUSTER_DATA_SYNC               replicate
        EPHEMERAL_SYNC                  replicate
        MODEL_SYNC                      replicate
        REPLICATION_MONITOR             replicate
        REPLICATION_REPAIR              replicate
        NPZ_DISTRIBUTION                replicate
        MODEL_DISTRIBUTION              pipeline
        ELO_SYNC                        rate
        TRAINING_DATA_SYNC              work
        HIGH_QUALITY_SYNC               not yet: the quality of data
        GOSSIP_SYNC                     not yet: files over a network
        SYNC_PUSH                       not yet: files over a network
        UNIFIED_DATA_PLANE              not yet: files over a network
        UNIFIED_DATA_SYNC_ORCHESTRATOR  not yet: files over a network
        UNIFIED_DATA_CATALOG            not yet: files over a network
        NODE_DATA_AGENT                 not yet: files over a network
        TRAINING_NODE_WATCHER           not yet: files over a network
        STALE_FALLBACK                  not yet: freshness of training data
        EXTERNAL_DRIVE_SYNC             not yet: external drives
        OWC_SYNC_MANAGER                not yet: external drives
        OWC_IMPORT                      not yet: external drives
        OWC_MODEL_IMPORT                not yet: external drives
        OWC_PUSH                        not yet: external drives
        DUAL_BACKUP                     not yet: backups
        UNIFIED_BACKUP                  not yet: backups
        S3_BACKUP                       not yet: backups to S3
        S3_SYNC                         not yet: backups to S3
        S3_NODE_SYNC                    not yet: backups to S3
        S3_CONSOLIDATION                not yet: backups to S3
        S3_PUSH                         not yet: backups to S3
        S3_IMPORT                       not yet: backups to S3
        PRODUCTION_GAME_IMPORT          not yet: games from elsewhere
        CLUSTER_CONSOLIDATION           not yet: consolidation of games
    """,
    "training": """
        DATA_PIPELINE                   pipeline
        AUTO_EXPORT                     pipeline
        TRAINING_TRIGGER                pipeline
        CONTINUOUS_TRAINING_LOOP        pipeline
        SELFPLAY_COORDINATOR            fill
        QUEUE_POPULATOR                 fill
        FEEDBACK_LOOP                   feedback
        GAUNTLET_FEEDBACK               feedback
        METRICS_ANALYSIS                feedback
        ELO_PROGRESS                    feedback
        PROGRESS_WATCHDOG               feedback
        TRAINING_WATCHDOG               watch
        EXPORT_WATCHDOG                 watch
        PIPELINE_COMPLETENESS_MONITOR   watch
        CURRICULUM_INTEGRATION          not yet: the curriculum
        ARCHITECTURE_FEEDBACK           not yet: tuning
        DISTILLATION                    not yet: distillation
        NNUE_TRAINING                   not yet: other kinds of model
        CASCADE_TRAINING                not yet: the curriculum
        REANALYSIS                      not yet: reanalysis of old games
        PER_ORCHESTRATOR                not yet: weighted training samples
        ONLINE_MERGE                    not yet: online learning
        TRAINING_DATA_RECOVERY          not yet: the quality of data
        PARITY_VALIDATION               not yet: the quality of data
        DATA_CONSOLIDATION              not yet: consolidation of games
        NPZ_COMBINATION                 not yet: consolidation of games
        COMPREHENSIVE_CONSOLIDATION     not yet: consolidation of games
    """,
    "evaluation": """
        EVALUATION                      pipeline
        AUTO_PROMOTION                  pipeline
        UNIFIED_PROMOTION               pipeline
        MODEL_PERFORMANCE_WATCHDOG      pipeline
        TOURNAMENT_DAEMON               ladder
        UNEVALUATED_MODEL_SCANNER       not yet: models from elsewhere
        COMPREHENSIVE_MODEL_SCAN        not yet: models from elsewhere
        STALE_EVALUATION                not yet: models from elsewhere
        BACKLOG_EVALUATION              not yet: models from elsewhere
    """,
    "health": """
        NODE_HEALTH_MONITOR             watch
        CLUSTER_MONITOR                 watch
        HEALTH_CHECK                    watch
        AVAILABILITY_NODE_MONITOR       watch
        QUALITY_MONITOR                 not yet: the quality of data
        DATA_CLEANUP                    not yet: the quality of data
        CLUSTER_WATCHDOG                not yet: placement on idle machines
        CLUSTER_UTILIZATION_WATCHDOG    not yet: placement on idle machines
        HEALTH_SERVER                   not yet: the web page
        SYSTEM_HEALTH_MONITOR           not yet: the web page
        MEMORY_MONITOR                  not yet: limits of machines
        FAST_FAILURE_DETECTOR           not yet: recovery of nodes
        RECOVERY_ORCHESTRATOR           not yet: recovery of nodes
        AVAILABILITY_RECOVERY_ENGINE    not yet: recovery of nodes
        CACHE_COORDINATION              not yet: caches of models
    """,
    "resources": """
        WORK_QUEUE_MONITOR              gauge
        QUEUE_MONITOR                   gauge
        JOB_SCHEDULER                   work
        MAINTENANCE                     sweep
        INTEGRITY_CHECK                 sweep
        ORPHAN_DETECTION                not yet: adoption of orphaned games
        IDLE_RESOURCE                   not yet: placement on idle machines
        UTILIZATION_OPTIMIZER           not yet: placement on idle machines
        UNDERUTILIZATION_RECOVERY       not yet: placement on idle machines
        RESOURCE_OPTIMIZER              not yet: placement on idle machines
        ADAPTIVE_RESOURCES              not yet: placement on idle machines
        DISK_SPACE_MANAGER              not yet: room on disks
        COORDINATOR_DISK_MANAGER        not yet: room on disks
        NODE_RECOVERY                   not yet: providers
        MULTI_PROVIDER                  not yet: providers
        LAMBDA_IDLE                     not yet: providers
        VAST_IDLE                       not yet: providers
        VAST_CPU_PIPELINE               not yet: providers
        NODE_AVAILABILITY               not yet: providers
        AVAILABILITY_PROVISIONER        not yet: providers
        AVAILABILITY_CAPACITY_PLANNER   not yet: providers
    """,
}  # fmt: skip


@dataclass(frozen=True)
class Duty:
    """Who does what a documented name stands for."""

    name: str
    category: str
    kind: str
    """``daemon``, ``part`` or ``later``."""
    target: str
    """The name of our daemon; or in words, which part it is or what brings it."""


def _read(category: str, line: str) -> Duty:
    name, text = line.split(maxsplit=1)
    for mark, kind in ((PART, "part"), (NOT_YET, "later")):
        if text.startswith(mark):
            return Duty(name, category, kind, text if kind == "later" else text.removeprefix(mark))
    return Duty(name, category, "daemon", text)


DUTIES: Mapping[str, Duty] = {
    duty.name: duty
    for category, rows in _ROWS.items()
    for duty in (_read(category, line) for line in rows.strip().splitlines())
} | {spec.name.upper(): Duty(spec.name.upper(), spec.category, "daemon", spec.name) for spec in DAEMONS}
"""By documented name; our own daemons are in it under their names too."""

OF_THE_BUS = frozenset({"EVENT_ROUTER", "CROSS_PROCESS_POLLER", "CONFIG_VALIDATOR"})
"""Parts that a program has before it becomes a whole node."""
LOOPS = ("ELO_SYNC", "IDLE_RESOURCE", "MULTI_PROVIDER", "RESCUE", "QUEUE_POPULATOR", "UNEVALUATED_MODEL_SCANNER")
"""The duties of the six loops: Elo sync, idle detection, auto-scaling, job reaper, queue populator, validation."""
LOOPS_OFF = "its loop is switched off: RINGRIFT_EXTRACTED_LOOPS is false"


def does_loop(duty: Duty) -> bool:
    """Whether *duty* is that of one of the six loops, under whatever name."""
    loops = [DUTIES[name] for name in LOOPS]
    return duty in loops or (duty.kind == "daemon" and duty.target in [one.target for one in loops])


def listed() -> list[tuple[str, str, str]]:
    """Every documented name with the kind of its duty and who does it, for pages."""
    return [(duty.name, duty.kind, duty.target) for duty in DUTIES.values()]
