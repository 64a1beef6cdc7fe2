"""The seam to every store engine: what can be read, what a transaction can write, what a store is.

Verbs take sequences; there is no single form.  A transaction is all or nothing, bodies run one at a time, and
``begin()`` returns only when what its body wrote is on stable storage.  Inside a body await only the transaction.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from ringrift.events.base import Envelope
from ringrift.kernel.value import Value

BEHIND_MAX = 1_000
"""Events behind a reader that are counted: whoever is further behind is far behind."""
STATES = ("ready", "claimed", "done", "dead", "cancelled")


class Wanted(Value):
    """A job to be enqueued.  While a job with *key* is ready or claimed, that one is returned instead."""

    id: str
    kind: str
    variant: str
    key: str
    body: bytes
    priority: int = 40
    node: str | None = None
    time: float = 0.0
    context: str = ""
    """The story it belongs to; whoever does it gets it back."""


class Lease(Value):
    """A claimed job: who presents *fence* may renew, finish or fail it, until somebody gets a higher one."""

    job: str
    kind: str
    variant: str
    key: str
    body: bytes
    holder: str
    fence: int
    renewals: int
    seconds: float
    attempts: int
    outputs: bytes = b"[]"
    context: str = ""


class Held(Value):
    """What a holder says of its lease: the fence it holds, and on renewal its progress and partial outputs."""

    job: str
    fence: int
    progress: float = 0.0
    outputs: bytes | None = None


class Failure(Value):
    """A lease that ends without a result: ready again after *pause* seconds, or dead if *pause* is None.

    With *renewals* it ends only if nobody renewed it meanwhile.
    """

    job: str
    fence: int
    error: str
    pause: float | None
    renewals: int | None = None
    started: bool = True
    """False = given back untouched: the try does not count."""


class JobRow(Value):
    """One job as the store has it."""

    id: str
    kind: str
    variant: str
    key: str
    body: bytes
    state: str
    priority: int
    node: str | None
    attempts: int
    fence: int
    holder: str | None
    renewals: int
    seconds: float
    pause: float
    progress: float
    time: float
    error: str | None


class RoleRow(Value):
    """Who holds a role, in which term.  Terms only grow."""

    role: str
    holder: str
    term: int
    renewals: int
    seconds: float


class Put(Value):
    """A record to be written, found again by kind and id and by each field of *index*."""

    kind: str
    id: str
    body: bytes
    index: Mapping[str, str] = {}


class Record(Value):
    """A record as the store has it."""

    kind: str
    id: str
    body: bytes


class Origin(Value):
    """How a node made a blob.  It is written once and for ever; a blob that two nodes made has two."""

    blob: str
    node: str
    kind: str
    """Of the blob: games, samples or model."""
    variant: str
    time: float = 0.0
    games: int = 0
    """In the blob, or behind its samples."""
    job: str = ""
    job_kind: str = ""
    key: str = ""
    """Of the job."""
    seed: int = 0
    generation: int | None = None
    model: str | None = None
    """What the games were played with, or the parent that training started from."""
    samples: str | None = None
    """What a model was trained on."""
    workload: str = ""
    version: str = ""
    """Of the workload's code."""
    release: str = ""
    """Of ours."""
    settings: str = ""
    """Digest of the workload's settings."""


class Share(Value):
    """How much of a whole belongs to *name*, a node or a blob: so many blobs with so many games."""

    name: str
    blobs: int
    games: int


class Delivery(Value):
    """An event that a reader could not take: *parked* until its pause is over, *dead*, *done* or *discarded*."""

    reader: str
    position: int
    state: str
    attempts: int
    pause: float
    error: str
    first: float
    last: float


class ReaderRow(Value):
    """A durable reader: where it stands, how many events wait for it up to BEHIND_MAX, and when the oldest was said."""

    reader: str
    position: int
    lapsed: bool
    behind: int
    since: float | None


class Reads(Protocol):
    """What can be asked of the store.  Every answer is bounded."""

    async def read(self, after: int, limit: int, names: Collection[str] = ()) -> Sequence[Envelope]:
        """Up to *limit* events behind position *after*, in order; with *names*, only those."""

    async def last(self, before: int | None, limit: int, names: Collection[str] = ()) -> Sequence[Envelope]:
        """The newest *limit* events before position *before*, or of all, in order; with *names*, only those."""

    async def envelopes(self, ids: Sequence[str]) -> Sequence[Envelope]:
        """The events with these ids, in the order of their positions."""

    async def story(self, trace: str, limit: int) -> Sequence[Envelope]:
        """Up to *limit* events of one trace, in order."""

    async def before(self, time: float) -> int:
        """The position before the first event that is not older than *time*; the newest if all are."""

    async def readers(self) -> Sequence[ReaderRow]:
        """Every durable reader, with what waits for it."""

    async def places(self) -> Mapping[str, int]:
        """Every durable reader and the position it has taken in."""

    async def deliveries(
        self, states: Collection[str], limit: int, reader: str | None = None, position: int | None = None
    ) -> Sequence[Delivery]:
        """Deliveries that went wrong, oldest first."""

    async def deliveries_at(self, reader: str, positions: Sequence[int]) -> Sequence[Delivery]:
        """Deliveries to *reader* of the events at *positions* that ever went wrong, oldest first."""

    async def at(self, positions: Sequence[int]) -> Sequence[Envelope]:
        """The events at *positions*, in order; those that are gone are left out."""

    async def jobs(
        self, states: Collection[str], limit: int, *, variant: str | None = None, holder: str | None = None
    ) -> Sequence[JobRow]:
        """Jobs in these states, oldest first."""

    async def tally(self, variant: str | None = None) -> Mapping[tuple[str, str], int]:
        """How many jobs there are by (kind, state)."""

    async def roles(self) -> Sequence[RoleRow]:
        """Every role that was ever held."""

    async def get(self, kind: str, ids: Sequence[str]) -> Mapping[str, bytes]:
        """The bodies of those records that exist."""

    async def find(self, kind: str, field: str, values: Sequence[str], limit: int) -> Sequence[Record]:
        """Records whose index *field* has one of *values*."""

    async def scan(self, kind: str, after: str, limit: int) -> Sequence[Record]:
        """Records of *kind* by id, behind *after*."""

    async def walk(self, roots: Sequence[str], up: bool, limit: int, kinds: Collection[str] = ()) -> Sequence[str]:
        """What *roots* come from (*up*) or what came from them, nearest first, without *roots*.

        With *kinds* it steps only on blobs whose origin says that they are of one of them.
        """

    async def origins(self, blobs: Sequence[str]) -> Sequence[Origin]:
        """How *blobs* were made, those first that were heard of first; who made the same one again comes later."""

    async def made(self, kind: str, limit: int, *, variant: str | None = None, prefix: str = "") -> Sequence[Origin]:
        """Origins of *kind*, newest first; with *prefix* those whose blobs begin with it, by name."""

    async def makers(self, limit: int) -> Sequence[str]:
        """Every node that has an origin, by name."""

    async def makers_of(self, kind: str, children: Sequence[str]) -> Sequence[Share]:
        """What of *kind* went directly into any of *children*, by the node that made it; each blob once for a node."""

    async def made_by(self, kind: str, node: str, since: float, until: float, *, variant: str | None = None) -> Share:
        """How much of *kind* the *node* made from *since* to before *until*."""

    async def made_from(
        self, kind: str, node: str, since: float, until: float, limit: int, *, variant: str | None = None
    ) -> Sequence[Share]:
        """What came directly from blobs of *kind* that *node* made from *since* to before *until*, newest first."""


class Tx(Reads, Protocol):
    """What a transaction can write."""

    def apart(self) -> AbstractAsyncContextManager[None]:
        """A part of the transaction that fails alone: if its body raises, what it wrote is undone and no more."""

    async def append(self, envelopes: Sequence[Envelope]) -> Sequence[Envelope]:
        """Append to the log; the same id and body again is the first one.  Raises IdConflict."""

    async def advance(self, reader: str, old: int, new: int) -> None:
        """Move *reader* from *old* to *new*.  Raises Overtaken if it stands elsewhere."""

    async def enrol(self, reader: str, at: int) -> int:
        """The place of *reader*, which starts at *at* if it is new.  Raises Overtaken if it has lapsed."""

    async def lapse(self, readers: Sequence[tuple[str, int]]) -> None:
        """Let these readers, if they still stand there, hold the log no more: until forgotten they cannot read on."""

    async def forget(self, reader: str) -> int:
        """Forget a reader and its letters; how many letters that were.  Raises UnknownName."""

    async def park(self, deliveries: Sequence[Delivery]) -> None:
        """Write down deliveries in their new state."""

    async def enqueue(self, jobs: Sequence[Wanted]) -> Sequence[str]:
        """Ask for *jobs*; the id of each, or of the live job with the same key."""

    async def claim(self, kinds: Collection[str], holder: str, seconds: float, limit: int) -> Sequence[Lease]:
        """Lease up to *limit* ready jobs: highest priority first, oldest first within it."""

    async def renew(self, held: Sequence[Held]) -> None:
        """Say that these are alive.  Raises LeaseLost naming those that are not held by this fence."""

    async def finish(self, held: Sequence[Held]) -> None:
        """End these well.  Raises LeaseLost; then none is ended."""

    async def fail(self, failures: Sequence[Failure]) -> Sequence[str]:
        """End these badly; the ids of those that really were held by this fence."""

    async def resume(self, jobs: Sequence[str]) -> None:
        """End the pause of these ready jobs."""

    async def cancel(self, prefix: str) -> int:
        """Cancel every live job whose key begins with *prefix*; holders lose their lease."""

    async def hold(self, role: str, holder: str, seconds: float, over: RoleRow | None) -> RoleRow | None:
        """Take *role* in a new term, if it is free or still exactly as in *over*; None if somebody was faster."""

    async def keep(self, role: str, term: int) -> None:
        """Renew *role*.  Raises LeaseLost if the term is over."""

    async def under(self, role: str, term: int) -> None:
        """Raise NotLeader unless *term* is the current term of *role*: then this transaction has no effect."""

    async def drop(self, holder: str | None) -> None:
        """Free every role of *holder*, or of everybody."""

    async def put(self, records: Sequence[Put]) -> None:
        """Write records, replacing what was there."""

    async def delete(self, kind: str, ids: Sequence[str]) -> None:
        """Forget records."""

    async def link(self, links: Sequence[tuple[str, str]]) -> None:
        """Say that the first of each pair came from the second."""

    async def originate(self, origins: Sequence[Origin]) -> None:
        """Say how blobs were made; what was first said of a blob and a node stands."""

    async def compact(
        self, keep: int, limit: int, names: Collection[str] = (), within: tuple[int, int] | None = None
    ) -> int:
        """Drop up to *limit* old events, keeping the last *keep* and all that a reader still needs; how many went.

        With *names* only those go, and *within* says between which positions to look for them: else a log that has none
        is read from end to end.  A reader that has lapsed keeps nothing.

        Settled deliveries of events that are gone go too, and free space is given back to the disk.
        """


class Store(Protocol):
    """A store.  One object per database and process."""

    def begin(self) -> AbstractAsyncContextManager[Tx]:
        """A transaction.  Leaving it returns when it is durable, or raises and nothing of it happened."""

    def read(self) -> AbstractAsyncContextManager[Reads]:
        """A consistent view for reading."""

    @property
    def position(self) -> int:
        """The last durable position this process knows of."""

    async def wait(self, after: int | None, seconds: float) -> int:
        """The position once it is behind *after*, or after *seconds*.  With None: once anything was committed here."""
