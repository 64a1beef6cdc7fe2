"""The vocabulary of what can be asked: every job, in the imperative.

The tag is the queue.  A job's *key* says what it is for: while a job with that key is alive, asking again returns it
instead of a second one.
"""

import math

import msgspec

from ringrift.kernel.errors import InvalidPayload, InvalidWork, UnknownName
from ringrift.kernel.value import Value

PRIORITY_MIN, PRIORITY_MAX = 0, 100
URGENT, STAGE, ORDINARY = 90, 60, 40
VECTOR_MAX = 1000
PROOF = "proof:"
"""What the keys of all jobs begin with that promote nobody."""
CANARY = "canary:"
"""What the keys of all matches begin with whose outcome is known and that only try a node."""


class Job(Value):
    """Something to be done by exactly one holder at a time.  Higher *priority* goes first."""

    variant: str
    seed: int = 0
    priority: int = ORDINARY
    node: str | None = None
    isolate: bool = False

    @classmethod
    def kind(cls) -> str:
        """The queue this job waits in."""
        tag = cls.__struct_config__.tag
        assert isinstance(tag, str)
        return tag

    @property
    def key(self) -> str:
        """What this job is for."""
        return f"{self.kind()}:{self.variant}:{self.seed}"

    @property
    def blobs(self) -> tuple[str, ...]:
        """The blobs that must be on the node before the job can start."""
        return ()


class Play(Job, tag="play"):
    """Play a batch of games with *model*."""

    model: str
    games: int

    @property
    def blobs(self) -> tuple[str, ...]:
        return (self.model,)


class Sync(Job, tag="sync"):
    """Make as many verified copies of *blob* as the policy asks for, starting from the node *source*."""

    blob: str
    kind_of: str
    source: str
    played: int = 0
    """Games in the blob, where it holds games."""

    @property
    def key(self) -> str:
        return f"sync:{self.variant}:{self.blob}"


class Export(Job, tag="export"):
    """Replay *batches* and turn them into training samples."""

    batches: tuple[str, ...]

    @property
    def blobs(self) -> tuple[str, ...]:
        return self.batches


class Train(Job, tag="train"):
    """Train *parent* on *samples*; with neither, make generation 0."""

    generation: int
    samples: str | None = None
    parent: str | None = None

    @property
    def blobs(self) -> tuple[str, ...]:
        return tuple(blob for blob in (self.samples, self.parent) if blob)


class Verify(Job, tag="verify"):
    """Check hash, format and weights of *model*."""

    model: str

    @property
    def key(self) -> str:
        return f"verify:{self.variant}:{self.model}"

    @property
    def blobs(self) -> tuple[str, ...]:
        return (self.model,)


class Match(Job, tag="match"):
    """Play the *count* blocks from number *first* on between *candidate* and *champion*, or a *baseline* by its name.

    One with a *purpose* of its own (proof, review, ladder, canary) and one against a baseline promotes nobody; so its
    key is never one of those that the gate waits for or cancels.  Openings are *plies* random moves long; 0: as long as
    the workload likes.  A canary is played between two baselines on one node, to see whether its results are right.
    """

    candidate: str
    champion: str = ""
    first: int
    count: int
    baseline: str = ""
    purpose: str = ""
    plies: int = 0

    @property
    def canary(self) -> bool:
        """Whether it only tries the node that plays it."""
        return self.purpose == "canary"

    @property
    def opponent(self) -> str:
        """Who *candidate* plays against: a blob or the name of a baseline."""
        return self.baseline or self.champion

    @property
    def key(self) -> str:
        if self.canary:
            return f"{self.canaries(self.node or '')}{self.variant}:{self.seed}:{self.first}"
        if self.purpose or self.baseline:
            return f"{self.purpose or 'proof'}:{self.variant}:{self.candidate}:{self.opponent}:{self.first}"
        return f"{self.prefix(self.variant, self.candidate)}{self.first}"

    @staticmethod
    def prefix(variant: str, candidate: str, purpose: str = "") -> str:
        """What the keys of all jobs of one candidate's match for promotion, or for *purpose*, begin with."""
        return f"{purpose or 'match'}:{variant}:{candidate}:"

    @staticmethod
    def canaries(node: str) -> str:
        """What the keys of all canaries of *node* begin with."""
        return f"{CANARY}{node}:"

    @property
    def blobs(self) -> tuple[str, ...]:
        if self.canary:
            return ()
        return (self.candidate,) if self.baseline else (self.candidate, self.champion)


class Tune(Job, tag="tune"):
    """Find out how good *vector* is for what the workload lets one tune."""

    vector: tuple[float, ...]

    @property
    def key(self) -> str:
        return f"tune:{self.variant}:{self.seed}:{','.join(map(repr, self.vector))}"


class Distribute(Job, tag="distribute"):
    """Bring a verified copy of *model* to every node that plays."""

    model: str

    @property
    def key(self) -> str:
        return f"distribute:{self.variant}:{self.model}"


class Rate(Job, tag="rate"):
    """Compute how strong every player is from *tally*, a blob with the counts of all blocks."""

    tally: str

    @property
    def key(self) -> str:
        return f"rate:{self.variant}"

    @property
    def blobs(self) -> tuple[str, ...]:
        return (self.tally,)


class Import(Job, tag="import"):
    """Turn *file*, which comes from elsewhere, into a model of ours, if that is what it is."""

    file: str

    @property
    def key(self) -> str:
        return f"import:{self.variant}:{self.file}"

    @property
    def blobs(self) -> tuple[str, ...]:
        return (self.file,)


JOBS: tuple[type[Job], ...] = (Play, Sync, Export, Train, Verify, Match, Tune, Distribute, Import, Rate)
WORKLOAD_KINDS = frozenset(job.kind() for job in (Play, Export, Train, Verify, Match, Tune, Import))
"""Jobs that a workload does in a child process."""
NODE_KINDS = frozenset(job.kind() for job in (Sync, Distribute))
"""Jobs that a node does itself: moving files."""
CHILD_KINDS = frozenset({Rate.kind()})
"""Jobs that a child process does with our own code, whatever its workload."""

_DECODERS = {job.kind(): msgspec.json.Decoder(job) for job in JOBS}


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
    if isinstance(job, Tune) and not (0 < len(job.vector) <= VECTOR_MAX and all(map(math.isfinite, job.vector))):
        raise InvalidWork("vector", job.vector[:8], f"1 … {VECTOR_MAX} finite numbers")
    return msgspec.json.encode(job)


def decode(kind: str, body: bytes) -> Job:
    """The job that *body* is.  Raises UnknownName or InvalidPayload."""
    if kind not in _DECODERS:
        raise UnknownName("job", kind, _DECODERS)
    try:
        return _DECODERS[kind].decode(body)
    except msgspec.DecodeError as bad:
        raise InvalidPayload("$", str(bad)) from bad
