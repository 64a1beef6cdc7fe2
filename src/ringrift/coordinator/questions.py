"""What a program asks a coordinator for, besides the log: jobs, models, nodes and what is going on."""

from ringrift.cluster.alerts import Alert
from ringrift.cluster.roster import NodeRecord
from ringrift.kernel.value import Value
from ringrift.pipeline.line import Line
from ringrift.pipeline.models import Model
from ringrift.work.job_facts import JobFacts

READERS = "program."  #: Begins the name of every handler of a program, so that none takes the place of a daemon's.


class ShowJob(Value):
    """`jobs.show`: all about the job whose id begins or ends with *id*.  Raises UnknownName, InputError."""

    id: str


class ShownJob(Value):
    """The job."""

    facts: JobFacts


class EnqueueJob(Value):
    """`jobs.enqueue`: enqueue the job of this *kind* in *body*, as :func:`ringrift.jobs.encode` writes it."""

    kind: str
    body: bytes


class EnqueuedJob(Value):
    """Its id, or that of the live job with the same key."""

    id: str


class CancelJob(Value):
    """`jobs.cancel`: cancel a job."""

    id: str
    reason: str


class CancelledJob(Value):
    """Whether it had not ended."""

    cancelled: bool


class ListModels(Value):
    """`models.list`: every model that was a candidate or champion, of one *variant* or of all, a page at a time."""

    variant: str | None = None
    after: int = 0  #: How many have been listed before.


class Models(Value):
    """A page of models, by generation; *more* if it is not the last."""

    models: tuple[Model, ...] = ()
    more: bool = False


class FindModel(Value):
    """`models.find`: the champion of *name*, a line, or with *any* the one model that *name* means."""

    name: str
    any: bool = False


class FoundModel(Value):
    """The name of its file, empty if the line has no champion, and its life, if it was ever a candidate."""

    blob: str = ""
    model: Model | None = None


class AskStatus(Value):
    """`status`: what is going on."""


class JobCount(Value):
    """The number of jobs of one kind in one state."""

    kind: str
    state: str
    count: int


class StatusAnswer(Value):
    """Lines, open alerts, jobs, and the ids of the nodes that are present, whose records `facts` has."""

    nodes: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()
    alerts: tuple[Alert, ...] = ()
    jobs: tuple[JobCount, ...] = ()


class AskFacts(Value):
    """`facts`: records of nodes with the facts that each has measured: of the first of *nodes*, or of all by id."""

    nodes: tuple[str, ...] = ()
    after: str = ""  #: The last node that was listed before.


class NodeRecords(Value):
    """A page of records, by id; *more* if it is not the last."""

    nodes: tuple[NodeRecord, ...] = ()
    more: bool = False
