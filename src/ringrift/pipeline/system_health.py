"""The one health of the system: its parts, a score over them, and the issues with what to do about each.

Each part is judged from facts that were read for it.  A part that was built but could not be measured is *unknown* and
counts 0; a part that nothing here runs is None and outside the score.  A fault is never outweighed by what works: the
score is the mean over the parts, but below 0.8 with any issue, below 0.6 if a part that the loop rests on is unhealthy,
and below 0.4 if several are.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from ringrift.cluster.alerts import Alert, rank
from ringrift.cluster.recovery import FAILURES, ErrorReport, Recovery
from ringrift.kernel.breaker import BreakerState
from ringrift.kernel.health import Health, Status, worst
from ringrift.kernel.value import Value, changed
from ringrift.supervision.status import RESTING, DaemonStatus
from ringrift.work.breakers import LINK, NODE, StoredBreaker
from ringrift.work.pressure import QueuePressure
from ringrift.work.run_states import BY_RUN, EMERGENCY, RunState

_ESSENTIAL = frozenset({"jobs", "breakers", "daemons", "nodes", "store"})  # without them no useful work is done
HEALTHY_FROM, DEGRADED_FROM, CRITICAL_BELOW = 0.8, 0.6, 0.4
_MARGIN = 0.01  # how far below a limit a score stays that must not reach it
_ISSUES_MAX = 50  # issues that one health lists
_ERRORS_MAX = 20  # errors that programs reported in the last hour at which jobs are unhealthy
_BLOB_ALERTS = {"data_lost": Status.UNHEALTHY, "data_corrupted": Status.DEGRADED}
_SHOWN = {*_BLOB_ALERTS, "node_lost", "quarantine", "work_buried"}  # kinds of alert about what a part shows by itself
_SHOWN |= {"dead_letter", "reader_lapsed", "breaker", "pressure", "health"}
_ACTIONS = {"failed": "clear", "stopped": "start"}  # what brings a daemon back, by its state
_LEVELS = {"hard": Status.DEGRADED, "high": Status.DEGRADED, "critical": Status.UNHEALTHY, "stop": Status.UNHEALTHY}
_DELIVERIES = {"dead": (Status.UNHEALTHY, "were abandoned"), "parked": (Status.DEGRADED, "wait for a retry")}
_OF_MANY = ("daemons", "nodes")  # parts that work as long as most of their members do


class HealthFacts(Value):
    """What the health of the system is judged from."""

    nodes: tuple[Health, ...] = ()
    starting: tuple[str, ...] = ()  # nodes that have not reported since they or the coordinator were started
    daemons: Mapping[str, tuple[DaemonStatus, ...]] = {}  # by node
    run_states: tuple[RunState, ...] = ()
    pressures: tuple[QueuePressure, ...] = ()
    breakers: tuple[StoredBreaker, ...] = ()  # those that are not closed
    lapsed: tuple[str, ...] = ()
    deliveries: Mapping[tuple[str, str], int] = {}  # failed ones, by reader and state
    stuck: Mapping[str, str] = {}  # slots without a sign of life: what is held, and by whom
    alerts: tuple[Alert, ...] = ()
    thin: Mapping[str, int] = {}  # files with too few copies, by variant
    errors: tuple[ErrorReport, ...] = ()
    quarantined: frozenset[str] = frozenset()
    recoveries: tuple[Recovery, ...] = ()


class SystemHealth(Value):
    """The health of the system."""

    score: float
    status: Status
    parts: tuple[Health, ...]
    issues: tuple[Health, ...] = ()
    off: tuple[str, ...] = ()  # parts and daemons that are not meant to run here: outside the score

    @property
    def is_critical(self) -> bool:
        return self.score < CRITICAL_BELOW

    def reasons(self) -> list[str]:
        """Every issue in a sentence: the part, what is the case, what to do."""
        return [issue_text(issue) for issue in self.issues]


def issue_text(issue: Health) -> str:
    """*issue* in a sentence."""
    reason = " ".join(issue.reason.split()) or issue.status.name.lower()
    return f"{issue.part}: {reason}" + (f": {issue.remedy}" if issue.remedy else "")


def judge(facts: HealthFacts, only: Collection[str] = ()) -> SystemHealth:
    """The health of the system, or of *only* these parts; one that nothing runs is outside the score."""
    judged = {name: part for name in only or _PARTS if (part := _judge_part(name, facts)) is not None}
    healths = tuple(health for health, _ in judged.values())
    issues = sorted((issue for _, row in judged.values() for issue in row), key=lambda issue: issue.status)
    mean = sum(health.points for health in healths) / len(healths) if healths else 0.0
    score = round(min(mean, _limit(healths)), 4)
    off = [name for name in _PARTS if name not in judged]
    off += [f"nodes/{node} (starting)" for node in facts.starting]
    off += [_daemon_part(node, row) for node, row in _expected_daemons(facts, expected=False)]
    first = tuple(issues[:_ISSUES_MAX])
    return SystemHealth(score=score, status=_status_of(score), parts=healths, issues=first, off=tuple(off))


def _status_of(score: float) -> Status:
    """The word for *score*."""
    if score >= HEALTHY_FROM:
        return Status.HEALTHY
    return Status.DEGRADED if score >= DEGRADED_FROM else Status.UNHEALTHY


def _limit(parts: Collection[Health]) -> float:
    """The highest score that *parts* can have."""
    if worst(parts) is Status.HEALTHY:
        return 1.0
    broken = [part for part in parts if part.part in _ESSENTIAL and part.status is Status.UNHEALTHY]
    return (HEALTHY_FROM, DEGRADED_FROM, CRITICAL_BELOW)[min(len(broken), 2)] - _MARGIN


def _issue(part: str, status: Status, reason: str, remedy: str, since: float | None = None) -> Health:
    return Health(part=part, status=status, reason=reason, since=since, remedy=remedy)


def _judge_part(name: str, facts: HealthFacts) -> tuple[Health, Sequence[Health]] | None:
    """The part *name* and its issues: as its worst member, nodes and daemons by most of them; None without any."""
    members = list(_PARTS[name](facts))
    issues = sorted((member for member in members if member.status is not Status.HEALTHY), key=lambda row: row.status)
    if not issues:
        is_off = name == "daemons" and not members
        return None if is_off else (Health(part=name, status=Status.HEALTHY), ())
    first = issues[0]
    reason = f"{first.part}: {first.reason}" + (f"; and {len(issues) - 1} more" if issues[1:] else "")
    since = min((issue.since for issue in issues if issue.since is not None), default=None)
    health = _issue(name, first.status, reason, first.remedy, since)
    if name in _OF_MANY:
        mean = sum(member.points for member in members) / len(members)
        health = changed(health, status=_status_of_many(members, facts), mean=mean)
    return health, issues


def _status_of_many(members: Sequence[Health], facts: HealthFacts) -> Status:
    """Unhealthy if most of *members* or a critical daemon do not work, unknown if most may not, else degraded."""
    broken = [member.part for member in members if member.status is Status.UNHEALTHY and not member.points]
    idle = [member for member in members if not member.points]
    critical = {_daemon_part(node, row) for node, row in _expected_daemons(facts) if row.critical}
    if critical.intersection(broken) or 2 * len(broken) > len(members):
        return Status.UNHEALTHY
    return Status.UNKNOWN if 2 * len(idle) > len(members) else Status.DEGRADED


def _jobs(facts: HealthFacts) -> Iterator[Health]:
    """The brakes that keep jobs from starting, jobs given up, errors of programs, and severe alerts about the rest."""
    for brake in (brake for brake in facts.run_states if brake.by != BY_RUN):  # a line that rests is no problem
        kind, _, name = brake.scope.partition(":")
        status = Status.UNHEALTHY if not name and brake.state in (EMERGENCY, "stopped") else Status.DEGRADED
        author = "; ".join(filter(None, (brake.by and f"by {brake.by}", brake.reason)))
        reason = str(changed(brake, reason="")) + (f" ({author})" if author else "")
        remedy = "ringrift resume" + (f" --{kind} {name}" if name else "")
        yield _issue("jobs/run_state", status, reason, remedy, brake.since)
    for row in facts.alerts:
        if row.kind == "work_buried":
            remedy = f"ringrift why {row.subject.partition('/')[0]}"
            yield _issue("jobs/given_up", Status.DEGRADED, f"{row.subject}: {row.detail}", remedy, row.since)
        elif row.kind not in _SHOWN and rank(row.level) >= rank("severe"):
            reason = f"alert {row.kind} {row.subject}: {row.detail}"
            yield _issue("jobs/alert", Status.DEGRADED, reason, "ringrift alerts", row.since)
    if errors := [row for row in facts.errors if row.error and row.severity in FAILURES]:
        last, status = errors[-1], Status.UNHEALTHY if len(errors) >= _ERRORS_MAX else Status.DEGRADED
        reason = f"{len(errors)} errors reported in the last hour, last: {last.component}: {last.error}"
        yield _issue("jobs/errors", status, reason, "correct what reports them", last.time)


def _slots(facts: HealthFacts) -> Iterator[Health]:
    remedy = "its lease expires by itself; if not, see  ringrift daemons  for rescue"
    for name, holder in facts.stuck.items():
        yield _issue(f"slots/{name}", Status.DEGRADED, f"{holder} shows no sign of life", remedy)


def _queues(facts: HealthFacts) -> Iterator[Health]:
    """By level of pressure: what slows down the loop is as it should be, what stops it is not."""
    remedy = "it drains by itself; more nodes drain it faster:  ringrift join"
    for row in facts.pressures:
        if (status := _LEVELS.get(row.level)) is not None:
            drain = "" if row.drain_seconds is None else f", {row.drain_seconds:.0f} s until it is drained"
            reason = f"pressure is {row.level}: {row.depth} wait{drain}, {row.trend}"
            yield _issue(f"queues/{row.queue}", status, reason, remedy, row.since)


def _breakers(facts: HealthFacts) -> Iterator[Health]:
    """Those that are not closed: unhealthy if one of a stage or workload is open; a node shows it by itself.

    Behind a link that is not tried there are other transports and holders.
    """
    for row in facts.breakers:
        kind = row.subject.partition(":")[0]
        status = Status.UNHEALTHY if row.state is BreakerState.OPEN and kind not in (NODE, LINK) else Status.DEGRADED
        reason, remedy = f"{row.state.value}: {row.error}", f"correct this {kind}; the next success closes it"
        yield _issue(f"breakers/{row.subject}", status, reason, remedy, row.since)


def _readers(facts: HealthFacts) -> Iterator[Health]:
    """A durable reader that has lapsed gets no events any more."""
    reason = "has lapsed: it left events unread for too long"
    for name in facts.lapsed:
        yield _issue(f"readers/{name}", Status.DEGRADED, reason, f"ringrift readers forget {name}")


def _dead_letters(facts: HealthFacts) -> Iterator[Health]:
    for (reader, state), count in facts.deliveries.items():
        status, text = _DELIVERIES[state]
        yield _issue(f"dead_letters/{reader}", status, f"{count} deliveries {text}", "ringrift dlq list")


def _daemons(facts: HealthFacts) -> Iterator[Health]:
    for node, row in _expected_daemons(facts):
        remedy = f"ringrift daemons {_ACTIONS.get(row.state, 'restart')} {row.name} --node {node}"
        yield changed(row.health, part=_daemon_part(node, row), remedy=remedy)


def _expected_daemons(facts: HealthFacts, *, expected: bool = True) -> list[tuple[str, DaemonStatus]]:
    """The daemons that are meant to run, each with its node, or the others: never started or disabled by settings."""
    pairs = ((node, row) for node, rows in facts.daemons.items() for row in rows)
    return [(node, row) for node, row in pairs if (row.state != RESTING) is expected]


def _daemon_part(node: str, daemon: DaemonStatus) -> str:
    return f"daemons/{node}/{daemon.name}"


def _nodes(facts: HealthFacts) -> Iterator[Health]:
    """Nodes that have not left; without any, nothing runs.  One that gets no jobs as they all fail does not work."""
    remedies = {Status.UNKNOWN: "wait for its next heartbeat", Status.DEGRADED: "ringrift alerts"}
    failing = {row.subject: row for row in facts.breakers if row.state is BreakerState.OPEN}
    for node in facts.nodes:
        breaker = failing.get(f"{NODE}:{node.part}")
        if breaker is not None and node.status is not Status.UNHEALTHY:
            reason = f"its jobs fail, it gets none: {breaker.error}"
            node = changed(node, status=Status.UNHEALTHY, reason=reason, since=breaker.since)
        remedy = remedies.get(node.status, "restart it with  ringrift run  or  ringrift join")
        yield changed(node, part=f"nodes/{node.part}", remedy=remedy)
    if not facts.nodes and facts.starting:
        yield _issue("nodes", Status.UNKNOWN, "no node has reported yet", "wait for their next heartbeats")
    elif not facts.nodes:
        yield _issue("nodes", Status.UNHEALTHY, "no node is running", "start one with  ringrift run")


def _blobs(facts: HealthFacts) -> Iterator[Health]:
    """Files that the lines need: lost or corrupt ones by the alerts about them, and variants with too few copies."""
    for alert in facts.alerts:
        if (status := _BLOB_ALERTS.get(alert.kind)) is not None:
            reason = f"{alert.kind.replace('_', ' ')}: {alert.detail}"
            yield _issue(f"blobs/{alert.subject}", status, reason, "ringrift alerts", alert.since)
    for variant, count in facts.thin.items():
        reason, remedy = f"{count} files have too few copies", "Sync jobs copy them; else start a node"
        yield _issue(f"blobs/{variant}", Status.DEGRADED, reason, remedy)


def _store(facts: HealthFacts) -> Iterator[Health]:
    """The store answers; some daemons may wait for room in it."""
    waits = [row.health.reason for _, row in _expected_daemons(facts) if row.state == "waiting"]
    for reason in dict.fromkeys(waits):
        yield _issue("store", Status.DEGRADED, reason, "free disk space; the daemons go on by themselves")


_RULES = (_jobs, _slots, _queues, _breakers, _readers, _dead_letters, _daemons, _nodes, _blobs, _store)
_PARTS: Mapping[str, Callable[[HealthFacts], Iterator[Health]]] = {rule.__name__[1:]: rule for rule in _RULES}
