"""Breakers: what has failed several times in a row gets no more jobs for a while, then one job that decides.

There is one for each node, each stage and each workload, and the core opens and closes them in the transactions that
end jobs.  One bad node never decides for others: the breaker of a stage or a workload opens only on failures of two
nodes, or of the only node that does such jobs.  Nor does one bad job: its tries count once, unless its worker did not
even start.  A job that was given back, lost its lease or has a bad input says nothing.  Jobs that a node does itself,
without a worker, count for their stage alone.  A failure that no job can cause opens the breaker of its node at once,
first for a second, and twice as long each time until a job succeeds.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.health import BreakerChanged
from ringrift.jobs import JOBS, NODE_KINDS, STAGES
from ringrift.kernel import breaker as rules
from ringrift.kernel.breaker import Breaker, BreakerLimits, BreakerState
from ringrift.kernel.settings import BreakerSettings
from ringrift.kernel.stall_detector import Observation
from ringrift.kernel.value import Value, changed
from ringrift.kernel.verdict import Verdict
from ringrift.store.ports import JobRow, Lease, Reads, Tx
from ringrift.store.records import Records
from ringrift.work.limits import KINDS

_NODES_MAX = 16  # nodes of failures in a row that are remembered: two are enough to decide
_JOBS_MAX = 64  # jobs of failures in a row that are remembered
_CLOSED_MAX = 1000  # breakers that opened once, are closed and are remembered all the same; the oldest go first
_IN_WORKLOAD = frozenset(job.kind() for job in JOBS if job.runs_in == "workload")
NODE, STAGE, WORKLOAD, LINK = "node", "stage", "workload", "link"
_OBSERVED = "breaker:"
_SPAWN = "spawn"
# Causes of failures that are the node's and not the job's → what that node cannot do.
NODE_CAUSES = {_SPAWN: "cannot start workers", "no_room": "has no room", "folder_away": "cannot reach its files"}
_PAUSE_SECONDS_MIN = 1.0  # how long a node rests after the first such failure
_DOUBLINGS_MAX = 32


class StoredBreaker(Breaker):
    """The breaker of *subject*: ``node:<id>``, ``stage:<stage>``, ``workload:<name>``, ``link:<node>/<transport>``."""

    subject: str
    nodes: tuple[str, ...] = ()  # the nodes of its failures in a row
    jobs: tuple[str, ...] = ()  # the jobs of its failures in a row, the newest last
    trials: tuple[str, ...] = ()  # the jobs that were let through since it is half open
    seconds: float = 0.0  # how long it stays open, on the clock of its observer
    since: float = 0.0  # when its state changed, for people
    failing_since: float = 0.0  # when the failures in a row began, for people
    cause: str = ""  # what kind of end the last failure was
    pauses: int = 0  # how often it has opened since the last success

    def is_open(self) -> bool:
        """Whether it keeps jobs from starting, all or all but one."""
        return self.state is not BreakerState.CLOSED

    def verdict(self, gate: str) -> Verdict:
        """Whether another job may start."""
        is_allowed = rules.would_allow(self, BreakerLimits())
        word = "is tried with one job" if self.state is BreakerState.HALF_OPEN else f"is {self.state.value}"
        rule = f"the breaker of {self.subject} {word}" + (f": {self.error}" if self.error else "")
        rule, since = self.node_fault() or rule, self.failing_since or self.since
        return Verdict(gate=gate, allowed=is_allowed, rule=rule, value=1, limit=1, since=since)

    def node_fault(self) -> str:
        """What its node cannot do and why, where no job is to blame; otherwise empty."""
        kind, _, name = self.subject.partition(":")
        if kind != NODE or self.cause not in NODE_CAUSES:
            return ""
        return f"node {name} {NODE_CAUSES[self.cause]}: {' '.join(self.error.split())}"


BREAKERS = Records("breaker", StoredBreaker, id="subject", limit=20_000)  # any other subject is closed
_Breakers = Mapping[str, StoredBreaker]  # by subject


class JobEnd(Value, kw_only=False):
    """The end of a job as a breaker counts it."""

    job: str
    kind: str
    node: str
    error: str | None = None  # None: it succeeded
    cause: str = "error"  # what kind of end it was: see :class:`ringrift.events.work.Failed`
    workload: str = ""  # that of its line


def _subjects_of(kind: str, node: str, workload: str) -> tuple[str, ...]:
    """The subjects that a job of *kind* on *node* belongs to."""
    node, workload = "" if kind in NODE_KINDS else node, workload if kind in _IN_WORKLOAD else ""
    names = {STAGE: STAGES.get(kind), NODE: node, WORKLOAD: workload}
    return tuple(f"{scope}:{name}" for scope, name in names.items() if name)


def _settle(breaker: StoredBreaker, end: JobEnd, settings: BreakerSettings, is_alone: bool) -> StoredBreaker:
    """*breaker* after a job ended; *is_alone*: no other node does such jobs."""
    kind = breaker.subject.partition(":")[0]
    # A worker that reports an error is a sound worker.
    if end.error is None or (kind == WORKLOAD and end.cause not in (_SPAWN, "child_died")):
        return changed(rules.succeeded(breaker), nodes=(), jobs=(), trials=(), cause="", pauses=0)
    if breaker.state is BreakerState.HALF_OPEN and end.job not in breaker.trials:
        return breaker  # it began before the breaker opened
    nodes = tuple(dict.fromkeys((*breaker.nodes, end.node)))[:_NODES_MAX]
    if breaker.state is BreakerState.CLOSED and end.cause != _SPAWN and end.job in breaker.jobs:
        return changed(breaker, nodes=nodes, error=end.error)  # one more try of a job that may be broken itself
    may_open = kind == NODE or is_alone or len(nodes) > 1
    failures_max, seconds = getattr(settings, f"{kind}_failures_max"), settings.reset_seconds
    if kind == NODE and end.cause in NODE_CAUSES:
        failures_max, seconds = 1, min(_PAUSE_SECONDS_MIN * 2.0 ** min(breaker.pauses, _DOUBLINGS_MAX), seconds)
    jobs, pauses = (*breaker.jobs, end.job)[-_JOBS_MAX:], breaker.pauses
    limits = BreakerLimits(failures_max=failures_max, reset_seconds=seconds)
    after = rules.failed(breaker, limits, end.error, may_open=may_open)
    if after.opened > breaker.opened:
        after = changed(after, seconds=seconds, pauses=pauses + 1)
    return changed(after, nodes=nodes, jobs=jobs, trials=(), cause=end.cause)


def admit(
    breakers: _Breakers, kinds: Iterable[str], node: str, workload: str
) -> tuple[dict[str, Verdict], tuple[tuple[tuple[str, ...], int], ...]]:
    """Refusals among *kinds* on *node*, by kind, and for each half-open breaker its kinds, of which one may begin."""
    subjects = {kind: _subjects_of(kind, node, workload) for kind in kinds}
    verdicts = {name: breaker.verdict("claim") for name, breaker in breakers.items()}
    refusing = {name: verdict for name, verdict in verdicts.items() if not verdict.allowed}
    first = {kind: next((name for name in names if name in refusing), "") for kind, names in subjects.items()}
    refusals = {kind: refusing[name] for kind, name in first.items() if name}
    half_open = [name for name, breaker in breakers.items() if breaker.state is BreakerState.HALF_OPEN]
    groups = [tuple(kind for kind in subjects if kind not in refusals and name in subjects[kind]) for name in half_open]
    return refusals, tuple((group, 1) for group in groups if group)


async def load_breakers(
    view: Reads, kinds: Iterable[str], node: str, workloads: Collection[str]
) -> dict[str, StoredBreaker]:
    """The breakers that concern jobs of *kinds* on *node*, by subject; those without failures are left out."""
    subjects = dict.fromkeys(n for kind in kinds for workload in workloads for n in _subjects_of(kind, node, workload))
    return await BREAKERS.get_many(view, list(subjects))


async def begin_trials(tx: Tx, breakers: _Breakers, leases: Iterable[tuple[Lease, str]]) -> None:
    """Record which leases, each with its workload, were let through half-open breakers: no other job is until then."""
    for lease, workload in leases:
        names = [name for name in _subjects_of(lease.kind, lease.holder, workload) if name in breakers]
        rows = [breakers[name] for name in names if breakers[name].state is BreakerState.HALF_OPEN]
        await BREAKERS.put(tx, [changed(row, tries=row.tries + 1, trials=(*row.trials, lease.job)) for row in rows])


async def record_ends(
    tx: Tx, envelopes: EnvelopeFactory, ends: Sequence[JobEnd], settings: BreakerSettings, now: float
) -> None:
    """Count *ends* and publish every breaker that opened or closed; if nothing changes, nothing is written."""
    breakers: dict[str, StoredBreaker] = {}
    for end in ends:
        breakers |= await load_breakers(tx, [end.kind], end.node, [end.workload])
    before, peers = dict(breakers), await NODES.all(tx) if any(end.error is not None for end in ends) else []
    for end in ends:
        for subject in _subjects_of(end.kind, end.node, end.workload):
            row = breakers.get(subject)
            if row is None and end.error is None:
                continue
            is_alone = not any(peer.does(end.kind) for peer in peers if peer.id != end.node)
            breakers[subject] = _settle(row or StoredBreaker(subject=subject), end, settings, is_alone)
    await write_changes(tx, envelopes, before, breakers.values(), now)


def observations(breakers: Iterable[StoredBreaker]) -> list[Observation]:
    """The open breakers, for the observer that ends their time."""
    rows = [row for row in breakers if row.state is BreakerState.OPEN]
    return [Observation(_OBSERVED + row.subject, row.opened, row.seconds) for row in rows]


def rest(breakers: Iterable[StoredBreaker], stalled: Collection[str], claimed: Iterable[JobRow]) -> list[StoredBreaker]:
    """The breakers that change: *stalled* ones were open for their time, and trials that are over free their place.

    A trial is over when its job is not *claimed* any more, or by another node than the one that is tried.
    """
    holders = {row.id: row.holder for row in claimed}
    result = []
    for row in breakers:
        if row.state is BreakerState.OPEN and _OBSERVED + row.subject in stalled:
            result.append(rules.rested(row))
        elif any(not _is_running(row.subject, holders.get(job)) for job in row.trials):
            result.append(changed(rules.undecided(row), trials=()))
    return result


def _is_running(subject: str, holder: str | None) -> bool:
    kind, _, name = subject.partition(":")
    return holder is not None and (kind != NODE or holder == name)


async def write_rested(
    tx: Tx, envelopes: EnvelopeFactory, before: Sequence[StoredBreaker], rested: Sequence[StoredBreaker], now: float
) -> None:
    """Write *rested* where the stored breaker is still as *before*; delete the oldest of too many closed ones."""
    stored = {row.subject: row for row in before}
    current = await BREAKERS.get_many(tx, [row.subject for row in rested])
    rows = [row for row in rested if current.get(row.subject) == stored[row.subject]]
    await write_changes(tx, envelopes, stored, rows, now)
    closed = sorted((row for row in before if not row.is_open() and not row.failures), key=lambda row: row.since)
    await BREAKERS.delete(tx, [row.subject for row in closed[: max(len(closed) - _CLOSED_MAX, 0)]])


async def write_changes(
    tx: Tx, envelopes: EnvelopeFactory, before: _Breakers, rows: Iterable[StoredBreaker], now: float
) -> None:
    """Write those of *rows* that differ from *before*, and publish every one that opened or closed."""
    events, changes = [], []
    for row in rows:
        old = before.get(row.subject, StoredBreaker(subject=row.subject))
        if row == old:
            continue
        if row.failures and not old.failures:
            row = changed(row, failing_since=now)
        if row.state is not old.state:
            row = changed(row, since=now)
            words = {"state": row.state.value, "before": old.state.value, "error": row.error}
            failures = old.failures if row.state is BreakerState.CLOSED else row.failures
            event = BreakerChanged(subject=row.subject, failures=failures, **words)
            events.append(envelopes.make(event, source="breakers"))
        changes.append(row)
    await BREAKERS.put(tx, [row for row in changes if row.failures or row.opened])
    await BREAKERS.delete(tx, [row.subject for row in changes if not (row.failures or row.opened)])
    await tx.append(events)


class _Peer(Value):
    """What breakers need of a node's record, which the cluster's roster writes."""

    id: str
    profile: str
    gone: bool = False

    def does(self, kind: str) -> bool:
        """Whether it takes jobs of *kind*."""
        return not self.gone and kind in KINDS.get(self.profile, ())


NODES = Records("node", _Peer, id="id")
