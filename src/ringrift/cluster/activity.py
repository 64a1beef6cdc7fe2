"""The activity of one node: its running jobs, counted from the events of its own runner, and its daemons."""

from collections import Counter
from collections.abc import Sequence

from ringrift.bus.router import Router
from ringrift.cluster.daemon_summary import DaemonSummary
from ringrift.events import daemon, work
from ringrift.events.base import Envelope, Event
from ringrift.events.health import Changed
from ringrift.kernel.errors import Backpressure, printable
from ringrift.kernel.health import Health, Status, worst
from ringrift.kernel.value import Value, changed

_JOBS_MAX = 1024  # jobs that are tracked: as many as a node may have slots
_JOBS_LISTED_MAX = 16  # jobs that one heartbeat lists: it is written every few seconds
REASONS_MAX, REASON_CHARACTERS_MAX = 8, 200


class _RunningJob(Value):
    job: str
    kind: str
    variant: str
    since: float
    done: float = 0.0


class Activity(Value):
    """The report of a node about itself, with each heartbeat."""

    jobs: tuple[_RunningJob, ...] = ()
    more: int = 0  # running jobs beyond those
    finished: int = 0  # attempts that succeeded since the node started
    failed: int = 0  # attempts that failed since the node started
    stalls: int = 0  # how often its event loop was blocked since then
    daemons: DaemonSummary = DaemonSummary()


class ActivityTracker:
    """Follows the jobs of one node from its start on."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._jobs: dict[str, _RunningJob] = {}
        self._counts: Counter[type[Event]] = Counter()
        self.status = Status.HEALTHY  # the health that the node reported last

    def subscribe(self, router: Router) -> None:
        events = (work.Started, work.Progressed, work.Finished, work.Failed, daemon.Stalled)
        router.subscribe(events, self.apply, name="activity", on_gap=self.reset)

    async def apply(self, event: Event, envelope: Envelope) -> None:
        """Count what happened to a job.  Events of other nodes change nothing."""
        if getattr(event, "node", None) != self._node:
            return
        match event:
            case work.Started() | work.Progressed():
                self._update(event, envelope.time)
            case work.Finished() | work.Failed():
                self._jobs.pop(event.job, None)
        self._counts[type(event)] += 1

    def _update(self, event: work.Started | work.Progressed, now: float) -> None:
        job = self._jobs.get(event.job)
        if job is None and len(self._jobs) < _JOBS_MAX:
            job = _RunningJob(job=event.job, kind=event.kind, variant=event.variant, since=now)
        if job is not None:
            self._jobs[event.job] = changed(job, done=event.done if isinstance(event, work.Progressed) else 0.0)

    def reset(self, pressure: Backpressure) -> None:
        """Forget the running jobs: events were dropped, perhaps an end.  Jobs that still run report progress again."""
        self._jobs.clear()

    def snapshot(self, daemons: DaemonSummary | None = None) -> Activity:
        """The current activity of the node, with its *daemons*."""
        jobs = tuple(self._jobs.values())
        kinds: dict[str, type[Event]] = {"finished": work.Finished, "failed": work.Failed, "stalls": daemon.Stalled}
        counts = {name: self._counts[kind] for name, kind in kinds.items()} | {"more": len(jobs[_JOBS_LISTED_MAX:])}
        return Activity(jobs=jobs[:_JOBS_LISTED_MAX], daemons=daemons or DaemonSummary(), **counts)


def health_change(node: str, before: Status, parts: Sequence[Health]) -> Changed | None:
    """The event to publish if the health of *node* differs from *before*.

    Parts whose status is unknown, because they have only started or were stopped, do not count.
    """
    reporting = [part for part in parts if part.status is not Status.UNKNOWN]
    status = worst(reporting) if reporting else before
    if status is before:
        return None
    unwell = [part for part in reporting if part.status is not Status.HEALTHY][:REASONS_MAX]
    reasons = tuple(printable(f"{part.part}: {part.reason}", REASON_CHARACTERS_MAX) for part in unwell)
    return Changed(node=node, status=status.name.lower(), before=before.name.lower(), reasons=reasons)
