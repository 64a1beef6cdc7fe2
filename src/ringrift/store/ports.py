"""The interface of every store engine: reads, transactions, stores.

A transaction is all or nothing, and on stable storage when ``begin()`` returns; inside it await only its own verbs.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Protocol

from ringrift.events.base import Envelope
from ringrift.jobs import JobQuery
from ringrift.kernel.value import Value

BEHIND_MAX = 1_000  # unread events of a reader that are counted; beyond that the number does not matter
LIVE_STATES = ("ready", "claimed")  # of a job that has not ended
STATES = (*LIVE_STATES, "done", "dead", "cancelled")
TASK_PREFIX = "task:"  # begins the kind of every task; jobs and their counts leave tasks out
RESERVED: ContextVar[bool] = ContextVar("reserved", default=False)  # whether transactions have reserved places
_Key = str | None  # what a row must have; None: anything
_Names = Collection[str]
TASKS_RETAINED = 1_000  # newest tasks of which the store keeps the body after their end


class JobRequest(Value):
    """A job to enqueue.  While a job with the same *key* is ready or claimed, that one is returned instead."""

    id: str
    kind: str
    variant: str
    key: str
    body: bytes
    priority: int = 40
    node: str | None = None
    time: float = 0.0
    context: str = ""  # the trace context of the code that enqueued it
    pause: float = 0.0  # seconds until it is ready, on the clock of whoever ends pauses


class ClaimTerms(Value):
    """What a claim must leave in the queue."""

    without: Mapping[str, Collection[str]] = {}  # kind → variants of which it gets no job of this kind
    places: Sequence[tuple[Collection[str], int]] = ()  # kinds → how many jobs of these kinds together it may get
    one_per_variant: Collection[str] = ()  # kinds of which it gets at most one job of each variant
    without_jobs: Collection[str] = ()  # ids of jobs that it does not get
    only_jobs: Collection[str] | None = None  # ids of the only jobs that it may get; None: any


class Lease(Value):
    """A claimed job.  Its *fence* is needed to renew, finish or fail it; a later claim gets a higher one."""

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


class Renewal(Value):
    """A holder's claim to its lease, and on renewal its progress and partial outputs."""

    job: str
    fence: int
    progress: float = 0.0
    outputs: bytes | None = None
    seconds: float | None = None  # the length of the lease from now on; None: as before


class Failure(Value):
    """An attempt without a result: the job is ready again after *pause* seconds, or dead if *pause* is None."""

    job: str
    fence: int
    error: str
    pause: float | None
    renewals: int | None = None  # with a number it has effect only if the lease was not renewed since
    started: bool = True  # False: returned to the queue untouched, and not counted as an attempt


class JobRow(Value):
    """One job as stored."""

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


class JobCounter(Value):
    """The number of jobs or tasks of one kind and variant in one state, by holder while they are claimed."""

    kind: str
    variant: str
    holder: str
    count: int


class TaskRequest(Value):
    """A task of a program: a row that *holder*, a node, has claimed from its birth to its end; it is never ready."""

    kind: str  # TASK_PREFIX and its type
    variant: str
    key: str
    body: bytes
    holder: str
    seconds: float
    time: float = 0.0


class TaskChange(Value):
    """A beat of a task (*claimed*) or its end (*done*, *dead*, *cancelled*), with all that it carries now."""

    job: str
    fence: int
    state: str
    body: bytes
    error: str | None = None


class RoleRow(Value):
    """The holder of a role and its term.  Terms only grow; *holder* is empty while the role is free."""

    role: str
    holder: str
    term: int
    renewals: int
    seconds: float


class Put(Value):
    """A record to write; it can be found by kind and id and by each field of *index*."""

    kind: str
    id: str
    body: bytes
    index: Mapping[str, str] = {}


class Origin(Value):
    """How a node made a blob.  Written once; a blob that two nodes made has two."""

    blob: str
    node: str
    kind: str  # games, samples or model
    variant: str
    time: float = 0.0
    games: int = 0  # games in the blob, or that its samples were made from
    job: str = ""
    job_kind: str = ""
    key: str = ""  # key of the job
    seed: int = 0
    generation: int | None = None
    model: str | None = None  # the model that played the games, or that training started from
    samples: str | None = None  # samples that the model was trained on
    workload: str = ""
    version: str = ""  # version of the workload's code
    release: str = ""  # version of RingRift
    settings: str = ""  # digest of the workload's settings; of imported games whether they count before their replay


class Share(Value):
    """The number of blobs and games that belong to *name*, a node or a blob."""

    name: str
    blobs: int
    games: int


class Delivery(Value):
    """A delivery that failed: *parked* until its pause is over, *dead*, *done* after a retry, or *discarded*."""

    reader: str
    position: int
    state: str = "parked"
    attempts: int = 0
    pause: float = 0.0
    error: str = ""
    first: float = 0.0  # time of the first failure
    last: float = 0.0  # time of the last change


class ReaderRow(Value):
    """A durable reader: its position, its unread events up to BEHIND_MAX, and the time of the oldest."""

    reader: str
    position: int
    lapsed: bool
    behind: int
    since: float | None


class Reads(Protocol):
    """Queries.  Every result is bounded."""

    async def read(self, after: int, limit: int, names: Collection[str] = ()) -> Sequence[Envelope]:
        """Up to *limit* events after position *after*, in order; with *names*, only those."""

    async def last(self, before: int | None, limit: int, names: Collection[str] = ()) -> Sequence[Envelope]:
        """The newest *limit* events before position *before*, or of all, in order; with *names*, only those."""

    async def events_by_id(self, ids: Sequence[str]) -> Sequence[Envelope]:
        """The events with these ids, in the order of their positions."""

    async def events_of_trace(self, trace: str, limit: int) -> Sequence[Envelope]:
        """Up to *limit* events of one trace, in order."""

    async def position_before(self, time: float) -> int:
        """The position before the first event at *time* or later; the newest if there is none."""

    async def readers(self) -> Sequence[ReaderRow]:
        """Every durable reader with its unread events."""

    async def positions(self) -> Mapping[str, int]:
        """The position of every durable reader."""

    async def deliveries(self, states: Collection[str], limit: int, reader: str | None = None) -> Sequence[Delivery]:
        """Failed deliveries in these states, oldest first."""

    async def deliveries_at(self, reader: str, positions: Sequence[int]) -> Sequence[Delivery]:
        """Failed deliveries to *reader* of the events at *positions*, in any state, oldest first."""

    async def events_at(self, positions: Sequence[int]) -> Sequence[Envelope]:
        """The events at *positions*, in order; compacted ones are left out."""

    async def jobs(self, states: _Names, limit: int, *, variant: _Key = None, holder: _Key = None) -> Sequence[JobRow]:
        """Jobs in these states, oldest first; no tasks."""

    async def list_jobs(self, query: JobQuery, limit: int) -> Sequence[JobRow]:
        """The jobs that *query* selects, newest first, archived or not.  Its cost grows with history."""

    async def tasks(self, limit: int, *, keys: Sequence[str] | None = None) -> Sequence[JobRow]:
        """Tasks that run, oldest first; with *keys* only those."""

    async def last_tasks(self, limit: int) -> Sequence[JobRow]:
        """The newest tasks, running or ended, oldest first."""

    async def job_counters(self, state: str, kinds: Collection[str]) -> Sequence[JobCounter]:
        """The counters above 0 of *state* for these kinds of jobs and tasks."""

    async def count_jobs(self, variant: str | None = None) -> Mapping[tuple[str, str], int]:
        """The number of jobs by (kind, state), without tasks."""

    async def roles(self) -> Sequence[RoleRow]:
        """Every role that was ever held."""

    async def get(self, kind: str, ids: Sequence[str]) -> Mapping[str, bytes]:
        """The bodies of the records that exist, by id."""

    async def find(self, kind: str, field: str, values: Sequence[str], limit: int) -> Mapping[str, bytes]:
        """The bodies of records whose index *field* has one of *values*, by id and in the order of their ids."""

    async def scan(self, kind: str, after: str, limit: int) -> Mapping[str, bytes]:
        """The bodies of records of *kind*, by id and in the order of their ids, after *after*."""

    async def walk(self, roots: Sequence[str], up: bool, limit: int, kinds: Collection[str] = ()) -> Sequence[str]:
        """Ancestors (*up*) or descendants of *roots*, nearest first; with *kinds* through origins of these alone."""

    async def origins(self, blobs: Sequence[str]) -> Sequence[Origin]:
        """How *blobs* were made, in the order of their first use, then of their time."""

    async def list_origins(self, kind: str, limit: int, *, variant: _Key = None, prefix: str = "") -> Sequence[Origin]:
        """Origins of *kind*, newest first; with *prefix* those whose blob ids begin with it, by id."""

    async def origin_nodes(self, limit: int) -> Sequence[str]:
        """Every node that has an origin, by name."""

    async def shares_by_node(self, kind: str, children: Sequence[str]) -> Sequence[Share]:
        """The blobs of *kind* that went directly into any of *children*, by the node that made them; each blob once."""

    async def share_of_node(self, kind: str, node: str, since: float, until: float, *, variant: _Key = None) -> Share:
        """The blobs of *kind* that *node* made from *since* to before *until*."""

    async def shares_made_from(
        self, kind: str, node: str, since: float, until: float, limit: int, *, variant: str | None = None
    ) -> Sequence[Share]:
        """Blobs made directly from the blobs of *kind* that *node* made in that time, newest first."""


class Tx(Reads, Protocol):
    """A transaction."""

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        """A part of the transaction that fails alone: if its body raises, only its writes are undone."""

    async def append(self, envelopes: Sequence[Envelope]) -> Sequence[Envelope]:
        """Append to the log; an id that exists with the same body returns the first event.  Raises IdConflict."""

    async def advance(self, reader: str, old: int, new: int) -> None:
        """Move *reader* from position *old* to *new*.  Raises Overtaken if its position is another."""

    async def register_reader(self, reader: str, at: int) -> int:
        """The position of *reader*, which starts at *at* if it is new.  Raises Overtaken if it has lapsed."""

    async def lapse_readers(self, readers: Sequence[tuple[str, int]]) -> None:
        """Mark readers as lapsed, unless their position has changed: they cannot continue until they are forgotten."""

    async def forget_reader(self, reader: str) -> int:
        """Delete a reader and its failed deliveries; returns their number.  Raises UnknownName."""

    async def put_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        """Write deliveries in their new state."""

    async def enqueue(self, jobs: Sequence[JobRequest]) -> Sequence[str]:
        """Enqueue *jobs*; returns the id of each, or of the live job with the same key."""

    async def archive_jobs(self, keep: int, limit: int) -> int:
        """Move up to *limit* ended jobs, not the newest *keep*, out of the way of the live; they stay listed."""

    async def claim(
        self, kinds: Collection[str], holder: str, seconds: float, limit: int, terms: ClaimTerms | None = None
    ) -> Sequence[Lease]:
        """Lease up to *limit* ready jobs: highest priority first, then oldest first, as far as *terms* allow."""

    async def register_tasks(self, tasks: Sequence[TaskRequest]) -> Sequence[int | None]:
        """Insert *tasks*; the fence of each, or None where a row with its key is alive."""

    async def change_tasks(self, changes: Sequence[TaskChange]) -> Sequence[str]:
        """Renew or end tasks; the ids of those that were still held by their fence."""

    async def renew(self, renewals: Sequence[Renewal]) -> None:
        """Renew leases.  Raises LeaseLost with the jobs that another fence holds."""

    async def finish(self, leases: Sequence[Renewal]) -> None:
        """Finish jobs.  Raises LeaseLost; then none is finished."""

    async def fail(self, failures: Sequence[Failure]) -> Sequence[str]:
        """End attempts without a result; returns the ids of the jobs that were held by their fence."""

    async def resume(self, jobs: Sequence[str]) -> None:
        """End the pause of ready jobs."""

    async def cancel(self, jobs: Sequence[str]) -> int:
        """Cancel those of *jobs* that are live; how many that were.  Their holders lose the lease."""

    async def hold_role(self, role: str, holder: str, seconds: float, over: RoleRow | None) -> RoleRow | None:
        """Take *role* in a new term, if it is free or still exactly as in *over*; None if another holder was faster."""

    async def renew_role(self, role: str, term: int) -> None:
        """Renew *role*.  Raises LeaseLost if the term is over."""

    async def require_role(self, role: str, term: int) -> None:
        """Raise NotLeader unless *term* is the current term of *role*, so that the transaction has no effect."""

    async def release_roles(self, holder: str | None) -> None:
        """Free every role of *holder*, or of all holders."""

    async def put(self, records: Sequence[Put]) -> None:
        """Write records, replacing what was there."""

    async def delete(self, kind: str, ids: Sequence[str]) -> None:
        """Delete records."""

    async def link(self, links: Sequence[tuple[str, str]]) -> None:
        """Record that the first of each pair was made from the second."""

    async def put_origins(self, origins: Sequence[Origin]) -> None:
        """Record how blobs were made; the first origin of a blob and a node stays."""

    async def compact(self, keep: int, limit: int, names: _Names = (), within: tuple[int, int] | None = None) -> int:
        """Delete up to *limit* old events, of *names* *within* positions, but the last *keep* and what readers need."""


class Store(Protocol):
    """A store.  One object per database and process."""

    def begin(self) -> AbstractAsyncContextManager[Tx]:
        """A transaction.  Leaving it returns when it is durable, or raises and has no effect."""

    def read(self, *, brief: bool = False) -> AbstractAsyncContextManager[Reads]:
        """A consistent view for reading.  Queries of a *brief* one may run on the loop: only lookups by key."""

    @property
    def position(self) -> int:
        """The last durable position that this process has read."""

    async def wait(self, after: int | None, seconds: float) -> int:
        """Wait until the position is after *after*, or *seconds*; with None, until anything was committed here."""
