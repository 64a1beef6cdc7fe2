"""The desk over the wire: what a worker without a store and its coordinator say to each other about jobs."""

from ringrift.kernel.value import Value
from ringrift.store.ports import Lease, Renewal
from ringrift.work.desk import Fault
from ringrift.work.durations import JobRun
from ringrift.work.limits import LineWork
from ringrift.work.run_states import RunStates
from ringrift.workload.api import JobResult


class Claim(Value):
    """`claim`: lease up to *limit* jobs of *kinds* to the node that asks."""

    kinds: tuple[str, ...]
    limit: int


class Claimed(Value):
    """The leases, and what the jobs of their lines run with; a variant without a row has the coordinator's settings."""

    leases: tuple[Lease, ...] = ()
    lines: dict[str, LineWork] = {}  #: By variant, for every variant of *leases*.


class Renew(Value):
    """`renew`: renew leases with progress and checkpoints; the checkpoints' blobs have been uploaded before.

    The coordinator reads only the blob of each checkpoint: it holds them itself.
    """

    renewals: tuple[Renewal, ...]


class Renewed(Value):
    """The leases that were lost; the others are renewed."""

    lost: tuple[str, ...] = ()


class FinishedJob(Value):
    """A job that is done: its lease, what its workload returned, and how it went; its outputs have been uploaded."""

    lease: Renewal
    result: JobResult
    context: str = ""  #: The trace of the job.
    run: JobRun | None = None


class Finish(Value):
    """`finish`: end leases with their results.  Repeated under the same fence by the same node it is a success."""

    jobs: tuple[FinishedJob, ...]


class RefusedResult(Value):
    """A result that is not what its job asks for: the fields of :class:`ringrift.kernel.errors.JobFailed`."""

    reason: str
    retry: bool = True
    blob: str | None = None


class FinishAnswer(Value):
    """Jobs by id that are not done: those whose lease was lost, and those whose result was refused (still leased)."""

    lost: tuple[str, ...] = ()
    refused: dict[str, RefusedResult] = {}


class Fail(Value):
    """`fail`: end leases without a result."""

    faults: tuple[Fault, ...]


class FailAnswer(Value):
    """By job whether it is tried again, without those that were not held any more."""

    again: dict[str, bool] = {}


class GiveBack(Value):
    """`give_back`: end every lease of the node that asks, except those of the jobs *keep*."""

    reason: str
    started: bool  #: Whether their tries are used up.
    keep: tuple[str, ...] = ()  #: Ids of jobs that it still delivers.


class GivenBack(Value):
    """The jobs whose leases ended."""

    jobs: tuple[str, ...] = ()


class IslandBatch(Value):
    """Games that were played without a lease, or whose lease was lost: own key (node that asks, epoch, number).

    Its blob has been uploaded before.  It is never the result of the job that it may stem from.
    """

    epoch: str  #: Of the process that played it.
    number: int
    body: bytes  #: The Play job, as :func:`ringrift.jobs.encode` writes it.
    result: JobResult
    context: str = ""
    run: JobRun | None = None


class Ingest(Value):
    """`ingest`: count island batches, each in one transaction that enqueues and finishes it.  By key at most once."""

    batches: tuple[IslandBatch, ...]


class IngestAnswer(Value):
    """By `epoch:number` why a batch was refused for good; all others are counted, now or before."""

    refused: dict[str, str] = {}


class WatchWork(Value):
    """The stream `work`: wake-ups while there may be jobs of *kinds*, and run states when they change."""

    kinds: tuple[str, ...] = ()


class WorkNote(Value):
    """One note of the stream `work`."""

    ready: bool = False  #: There may be new jobs.
    run_states: RunStates | None = None  #: The scopes that do not run, when that has changed; and first of all.
