"""Settings: one tree of Values; every part receives its own branch, never the tree.

The range of a setting stands beside its field; a branch checks its ranges when it is built, and refuses a value outside
with the key, the value and the range.  ``local()``, ``lan()`` and ``cloud()`` are presets built one from another.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from ringrift.kernel.backoff import Backoff
from ringrift.kernel.errors import InvalidId, SettingsError, require_range
from ringrift.kernel.ids import check_id
from ringrift.kernel.overlay import leaves, overlay
from ringrift.kernel.ranges import Branch, Range
from ringrift.kernel.transfer_settings import (
    BackupSettings,
    BandwidthSettings,
    LinkSettings,
    Replicas,
    UpkeepSettings,
)
from ringrift.kernel.value import Value

LEAD_MAX = 9  #: Less than the distance between the priorities of two stages of a line.
ALWAYS_ENABLED = "rescue"  #: The daemon that expires leases.
PROFILES = ("coordinator", "training_node", "ephemeral", "selfplay", "minimal", "full")
REQUIRED_GB = ("memory_gb", "gpu_memory_gb", "disk_gb")  #: What a job may ask for as an amount.
Requirement = Mapping[str, str | float]  #: What jobs of a kind ask for: a device, amounts, and labels by other names.


class NodeSettings(Branch):
    """The identity of this process."""

    id: str = "local"
    profile: str = "full"
    ephemeral: bool = False
    disabled_daemons: tuple[str, ...] = ()
    coordinators: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    island: bool = False
    serve: str = ""
    notice_file: str = ""

    def __post_init__(self) -> None:
        try:
            check_id("node.id", self.id)
        except InvalidId as error:
            raise SettingsError("node.id", self.id, error.rule) from error
        if self.profile not in PROFILES:
            raise SettingsError("node.profile", self.profile, f"must be one of {', '.join(PROFILES)}")
        if ALWAYS_ENABLED in self.disabled_daemons:
            reason = f"{ALWAYS_ENABLED} must run: without it, jobs of dead nodes are never taken over"
            raise SettingsError("node.disabled_daemons", self.disabled_daemons, reason)
        for address in self.coordinators:
            if not address.startswith(("http://", "https://")):
                raise SettingsError("node.coordinators", address, "must begin with http:// or https://")


class StoreSettings(Branch):
    """Where events, jobs and records are stored."""

    branch = "store"
    path: str = "data/coordination/coordinator.db"
    tx_seconds_max: Annotated[float, Range(0.05, 60)] = 1.0
    busy_seconds_max: Annotated[float, Range(0.05, 600)] = 10.0
    view_seconds_max: Annotated[float, Range(0.05, 3600)] = 30.0
    waiting_max: Annotated[int, Range(1, 1_000_000)] = 10_000
    log_events_max: Annotated[int, Range(100, 1e9)] = 200_000
    detail_events_max: Annotated[int, Range(100, 1e9)] = 20_000
    jobs_max: Annotated[int, Range(1, 1e9)] = 10_000


class BlobSettings(Branch):
    """Where files are stored."""

    folder: str = "data/blobs"

    def address(self) -> str:
        """The folder for other processes: to those that were started elsewhere a relative path means another one."""
        return str(Path(self.folder).absolute())


class BusSettings(Branch):
    """How events reach their readers."""

    branch = "bus"
    batch: Annotated[int, Range(1, 10_000)] = 256
    poll_seconds: Annotated[float, Range(0.01, 60)] = 1.0
    redeliver_seconds: Annotated[float, Range(0.05, 3600)] = 10.0
    redelivery: Backoff = Backoff(first_seconds=60.0, seconds_max=3600.0, tries=5)
    lapse_seconds: Annotated[float, Range(60, 3650 * 86_400)] = 7 * 86_400.0
    lapse_watch_seconds: Annotated[float, Range(1, 30 * 86_400)] = 3600.0
    handler_seconds_max: Annotated[float, Range(0.05, 86_400)] = 600.0
    queue_max: Annotated[int, Range(1, 1e7)] = 10_000
    threads_max: Annotated[int, Range(1, 1024)] = 8


class ClusterSettings(Branch):
    """Heartbeats, elections and the watch over nodes, lines and readers; what a worker may store."""

    branch = "cluster"
    grace_seconds: Annotated[float, Range(0, 86_400)] = 120.0
    swim: bool = False
    spool_bytes_max: Annotated[int, Range(1024, 1e15)] = 4 * 1024**3
    cache_bytes_max: Annotated[int, Range(1024, 1e15)] = 16 * 1024**3
    beat_seconds: Annotated[float, Range(0.05, 600)] = 5.0
    elect_seconds: Annotated[float, Range(0.05, 200)] = 3.0
    role_seconds: Annotated[float, Range(0.15, 600)] = 15.0
    watch_seconds: Annotated[float, Range(0.05, 3600)] = 5.0
    locks: str = "store"
    heal: str = "act"
    heal_seconds: Annotated[float, Range(0.05, 3600)] = 10.0
    heal_rest_seconds: Annotated[float, Range(0.05, 86_400)] = 300.0
    heal_pause_seconds: Annotated[float, Range(0.05, 86_400)] = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heal not in ("act", "advise", "off"):
            raise SettingsError("cluster.heal", self.heal, "must be act, advise or off")
        if self.locks not in ("store", "file") and not self.locks.startswith(("redis://", "rediss://", "unix://")):
            limit = 'must be "store", "file" or the URL of a Redis, such as redis://host:6379/0'
            raise SettingsError("cluster.locks", self.locks, limit)
        # A holder relies on its role for two thirds of this time, so it must renew well within that.
        require_range("cluster.role_seconds", self.role_seconds, 3 * self.elect_seconds, 600)


class WireSettings(Branch):
    """The one port over which workers and programs of other machines reach a coordinator, and its limits."""

    branch = "wire"
    serve: bool = False
    bind: str = "127.0.0.1"
    port: Annotated[int, Range(0, 65_535)] = 8770
    cert: str = ""
    key: str = ""
    ca: str = ""
    names: tuple[str, ...] = ()
    insecure: bool = False
    connections_max: Annotated[int, Range(1, 1_000_000)] = 10_000
    header_seconds_max: Annotated[float, Range(0.1, 600)] = 10.0
    waiting_max: Annotated[int, Range(1, 1_000_000)] = 4096


class BreakerSettings(Branch):
    """After how many failures in a row no more jobs are given out, and for how long.

    The tries of one job count once, unless its worker does not even start.  The breaker of a stage or a workload needs
    failures of two nodes, or of the only one.
    """

    branch = "work.breakers"
    node_failures_max: Annotated[int, Range(1, 64)] = 8
    stage_failures_max: Annotated[int, Range(1, 64)] = 10
    workload_failures_max: Annotated[int, Range(1, 64)] = 10
    reset_seconds: Annotated[float, Range(0.05, 30 * 86_400)] = 60.0


class WorkSettings(Branch):
    """How jobs are run."""

    branch = "work"
    slots: Annotated[int, Range(1, 1024)] = 2
    lease_seconds: Annotated[float, Range(0.2, 3600)] = 30.0
    lease_seconds_max: Annotated[float, Range(0.2, 3600)] = 600.0
    rescue_seconds: Annotated[float, Range(0.05, 600)] = 2.0
    measure_queues_seconds: Annotated[float, Range(0.05, 600)] = 10.0
    drain_window_seconds: Annotated[float, Range(1, 86_400)] = 600.0
    drain_patience: Annotated[float, Range(1e-4, 1e4)] = 1.0
    deadline_seconds: Annotated[float, Range(0.5, 7 * 86_400)] = 3600.0
    grace_seconds: Annotated[float, Range(0, 3600)] = 60.0
    jobs_per_child: Annotated[int, Range(1, 1e9)] = 500
    child_growth_bytes_max: Annotated[int, Range(1, 1e15)] = 512 * 1024 * 1024
    retry: Backoff = Backoff(first_seconds=1.0, seconds_max=60.0, tries=4)
    breakers: BreakerSettings = BreakerSettings()
    workload: str = "fake"
    params: dict[str, str | int | float | bool] = {}
    executables: dict[str, list[str]] = {}
    requires: dict[str, dict[str, str | float]] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        for kind, required in self.requires.items():
            for name, value in required.items():
                key = f"work.requires.{kind}.{name}"
                if name in REQUIRED_GB and not (isinstance(value, int | float) and 0 <= value < 1e6):
                    raise SettingsError(key, value, "must be a number of gigabytes")
                if name not in REQUIRED_GB and not (isinstance(value, str) and value):
                    raise SettingsError(key, value, "must be text")
        for name, value in self.params.items():
            if isinstance(value, int | float) and not -(2**63) <= value < 2**63:  # no store could hold it; also NaN
                raise SettingsError(f"work.params.{name}", value, "must be a finite number of at most 63 bits")


class Gate(Branch):
    """Bounds of the sequential test that promotes: H0 = *elo_0*, H1 = *elo_1*, in Elo of the candidate."""

    branch = "policy.gate"
    elo_0: Annotated[float, Range(-1000, 1000)] = 0.0
    elo_1: Annotated[float, Range(-1000, 1000)] = 35.0
    alpha: Annotated[float, Range(1e-6, 0.5)] = 0.05
    beta: Annotated[float, Range(1e-6, 0.5)] = 0.05
    blocks_min: Annotated[int, Range(2, 10_000)] = 16
    blocks_max: Annotated[int, Range(2, 100_000)] = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("policy.gate.blocks_max", self.blocks_max, self.blocks_min, 100_000)
        if self.elo_1 <= self.elo_0:
            raise SettingsError("policy.gate.elo_1", self.elo_1, f"must be above elo_0 = {self.elo_0:g}")

    @classmethod
    def non_regression(cls) -> "Gate":
        """Is it no weaker?  5 % of those 20 Elo weaker pass, 95 % of equal ones."""
        return cls(elo_0=-20.0, elo_1=0.0, blocks_max=3200)

    @classmethod
    def anti_disaster(cls) -> "Gate":
        """Is it not broken?  Cheap and run often: 1 % of sound models fail it, 5 % of those 50 Elo weaker pass."""
        return cls(elo_0=-50.0, elo_1=0.0, beta=0.01, blocks_max=800)


class Budget(Branch):
    """How many of a run's promotions may be false: the error budget over all its candidate tests."""

    branch = "policy.budget"
    share: Annotated[float, Range(1e-4, 0.5)] = 0.10
    start: Annotated[float, Range(0.01, 1)] = 0.5


_StageSeconds = Annotated[float, Range(1, 365 * 86_400)]


class StageLimits(Branch):
    """How long a line may stay in a stage before it is overdue.  A resting line may rest for ever."""

    branch = "policy.stages"
    starting_seconds_max: _StageSeconds = 24 * 3600.0
    collecting_seconds_max: _StageSeconds = 6 * 3600.0
    exporting_seconds_max: _StageSeconds = 3600.0
    training_seconds_max: _StageSeconds = 24 * 3600.0
    verifying_seconds_max: _StageSeconds = 3600.0
    evaluating_seconds_max: _StageSeconds = 48 * 3600.0
    distributing_seconds_max: _StageSeconds = 3600.0


class Policy(Branch):
    """How the loop treats each variant."""

    branch = "policy"
    variants: tuple[str, ...] = ("square8_2p", "hex8_2p", "hex8_3p")
    auto: bool = True
    games_per_batch: Annotated[int, Range(1, 1e6)] = 100
    batch_seconds: Annotated[float, Range(0, 86_400)] = 0.0
    games_per_export: Annotated[int, Range(1, 1e9)] = 400
    window_batches_max: Annotated[int, Range(1, 256)] = 64
    play_jobs_open: Annotated[int, Range(1, 10_000)] = 4
    blocks_per_job: Annotated[int, Range(1, 256)] = 8
    match_jobs_open: Annotated[int, Range(1, 1000)] = 4
    gate: Gate = Gate()
    budget: Budget = Budget()
    review: Gate = Gate.anti_disaster()  # The test of the champion against an earlier champion.
    review_promotions: Annotated[int, Range(0, 8)] = 4  # of so many a line keeps the weights
    iterations_max: Annotated[int, Range(1, 1e9)] | None = None
    stages: StageLimits = StageLimits()
    model_away_seconds_max: Annotated[float, Range(1, 365 * 86_400)] = 6 * 3600.0
    games_away_seconds_max: Annotated[float, Range(1, 365 * 86_400)] = 3600.0
    plateau_rejections: Annotated[int, Range(2, 10_000)] = 8
    rate_seconds: Annotated[float, Range(0.05, 86_400)] = 5.0
    ladder_seconds: Annotated[float, Range(0, 365 * 86_400)] = 3600.0
    ladder_blocks: Annotated[int, Range(1, 10_000)] = 64
    lead: Annotated[int, Range(0, LEAD_MAX)] = 0
    seed: Annotated[int, Range(0, 2**63 - 1)] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.variants)) != len(self.variants):
            raise SettingsError("policy.variants", self.variants, "names a variant twice")


class ImportSettings(Branch):
    """The folder in which a node looks for models from elsewhere, and when games from elsewhere count."""

    branch = "imports"
    folder: str = ""
    every_seconds: Annotated[float, Range(0.05, 86_400)] = 10.0
    allow_pending: bool = False


class SweepSettings(Branch):
    """How often old data is removed, how old it must be, and how much log text is stored."""

    branch = "sweep"
    every_seconds: Annotated[float, Range(1, 7 * 86_400)] = 3600.0
    retention_seconds: Annotated[float, Range(1, 1e10)] = 14 * 86_400.0
    grace_seconds: Annotated[float, Range(1, 1e10)] = 7 * 86_400.0
    newest_min: Annotated[int, Range(0, 100_000)] = 100
    log_bytes_max: Annotated[int, Range(1024, 1e10)] = 8 * 1024 * 1024
    log_files_max: Annotated[int, Range(1, 100)] = 4


class LogSettings(Branch):
    """Where logs and the output of jobs are written, and how much of the latter is kept."""

    branch = "logs"
    folder: str = "data/logs"
    job_bytes_max: Annotated[int, Range(1024, 1e10)] = 1024 * 1024
    jobs_bytes_max: Annotated[int, Range(65_536, 1e13)] = 256 * 1024 * 1024


class TraceSettings(Branch):
    """Where spans go: how long deliveries, jobs and user code took, and in which trace."""

    branch = "trace"
    endpoint: str = ""
    debug: bool = False
    queue_max: Annotated[int, Range(1, 1e7)] = 20_000
    batch_max: Annotated[int, Range(1, 100_000)] = 512
    flush_seconds: Annotated[float, Range(0.01, 600)] = 1.0
    send_seconds_max: Annotated[float, Range(0.05, 600)] = 10.0
    stop_seconds_max: Annotated[float, Range(0, 600)] = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise SettingsError("trace.endpoint", self.endpoint, "must begin with http:// or https://")


class NotifySettings(Branch):
    """Where promotions, rollbacks and alerts are sent, from the one node that holds the role ``notify``."""

    branch = "notify"
    url: str = ""
    command: tuple[str, ...] = ()
    seconds_max: Annotated[float, Range(0.1, 600)] = 10.0
    retry: Backoff = Backoff(first_seconds=10.0, seconds_max=3600.0, tries=8)  # Then it is a dead letter.

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.url and not self.url.startswith(("http://", "https://")):
            raise SettingsError("notify.url", self.url, "must begin with http:// or https://")


class Settings(Value, forbid_unknown_fields=True):
    """The whole tree."""

    node: NodeSettings = NodeSettings()
    store: StoreSettings = StoreSettings()
    blobs: BlobSettings = BlobSettings()
    bus: BusSettings = BusSettings()
    cluster: ClusterSettings = ClusterSettings()
    wire: WireSettings = WireSettings()
    work: WorkSettings = WorkSettings()
    policy: Policy = Policy()
    replicas: Replicas = Replicas()
    bandwidth: BandwidthSettings = BandwidthSettings()
    links: LinkSettings = LinkSettings()
    imports: ImportSettings = ImportSettings()
    backup: BackupSettings = BackupSettings()
    sweep: SweepSettings = SweepSettings()
    upkeep: UpkeepSettings = UpkeepSettings()
    logs: LogSettings = LogSettings()
    trace: TraceSettings = TraceSettings()
    notify: NotifySettings = NotifySettings()

    @classmethod
    def local(cls, home: str | Path = "data", *, node: str = "local") -> "Settings":
        """One machine, one process, no servers."""
        store, blobs = Path(home) / "coordination" / "coordinator.db", Path(home) / "blobs"
        values = {"node.id": node, "store.path": str(store), "blobs.folder": str(blobs), "replicas.copies_min": 1}
        return cls().overlaid(values | {"logs.folder": str(Path(home) / "logs")})

    @classmethod
    def lan(cls, home: str | Path = "data", *, node: str = "local") -> "Settings":
        """A few machines on one network: like local, with two copies of everything."""
        return cls.local(home, node=node).overlaid({"replicas.copies_min": 2})

    @classmethod
    def cloud(cls, home: str | Path = "data", *, node: str = "local") -> "Settings":
        """Rented machines that vanish: like lan, with slower heartbeats and longer leases."""
        cluster = {"beat_seconds": 10.0, "elect_seconds": 5.0, "role_seconds": 45.0}
        return cls.lan(home, node=node).overlaid({"cluster": cluster, "work.lease_seconds": 90.0})

    def overlaid(self, tree: Mapping[str, Any]) -> "Settings":
        """These settings with *tree*, ``{"work.slots": 4}``, on top.  Raises UnknownName or SettingsError for a key."""
        return overlay(self, tree, SETTING_TYPES)


SETTING_TYPES = {key: field.type for key, _, field in leaves(Settings())}
"""Every setting by its dotted key, with its type."""
