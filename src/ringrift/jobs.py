"""The vocabulary of what can be asked: every job, in the imperative.

The tag is the queue.  A job's *key* says what it is for: while a job with that key is alive, asking again returns it
instead of a second one.
"""

import msgspec

from ringrift.kernel.errors import InvalidPayload, InvalidWork, UnknownName
from ringrift.kernel.value import Value

PRIORITY_MIN, PRIORITY_MAX = 0, 100
URGENT, STAGE, ORDINARY = 90, 60, 40
PROOF = "proof:"
"""What the keys of all jobs begin with that promote nobody."""


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

    A match against a baseline, and one that is asked for as *proof*, promotes nobody; so its key is never one of those
    that the gate waits for or cancels.  Openings are *plies* random moves long; 0: as long as the workload likes.
    """

    candidate: str
    champion: str = ""
    first: int
    count: int
    baseline: str = ""
    proof: bool = False
    plies: int = 0

    @property
    def opponent(self) -> str:
        """Who *candidate* plays against: a blob or the name of a baseline."""
        return self.baseline or self.champion

    @property
    def key(self) -> str:
        if self.proof or self.baseline:
            return f"{PROOF}{self.variant}:{self.candidate}:{self.opponent}:{self.first}"
        return f"{self.prefix(self.variant, self.candidate)}{self.first}"

    @staticmethod
    def prefix(variant: str, candidate: str) -> str:
        """What the keys of all jobs of one match for promotion begin with."""
        return f"match:{variant}:{candidate}:"

    @property
    def blobs(self) -> tuple[str, ...]:
        return (self.candidate,) if self.baseline else (self.candidate, self.champion)


class Distribute(Job, tag="distribute"):
    """Bring a verified copy of *model* to every node that plays."""

    model: str

    @property
    def key(self) -> str:
        return f"distribute:{self.variant}:{self.model}"


JOBS: tuple[type[Job], ...] = (Play, Sync, Export, Train, Verify, Match, Distribute)
WORKLOAD_KINDS = frozenset(job.kind() for job in (Play, Export, Train, Verify, Match))
"""Jobs that a workload does in a child process."""
NODE_KINDS = frozenset(job.kind() for job in (Sync, Distribute))
"""Jobs that a node does itself: moving files."""

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
    return msgspec.json.encode(job)


def decode(kind: str, body: bytes) -> Job:
    """The job that *body* is.  Raises UnknownName or InvalidPayload."""
    if kind not in _DECODERS:
        raise UnknownName("job", kind, _DECODERS)
    try:
        return _DECODERS[kind].decode(body)
    except msgspec.DecodeError as bad:
        raise InvalidPayload("$", str(bad)) from bad
