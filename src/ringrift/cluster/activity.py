"""Activity: what one node is doing, kept from what its runner and its supervisor tell, and shown with every beat."""

from collections.abc import Sequence

from ringrift.bus.router import Router
from ringrift.cluster.duties import Duties
from ringrift.events import daemon, work
from ringrift.events.base import Envelope, Event
from ringrift.events.health import Changed
from ringrift.kernel.errors import Backpressure, told
from ringrift.kernel.health import Health, Status, worst
from ringrift.kernel.value import Value

JOBS_MAX = 1024
"""Jobs that are remembered: as many as a node may have slots."""
JOBS_SHOWN_MAX = 16
"""Jobs that go with a beat: it is written every few seconds."""
REASONS_MAX, REASON_CHARACTERS_MAX = 8, 200


class Running(Value):
    """A job under way."""

    job: str
    kind: str
    variant: str
    since: float
    done: float = 0.0


class Doing(Value):
    """What a node does, as it goes with its beat."""

    jobs: tuple[Running, ...] = ()
    more: int = 0
    """Jobs under way beyond those."""
    finished: int = 0
    failed: int = 0
    """Tries, since the node started."""
    daemons: int = 0
    """How many run."""
    failing: tuple[str, ...] = ()
    """Daemons that ended with an error and have not started again."""
    duties: Duties = Duties()
    """What there is to say of each daemon."""


class Activity:
    """Of one node, from its start on."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._jobs: dict[str, Running] = {}
        self._finished = self._failed = 0
        self._daemons: dict[str, bool] = {}
        self.status = Status.HEALTHY
        """How the node is, as it was last said."""

    def listen(self, router: Router) -> None:
        """Hear what the node's own parts tell, from now on."""
        router.subscribe(
            (work.Started, work.Progressed, work.Finished, work.Failed, daemon.Started, daemon.Stopped),
            self.hear, name="activity", gap=self.miss,
        )  # fmt: skip

    async def hear(self, event: Event, envelope: Envelope) -> None:
        """Take in what happened to a job or a daemon.  What happened on other nodes changes nothing."""
        if getattr(event, "node", None) != self._node:
            return
        match event:
            case work.Started() | work.Progressed():
                self._goes_on(event, envelope.time)
            case work.Finished():
                self._jobs.pop(event.job, None)
                self._finished += 1
            case work.Failed():
                self._jobs.pop(event.job, None)
                self._failed += 1
            case daemon.Started():
                self._daemons[event.daemon] = True
            case daemon.Stopped(error=""):
                self._daemons.pop(event.daemon, None)
            case daemon.Stopped():
                self._daemons[event.daemon] = False

    def _goes_on(self, event: work.Started | work.Progressed, now: float) -> None:
        known = self._jobs.get(event.job)
        since = known.since if known else now
        done = event.done if isinstance(event, work.Progressed) else 0.0
        if known or len(self._jobs) < JOBS_MAX:
            self._jobs[event.job] = Running(
                job=event.job, kind=event.kind, variant=event.variant, since=since, done=done
            )

    def miss(self, pressure: Backpressure) -> None:
        """Something was told and not heard, perhaps an end: what still runs will be heard of again."""
        self._jobs.clear()

    def value(self) -> Doing:
        """What the node does now."""
        jobs = tuple(self._jobs.values())
        return Doing(
            jobs=jobs[:JOBS_SHOWN_MAX], more=len(jobs[JOBS_SHOWN_MAX:]), finished=self._finished, failed=self._failed,
            daemons=sum(self._daemons.values()), failing=tuple(n for n, runs in self._daemons.items() if not runs),
        )  # fmt: skip


def change(node: str, before: Status, parts: Sequence[Health]) -> Changed | None:
    """What is to be said of how *node* is, if that differs from *before*.

    Parts of which nothing is known, because they have only started or were stopped, do not count.
    """
    known = [part for part in parts if part.status is not Status.UNKNOWN]
    status = worst(known) if known else before
    if status is before:
        return None
    wrong = [part for part in known if part.status is not Status.HEALTHY][:REASONS_MAX]
    reasons = tuple(told(f"{part.part}: {part.reason}", REASON_CHARACTERS_MAX) for part in wrong)
    return Changed(node=node, status=status.name.lower(), before=before.name.lower(), reasons=reasons)
