"""Settings: one tree of Values; every part receives its own branch, never the tree.

A branch checks its ranges when it is built, and a wrong value names the key, the value and the range.
``local()``, ``lan()`` and ``cloud()`` are presets built one from another.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ringrift.kernel.backoff import Backoff
from ringrift.kernel.errors import InvalidId, SettingsError, UnknownName, within
from ringrift.kernel.ids import check_id
from ringrift.kernel.value import Value

LEAD_MAX = 9
"""Less than what lies between the stages of a line and what is urgent."""
PROFILES = ("coordinator", "training_node", "ephemeral", "selfplay", "minimal", "full")


class NodeSettings(Value, forbid_unknown_fields=True):
    """Who this process is."""

    id: str = "local"
    profile: str = "full"
    ephemeral: bool = False
    loops: bool = True
    """Whether the duties of the documents' six loops may start by their old names (RINGRIFT_EXTRACTED_LOOPS)."""

    def __post_init__(self) -> None:
        try:
            check_id("node.id", self.id)
        except InvalidId as bad:
            raise SettingsError("node.id", self.id, "1 to 64 letters, digits, - and _") from bad
        if self.profile not in PROFILES:
            raise SettingsError("node.profile", self.profile, f"must be one of {', '.join(PROFILES)}")


class StoreSettings(Value, forbid_unknown_fields=True):
    """Where the record is kept."""

    path: str = "data/coordination/coordinator.db"
    tx_seconds_max: float = 1.0
    waiting_max: int = 10_000
    """Transactions that may wait for their turn; one more gets Backpressure."""
    log_events_max: int = 200_000
    """Events kept in the log beyond what durable readers still need."""
    detail_events_max: int = 20_000
    """Events behind which those that tell details are dropped already."""

    def __post_init__(self) -> None:
        within("store.tx_seconds_max", self.tx_seconds_max, 0.05, 60)
        within("store.waiting_max", self.waiting_max, 1, 1_000_000)
        within("store.log_events_max", self.log_events_max, 100, 1e9)
        within("store.detail_events_max", self.detail_events_max, 100, 1e9)


class BlobSettings(Value, forbid_unknown_fields=True):
    """Where files are kept."""

    folder: str = "data/blobs"


class BusSettings(Value, forbid_unknown_fields=True):
    """How events reach their readers."""

    batch: int = 256
    """Events a reader takes in one transaction: enough to share the commit, few enough to stay under tx_seconds_max."""
    poll_seconds: float = 1.0
    redeliver_seconds: float = 10.0
    redelivery: Backoff = Backoff(first_seconds=60.0, seconds_max=3600.0, tries=5)
    lapse_seconds: float = 7 * 86_400.0
    """How long an event may wait for a reader that does not move before the reader holds the log no more."""
    lapse_seen_seconds: float = 3600.0
    """How long somebody must have watched it stand still: a clock that jumps lets nobody lapse."""
    handler_seconds_max: float = 600.0
    """How long a handler may take for one event (RINGRIFT_EVENT_HANDLER_TIMEOUT)."""
    queue_max: int = 10_000
    """Events that may wait for one live subscriber; one that is further behind reads the log itself."""
    threads_max: int = 8
    """Plain functions that may run at once."""
    strict: bool = False
    """Refuse events whose name nobody knows (RINGRIFT_EVENT_VALIDATION_STRICT)."""
    window_seconds: float = 30.0
    """How long the same words from the same source and node, said without an id, count as one event."""
    window_events_max: int = 2000

    def __post_init__(self) -> None:
        within("bus.handler_seconds_max", self.handler_seconds_max, 0.05, 86_400)
        within("bus.queue_max", self.queue_max, 1, 1e7)
        within("bus.threads_max", self.threads_max, 1, 1024)
        within("bus.window_seconds", self.window_seconds, 0.01, 86_400)
        within("bus.window_events_max", self.window_events_max, 1, 1e7)
        within("bus.batch", self.batch, 1, 10_000)
        within("bus.poll_seconds", self.poll_seconds, 0.01, 60)
        within("bus.redeliver_seconds", self.redeliver_seconds, 0.05, 3600)
        within("bus.lapse_seconds", self.lapse_seconds, 60, 3650 * 86_400)
        within("bus.lapse_seen_seconds", self.lapse_seen_seconds, 1, 30 * 86_400)


class ClusterSettings(Value, forbid_unknown_fields=True):
    """How nodes know of each other."""

    beat_seconds: float = 5.0
    elect_seconds: float = 3.0
    role_seconds: float = 15.0
    watch_seconds: float = 5.0
    """Between looks for lines that take too long, nodes that fell silent and readers that stand still."""

    def __post_init__(self) -> None:
        within("cluster.beat_seconds", self.beat_seconds, 0.05, 600)
        within("cluster.elect_seconds", self.elect_seconds, 0.05, 200)
        within("cluster.watch_seconds", self.watch_seconds, 0.05, 3600)
        # The holder trusts itself for two thirds of the time, so it must renew well within that.
        within("cluster.role_seconds", self.role_seconds, 3 * self.elect_seconds, 600)


class WorkSettings(Value, forbid_unknown_fields=True):
    """How jobs are run."""

    slots: int = 2
    lease_seconds: float = 30.0
    rescue_seconds: float = 2.0
    gauge_seconds: float = 10.0
    deadline_seconds: float = 3600.0
    grace_seconds: float = 60.0
    """From SIGTERM to SIGKILL (RINGRIFT_JOB_GRACE_PERIOD)."""
    jobs_per_child: int = 500
    child_growth_bytes_max: int = 512 * 1024 * 1024
    retry: Backoff = Backoff(first_seconds=1.0, seconds_max=60.0, tries=4)
    workload: str = "fake"
    params: dict[str, str | int | float | bool] = {}
    executables: dict[str, list[str]] = {}

    def __post_init__(self) -> None:
        within("work.slots", self.slots, 1, 1024)
        within("work.lease_seconds", self.lease_seconds, 0.2, 3600)
        within("work.rescue_seconds", self.rescue_seconds, 0.05, 600)
        within("work.gauge_seconds", self.gauge_seconds, 0.05, 600)
        within("work.deadline_seconds", self.deadline_seconds, 0.5, 7 * 86_400)
        within("work.grace_seconds", self.grace_seconds, 0, 3600)
        within("work.jobs_per_child", self.jobs_per_child, 1, 1e9)
        within("work.child_growth_bytes_max", self.child_growth_bytes_max, 1, 1e15)


class Gate(Value, forbid_unknown_fields=True):
    """Bounds of the sequential test that promotes: H0 = *elo_0*, H1 = *elo_1*, in Elo of the candidate.

    *alpha* is the chance that H0 passes, *beta* the chance that H1 does not; undecided at *blocks_max* does not pass.
    """

    elo_0: float = 0.0
    elo_1: float = 35.0
    alpha: float = 0.05
    beta: float = 0.05
    blocks_min: int = 16
    blocks_max: int = 1000
    """Four times the blocks that two players need on average: of true candidates 1 in 200 is undecided there."""

    def __post_init__(self) -> None:
        within("policy.gate.elo_0", self.elo_0, -1000, 1000)
        within("policy.gate.elo_1", self.elo_1, -1000, 1000)
        within("policy.gate.alpha", self.alpha, 1e-6, 0.5)
        within("policy.gate.beta", self.beta, 1e-6, 0.5)
        within("policy.gate.blocks_min", self.blocks_min, 2, 10_000)
        within("policy.gate.blocks_max", self.blocks_max, self.blocks_min, 100_000)
        if self.elo_1 <= self.elo_0:
            raise SettingsError("policy.gate.elo_1", self.elo_1, f"must be above elo_0 = {self.elo_0:g}")

    @classmethod
    def improvement(cls) -> "Gate":
        """Is it stronger?  The gate before a promotion: 5 % of equal candidates pass, 95 % of those 35 Elo stronger."""
        return cls()

    @classmethod
    def non_regression(cls) -> "Gate":
        """Is it no weaker?  5 % of those 20 Elo weaker pass, 95 % of equal ones."""
        return cls(elo_0=-20.0, elo_1=0.0, blocks_max=3200)

    @classmethod
    def anti_disaster(cls) -> "Gate":
        """Is it not broken?  Cheap and asked all the time, so only 1 % of sound models raise an alarm.

        Of those 50 Elo weaker 5 % pass.
        """
        return cls(elo_0=-50.0, elo_1=0.0, beta=0.01, blocks_max=800)


class Budget(Value, forbid_unknown_fields=True):
    """How many of a run's promotions may be false: the error budget over all its candidate tests."""

    share: float = 0.10
    """Of the promotions of a run, as expected: those of candidates that are no stronger."""
    start: float = 0.5
    """The part of the share that is there before the first promotion; the first one brings the rest."""

    def __post_init__(self) -> None:
        within("policy.budget.share", self.share, 1e-4, 0.5)
        within("policy.budget.start", self.start, 0.01, 1)


class StageLimits(Value, forbid_unknown_fields=True):
    """How long a line may stay in a stage before it is overdue.  A resting line may rest for ever."""

    starting_seconds_max: float = 24 * 3600.0
    collecting_seconds_max: float = 6 * 3600.0
    exporting_seconds_max: float = 3600.0
    training_seconds_max: float = 24 * 3600.0
    verifying_seconds_max: float = 3600.0
    evaluating_seconds_max: float = 48 * 3600.0
    distributing_seconds_max: float = 3600.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            within(f"policy.stages.{name}", getattr(self, name), 1, 365 * 86_400)

    def of(self, stage: str) -> float | None:
        """The limit of *stage*, if it has one."""
        limit: float | None = getattr(self, f"{stage}_seconds_max", None)
        return limit


class Policy(Value, forbid_unknown_fields=True):
    """What the loop does with each variant."""

    variants: tuple[str, ...] = ("square8_2p", "hex8_2p", "hex8_3p")
    auto: bool = True
    """Whether one stage starts the next; else each waits to be asked for (COORDINATOR_AUTO_TRIGGER_PIPELINE)."""
    games_per_batch: int = 100
    games_per_export: int = 400
    window_batches_max: int = 64
    play_jobs_open: int = 4
    """Play jobs that are ready or running for each variant; more would only play with an old model."""
    blocks_per_job: int = 8
    match_jobs_open: int = 4
    gate: Gate = Gate()
    budget: Budget = Budget()
    review: Gate = Gate.anti_disaster()
    """What the champion is judged by when it is tested against an earlier one."""
    review_promotions: int = 4
    """After every so many promotions the champion is tested against the one before them; 0 = never."""
    iterations_max: int | None = None
    """Promotions after which a line rests; None = never."""
    stages: StageLimits = StageLimits()
    plateau_rejections: int = 8
    """Candidates rejected in a row after which a line is said to be on a plateau."""
    rate_seconds: float = 5.0
    """Between looks for lines whose ratings are due to be computed again."""
    ladder_seconds: float = 3600.0
    """Between two rounds of matches that only make ratings more certain; 0 = none."""
    ladder_blocks: int = 64
    """Blocks of one such round."""
    lead: int = 0
    """How far the Export and Train jobs of a line go before those of others; feedback sets it by their urgency."""
    seed: int = 0

    def __post_init__(self) -> None:
        within("policy.rate_seconds", self.rate_seconds, 0.05, 86_400)
        within("policy.ladder_seconds", self.ladder_seconds, 0, 365 * 86_400)
        within("policy.ladder_blocks", self.ladder_blocks, 1, 10_000)
        within("policy.lead", self.lead, 0, LEAD_MAX)
        within("policy.games_per_batch", self.games_per_batch, 1, 1e6)
        within("policy.games_per_export", self.games_per_export, 1, 1e9)
        within("policy.window_batches_max", self.window_batches_max, 1, 256)
        within("policy.play_jobs_open", self.play_jobs_open, 1, 10_000)
        within("policy.blocks_per_job", self.blocks_per_job, 1, 256)  # their scores must fit into one event
        within("policy.match_jobs_open", self.match_jobs_open, 1, 1000)
        within("policy.plateau_rejections", self.plateau_rejections, 2, 10_000)
        within("policy.review_promotions", self.review_promotions, 0, 8)  # of so many a line keeps the weights
        if self.iterations_max is not None:
            within("policy.iterations_max", self.iterations_max, 1, 1e9)
        if len(set(self.variants)) != len(self.variants):
            raise SettingsError("policy.variants", self.variants, "names a variant twice")


class Replicas(Value, forbid_unknown_fields=True):
    """How many copies of a file are enough."""

    copies_min: int = 2
    every_seconds: float = 30.0

    def __post_init__(self) -> None:
        within("replicas.copies_min", self.copies_min, 1, 100)
        within("replicas.every_seconds", self.every_seconds, 0.05, 86_400)


class SweepSettings(Value, forbid_unknown_fields=True):
    """How often the house is cleaned, and how much log text is kept."""

    every_seconds: float = 3600.0
    log_bytes_max: int = 8 * 1024 * 1024
    log_files_max: int = 4

    def __post_init__(self) -> None:
        within("sweep.every_seconds", self.every_seconds, 1, 7 * 86_400)
        within("sweep.log_bytes_max", self.log_bytes_max, 1024, 1e10)
        within("sweep.log_files_max", self.log_files_max, 1, 100)


class TraceSettings(Value, forbid_unknown_fields=True):
    """What becomes of spans: how long deliveries, jobs and one's own code took, and in which story."""

    endpoint: str = ""
    """The OpenTelemetry collector they are sent to, e.g. http://127.0.0.1:4318 (OTEL_EXPORTER_OTLP_ENDPOINT)."""
    debug: bool = False
    """Write every span, event and delivery into the log (RINGRIFT_TRACE_DEBUG)."""
    queue_max: int = 20_000
    """Spans that may wait for the collector; further ones are dropped and counted."""
    batch_max: int = 512
    flush_seconds: float = 1.0
    send_seconds_max: float = 10.0
    """How long the collector may take for one batch, with all tries."""
    stop_seconds_max: float = 2.0
    """How long a node that stops waits for its last spans to be taken."""

    def __post_init__(self) -> None:
        if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise SettingsError("trace.endpoint", self.endpoint, "must begin with http:// or https://")
        within("trace.queue_max", self.queue_max, 1, 1e7)
        within("trace.batch_max", self.batch_max, 1, 100_000)
        within("trace.flush_seconds", self.flush_seconds, 0.01, 600)
        within("trace.send_seconds_max", self.send_seconds_max, 0.05, 600)
        within("trace.stop_seconds_max", self.stop_seconds_max, 0, 600)


class Settings(Value, forbid_unknown_fields=True):
    """The whole tree."""

    node: NodeSettings = NodeSettings()
    store: StoreSettings = StoreSettings()
    blobs: BlobSettings = BlobSettings()
    bus: BusSettings = BusSettings()
    cluster: ClusterSettings = ClusterSettings()
    work: WorkSettings = WorkSettings()
    policy: Policy = Policy()
    replicas: Replicas = Replicas()
    sweep: SweepSettings = SweepSettings()
    trace: TraceSettings = TraceSettings()

    @classmethod
    def local(cls, home: str | Path = "data", *, node: str = "local") -> "Settings":
        """One machine, one process, no servers."""
        root = Path(home)
        return cls(
            node=NodeSettings(id=node),
            store=StoreSettings(path=str(root / "coordination" / "coordinator.db")),
            blobs=BlobSettings(folder=str(root / "blobs")),
            replicas=Replicas(copies_min=1),
        )

    @classmethod
    def lan(cls, home: str | Path = "data", *, node: str = "local") -> "Settings":
        """A few machines on one network: like local, with two copies of everything."""
        return msgspec.structs.replace(cls.local(home, node=node), replicas=Replicas(copies_min=2))

    @classmethod
    def cloud(cls, home: str | Path = "data", *, node: str = "local") -> "Settings":
        """Rented machines that vanish: like lan, with slower heartbeats and longer leases."""
        return msgspec.structs.replace(
            cls.lan(home, node=node),
            cluster=ClusterSettings(beat_seconds=10.0, elect_seconds=5.0, role_seconds=45.0),
            work=WorkSettings(lease_seconds=90.0),
        )

    def overlaid(self, tree: Mapping[str, Any]) -> "Settings":
        """These settings with the values of *tree* on top.  Raises UnknownName or SettingsError naming the key."""
        made: Settings = _overlay(self, tree, ())
        return made


def _overlay(branch: Any, tree: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """*branch* with *tree* on top, converted and checked field by field so that an error can name its key."""
    fields = {field.name: field.type for field in msgspec.structs.fields(type(branch))}
    changed = {}
    for name, value in tree.items():
        key = ".".join((*path, name))
        if name not in fields:
            raise UnknownName("setting", key, (".".join((*path, known)) for known in fields))
        current = getattr(branch, name)
        if isinstance(current, Value) and isinstance(value, Mapping):
            changed[name] = _overlay(current, value, (*path, name))
            continue
        try:
            changed[name] = msgspec.convert(value, fields[name], strict=not isinstance(value, str))
        except msgspec.ValidationError as wrong:
            raise SettingsError(key, value, str(wrong)) from wrong
    try:
        return msgspec.structs.replace(branch, **changed)
    except SettingsError as wrong:
        if not path or wrong.key.startswith(path[0]):
            raise
        # A value that several branches use knows its own field only.
        raise SettingsError(".".join((*path, wrong.key)), wrong.value, wrong.limit) from wrong
