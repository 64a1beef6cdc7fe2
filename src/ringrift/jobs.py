"""Every job that can be enqueued, each with its spec for a workload and the events of its result.

The tag is the queue.  While a job with a *key* is alive, enqueueing it again returns that one instead of a second one;
keys are unique and opaque: nothing reads a meaning out of them.
"""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Literal

import msgspec

from ringrift.events import data, evaluation, model, selfplay, training, tuning
from ringrift.events.base import Event
from ringrift.events.node import CanaryPlayed
from ringrift.kernel.errors import InvalidPayload, InvalidWork, JobFailed, UnknownName, require_name
from ringrift.kernel.ids import is_blob
from ringrift.kernel.value import Value, ValueType, changed
from ringrift.kernel.variant import parse
from ringrift.workload.api import SETTINGS_LENGTH_MAX, JobResult, JobSpec, Scalar, find_block_error
from ringrift.workload.results import count_in, imported_events, only_artifact

PRIORITY_MIN, ORDINARY, STAGE, URGENT, PRIORITY_MAX = 0, 40, 60, 90, 100
_VECTOR_MAX = 1000
_Place = Literal["workload", "worker", "node"]
_TRAITS = ("stage", "runs_in", "plays_games", "queue", "key_fields", "input_fields", "param_fields")
_Inputs = dict[str, tuple[str, ...]]
_Params = dict[str, Scalar]


class _JobType(ValueType):
    """Puts the traits of a job, which stand beside its tag, into the class."""

    def __new__(mcls, name: str, bases: tuple[type, ...], ns: dict[str, Any], **kw: Any) -> ValueType:
        own = {key: kw.pop(key) for key in _TRAITS if key in kw}
        return super().__new__(mcls, name, bases, ns | own, **kw)


class Job(Value, metaclass=_JobType):
    """Something to be done by exactly one holder at a time.  Higher *priority* goes first."""

    stage: ClassVar[str] = ""  #: The stage of the loop that it belongs to: one of `LOOP_STAGES`.
    runs_in: ClassVar[_Place] = "workload"  #: A workload or our own code in a child process, or the node itself.
    plays_games: ClassVar[bool] = False  #: Not checkable: quarantined nodes get none, nodes that only play no others.
    queue: ClassVar[str] = ""  #: The queue of :mod:`ringrift.work.limits` in which it counts.
    key_fields: ClassVar[tuple[str, ...]] = ("seed",)  #: Fields that tell two jobs of this kind and variant apart.
    input_fields: ClassVar[tuple[str, ...]] = ()  #: Fields that name blobs; each is a role of the spec's inputs.
    param_fields: ClassVar[tuple[str, ...]] = ()  #: Fields that the workload gets as params, besides the settings'.

    variant: str
    seed: int = 0
    priority: int = ORDINARY
    node: str | None = None  #: The only node that may do it, if there is one.
    isolate: bool = False
    pause_seconds: float = 0.0  #: How long it waits before its first try, after one like it has failed.

    @classmethod
    def kind(cls) -> str:
        """The queue this job waits in."""
        tag = cls.__struct_config__.tag
        assert isinstance(tag, str)
        return tag

    @property
    def key(self) -> str:
        return ":".join((self.kind(), self.variant, *(str(getattr(self, name)) for name in self.key_fields)))

    @property
    def inputs(self) -> _Inputs:
        """Role → the blobs that must be on the node before the job can start."""
        values = {name: getattr(self, name) for name in self.input_fields}
        return {name: value if isinstance(value, tuple) else (value,) * bool(value) for name, value in values.items()}

    @property
    def params(self) -> _Params:
        return {name: getattr(self, name) for name in self.param_fields}

    @property
    def size(self) -> int:
        """Games or blocks in it, where it has such."""
        return getattr(self, "games", 0) or getattr(self, "count", 1)

    @property
    def blobs(self) -> tuple[str, ...]:
        """All blobs of *inputs*."""
        return tuple(blob for blobs in self.inputs.values() for blob in blobs)

    def to_spec(self, id: str, attempt: int, params: Mapping[str, Scalar]) -> JobSpec:
        """The spec that a worker gets."""
        if self.runs_in == "node":
            raise JobFailed(f"{self.kind()} jobs are done by the node itself, not by a worker", retry=False)
        return JobSpec(id, self.kind(), self.variant, self.seed, self.inputs, {**params, **self.params}, attempt)

    def to_events(self, result: JobResult, node: str, ephemeral: bool) -> tuple[Event, ...]:
        """The events of *result*, made on *node*.  Raises JobFailed unless *result* is what the job asks for."""
        raise JobFailed(f"{self.kind()} jobs are done by the node itself, not by a worker", retry=False)

    def is_ended_by(self, event: Event) -> bool:
        """Whether *event* reports the result of this job."""
        return getattr(event, "job", None) == self.key


class Play(Job, tag="play", stage="selfplay", plays_games=True, input_fields=("model",), param_fields=("games",)):
    """Play a batch of games with *model*."""

    model: str
    games: int

    def to_events(self, result: JobResult, node: str, ephemeral: bool) -> tuple[Event, ...]:
        batch = only_artifact(result, "games")
        games, variant, model = count_in(batch, "games"), self.variant, self.model
        event = selfplay.BatchFinished(variant=variant, batch=batch.blob, games=games, model=model, node=node)
        return (changed(event, ephemeral=ephemeral),)


class Sync(Job, tag="sync", stage="sync", runs_in="node", queue="sync", key_fields=("blob",)):
    """Make as many verified copies of *blob* as the policy asks for, starting from the node *source*."""

    blob: str
    kind_of: str
    source: str
    played: int = 0  #: Games in the blob, where it holds games.
    repair: bool = False  #: Whether it is copied because it had too few copies.
    target: str = ""  #: The only node that should get a copy; empty: as many nodes as the policy asks for.


class Export(Job, tag="export", stage="export", queue="export", input_fields=("batches",)):
    """Replay *batches* and turn them into training samples."""

    batches: tuple[str, ...]

    def to_events(self, result: JobResult, node: str, ephemeral: bool) -> tuple[Event, ...]:
        samples = only_artifact(result, "samples")
        refused = tuple(blob for blob in self.batches if blob in result.refused)
        used = tuple(blob for blob in self.batches if blob not in refused)
        count, shared = count_in(samples, "samples"), {"variant": self.variant, "node": node, "job": self.key}
        return (data.Exported(samples=samples.blob, count=count, batches=used, refused=refused, **shared),)


class Train(Job, tag="train", stage="train", input_fields=("samples", "parent"), param_fields=("generation",)):
    """Train *parent* on *samples*; with neither, make generation 0."""

    generation: int
    samples: str | None = None
    parent: str | None = None

    def to_events(self, result: JobResult, node: str, ephemeral: bool) -> tuple[Event, ...]:
        blob, metrics = only_artifact(result, "model").blob, dict(result.metrics)
        event = training.Finished(variant=self.variant, model=blob, generation=self.generation, node=node, job=self.key)
        return (msgspec.structs.replace(event, samples=self.samples, parent=self.parent, metrics=metrics),)


class Verify(Job, tag="verify", stage="evaluate", queue="evaluation", key_fields=("model",), input_fields=("model",)):
    """Check hash, format and weights of *model*."""

    model: str

    def to_events(self, result: JobResult, node: str, ephemeral: bool) -> tuple[Event, ...]:
        return (model.Verified(variant=self.variant, model=self.model, node=node),)

    def is_ended_by(self, event: Event) -> bool:
        return isinstance(event, model.Verified) and (event.variant, event.model) == (self.variant, self.model)


class Purpose(StrEnum):
    """The purpose of a match.  Only PROMOTION makes a candidate champion; only REVIEW makes a champion step down."""

    PROMOTION = "promotion"
    REVIEW = "review"
    PROOF = "proof"
    LADDER = "ladder"
    OPERATOR = "operator"
    CANARY = "canary"  #: Played between two baselines on one node, to see whether its results are right.


class Match(Job, tag="match", stage="evaluate", plays_games=True, queue="evaluation"):
    """Play the *count* blocks from number *first* on between *candidate* and *champion*, or a *baseline* by name."""

    candidate: str
    champion: str = ""
    first: int
    count: int
    baseline: str = ""
    purpose: str = Purpose.PROMOTION
    plies: int = 0  #: Random moves of an opening; 0: as many as the workload likes.

    @property
    def is_canary(self) -> bool:
        """Whether it only tries the node that plays it."""
        return self.purpose == Purpose.CANARY

    @property
    def names_candidate(self) -> bool:
        """Whether its candidate is a baseline by its name: that of a canary always, of an operator's match maybe."""
        return self.is_canary or (self.purpose == Purpose.OPERATOR and not is_blob(self.candidate))

    @property
    def opponent(self) -> str:
        """A blob or the name of a baseline."""
        return self.baseline or self.champion

    @property
    def key(self) -> str:
        players = f"{self.node}:{self.seed}" if self.is_canary else f"{self.candidate}:{self.opponent}"
        return f"match:{self.purpose}:{self.variant}:{players}:{self.first}"

    @property
    def inputs(self) -> _Inputs:
        candidate: _Inputs = {} if self.names_candidate else {"candidate": (self.candidate,)}
        return candidate if self.baseline else {**candidate, "champion": (self.champion,)}

    @property
    def params(self) -> _Params:
        candidate = self.candidate if self.names_candidate else ""
        optional: _Params = {"candidate": candidate, "champion": self.baseline, "opening_plies": self.plies}
        return {"first": self.first, "count": self.count, **{name: value for name, value in optional.items() if value}}

    def to_events(self, result: JobResult, node: str, ephemeral: bool) -> tuple[Event, ...]:
        if (length := len(result.settings)) > SETTINGS_LENGTH_MAX:
            raise JobFailed(f"settings of a match: at most {SETTINGS_LENGTH_MAX} characters, not {length}")
        numbers = range(self.first, self.first + self.count)
        if error := find_block_error(result.blocks, parse(self.variant).players, numbers):
            raise JobFailed(error)
        rows = [(block.number, tuple(block.scores), tuple(block.ranks)) for block in result.blocks]
        blocks = tuple(evaluation.Block(number=number, scores=scores, ranks=ranks) for number, scores, ranks in rows)
        if self.is_canary:
            return (CanaryPlayed(variant=self.variant, seed=self.seed, blocks=blocks, node=node),)
        players = {"variant": self.variant, "candidate": self.candidate, "champion": self.opponent, "node": node}
        return (evaluation.BlocksPlayed(blocks=blocks, settings=result.settings, seed=self.seed, **players),)

    def is_ended_by(self, event: Event) -> bool:
        if not isinstance(event, evaluation.BlocksPlayed) or event.blocks[0].number != self.first:
            return False
        players = (event.variant, event.candidate, event.champion, event.seed)
        return players == (self.variant, self.candidate, self.opponent, self.seed)


def match_jobs(match: Match, first: int, end: int, size: int) -> tuple[Match, ...]:
    """*match* for the blocks from *first* to before *end*, *size* to a job."""
    return tuple(changed(match, first=at, count=min(size, end - at)) for at in range(first, end, size))


class Tune(Job, tag="tune", stage="tune"):
    """Find out how good *vector* is for what the workload lets one tune."""

    vector: tuple[float, ...]

    @property
    def key(self) -> str:
        return f"tune:{self.variant}:{self.seed}:{self.params['vector']}"

    @property
    def params(self) -> _Params:
        return {"vector": ",".join(map(repr, self.vector))}

    def to_events(self, result: JobResult, node: str, ephemeral: bool) -> tuple[Event, ...]:
        fitness = result.metrics.get("fitness")
        if fitness is None or not math.isfinite(fitness):
            raise JobFailed(f"the workload reports fitness = {fitness!r}: a finite number is needed")
        shared = {"variant": self.variant, "node": node, "job": self.key}
        return (tuning.TrialFinished(vector=self.vector, fitness=float(fitness), **shared),)


class Distribute(Job, tag="distribute", stage="distribute", runs_in="node", queue="promotion", key_fields=("model",)):
    """Bring a verified copy of *model* to every node that plays."""

    model: str


class Rate(Job, tag="rate", stage="evaluate", runs_in="worker", key_fields=(), input_fields=("tally",)):
    """Compute how strong every player is from *tally*, a blob with the counts of all blocks."""

    tally: str

    def to_events(self, result: JobResult, node: str, ephemeral: bool) -> tuple[Event, ...]:
        report = only_artifact(result, "report")
        try:
            summary = msgspec.json.decode(str(report.meta.get("summary")), type=evaluation.Summary)
        except msgspec.DecodeError as error:
            raise JobFailed(f"the report has no summary: {error}", blob=report.blob) from error
        return (
            evaluation.Rated(variant=self.variant, report=report.blob, tally=self.tally, summary=summary, node=node),
        )


class Import(Job, tag="import", stage="import", key_fields=("file",), input_fields=("file",)):
    """Turn *file*, which comes from elsewhere, into a model of ours, if that is what it is."""

    file: str

    def to_events(self, result: JobResult, node: str, ephemeral: bool) -> tuple[Event, ...]:
        blob = only_artifact(result, "model").blob
        return (model.Imported(variant=self.variant, model=blob, source=self.file, node=node),)

    def is_ended_by(self, event: Event) -> bool:
        return isinstance(event, model.Imported) and (event.variant, event.source) == (self.variant, self.file)


class Ingest(Job, tag="ingest", stage="import", input_fields=("file", "history")):
    """Make batches of the games in *file*, which comes from elsewhere, but for those in the list *history*.

    A line has one such job at a time: each begins with the list that the one before has left.
    """

    key_fields, param_fields = (), ("replay",)
    file: str
    history: str | None = None
    replay: bool = True  #: Whether games count only once they have been replayed, not before.

    def to_events(self, result: JobResult, node: str, ephemeral: bool) -> tuple[Event, ...]:
        facts = {"variant": self.variant, "node": node, "source": self.file}
        return imported_events(result, facts, pending=not self.replay, ephemeral=ephemeral)

    def is_ended_by(self, event: Event) -> bool:
        return isinstance(event, data.Imported) and (event.variant, event.source) == (self.variant, self.file)


JOBS: tuple[type[Job], ...] = tuple(Job.__subclasses__())
LOOP_STAGES = (*dict.fromkeys(job.stage for job in JOBS), "promote")  #: *promote*, the move of a champion, has no job.
STAGES = {job.kind(): job.stage for job in JOBS}
JOB_KINDS = frozenset(STAGES)
GAME_KINDS = frozenset(job.kind() for job in JOBS if job.plays_games)
NODE_KINDS = frozenset(job.kind() for job in JOBS if job.runs_in == "node")
_DECODERS = {job.kind(): msgspec.json.Decoder(job) for job in JOBS}


class JobFilter(Value):
    """Selects jobs: every field that is set must be equal."""

    variant: str = ""
    key: str = ""
    purpose: str = ""
    candidate: str = ""
    opponent: str = ""
    node: str = ""

    def matches(self, job: Job) -> bool:
        """Whether *job* is one of those."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return all(getattr(job, name, None) == value for name, value in values.items() if value)


class JobQuery(Value):
    """Selects stored jobs for people: each field that is set must fit."""

    states: tuple[str, ...] = ()
    begins: str = ""  #: The beginning of the id.
    ends: str = ""  #: Its end.
    variant: str | None = None
    kind: str | None = None
    node: str | None = None  #: The node that holds it, or the only one that may do it.


def purpose_of(job: Job | None) -> str:
    """What *job* is for: the purpose of a match, for a Sync the kind of its blob or *repair*; else empty."""
    if isinstance(job, Sync):
        return "repair" if job.repair else job.kind_of
    return str(job.purpose) if isinstance(job, Match) else ""


def encode(job: Job) -> bytes:
    """The bytes of *job*.  Raises InvalidWork for a field out of range."""
    if type(job.priority) is not int or not PRIORITY_MIN <= job.priority <= PRIORITY_MAX:
        raise InvalidWork("priority", job.priority, f"{PRIORITY_MIN} … {PRIORITY_MAX}, whole")
    if type(job.seed) is not int or not 0 <= job.seed < 2**63:
        raise InvalidWork("seed", job.seed, "0 … 2^63-1, whole")
    for field, least in (("games", 1), ("count", 1), ("first", 0), ("generation", 0)):
        number = getattr(job, field, least)
        if type(number) is not int or number < least:
            raise InvalidWork(field, number, f"at least {least}, whole")
    if isinstance(job, Tune) and not (0 < len(job.vector) <= _VECTOR_MAX and all(map(math.isfinite, job.vector))):
        raise InvalidWork("vector", job.vector[:8], f"1 … {_VECTOR_MAX} finite numbers")
    return msgspec.json.encode(job)


def decode_if_known(kind: str, body: bytes) -> Job | None:
    """The job in *body*; None if this version cannot read it."""
    try:
        return decode(kind, body)
    except (InvalidPayload, UnknownName):
        return None


def decode(kind: str, body: bytes) -> Job:
    """The job in *body*.  Raises UnknownName or InvalidPayload."""
    require_name("job", kind, _DECODERS)
    try:
        return _DECODERS[kind].decode(body)
    except msgspec.DecodeError as error:
        raise InvalidPayload("$", str(error)) from error
