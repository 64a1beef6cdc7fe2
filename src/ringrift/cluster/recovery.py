"""Recovery: one ladder of steps for everything that fails, and whether the next step may be taken.

    retry ─▶ restart_child ─▶ restart_daemon ─▶ quarantine_node ─▶ ask_person

A subject is ``daemon:<node>/<name>``, ``node:<id>``, ``job:<variant>/<kind>`` or ``component:<name>``; each kind of
subject has the rungs that can help it.  The desk retries, the runner restarts children and the supervisor restarts
daemons as they always do: those are the first rungs, taken by others.  A node that this ladder quarantines gets no new
jobs for a rest, then one that decides; what it did before still counts.  One record per subject names the step that is
under way, so that two healers never act on one thing.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import takewhile

from ringrift.kernel.value import Value, changed
from ringrift.kernel.verdict import Verdict
from ringrift.store.ports import Reads
from ringrift.store.records import Records

RETRY, RESTART_CHILD, RESTART_DAEMON = "retry", "restart_child", "restart_daemon"
QUARANTINE, ASK = "quarantine_node", "ask_person"
_LADDERS: Mapping[str, tuple[str, ...]] = {
    "daemon": (RETRY, RESTART_DAEMON, RESTART_DAEMON, ASK),
    "node": (RETRY, RESTART_CHILD, RESTART_DAEMON, QUARANTINE, ASK),
    "job": (RETRY, RESTART_CHILD, ASK),
    "component": (RETRY, ASK),
}
BY_OTHERS = (RETRY, RESTART_CHILD)  # rungs that the parts themselves have taken before a subject is in trouble
_TRIES_MAX = {"daemon": 3, "node": 3, "job": 2, "component": 2}  # failed steps at which a person is asked
STEPS_PER_HOUR_MAX = 12  # steps against all subjects together; asking a person is not limited
BUDGET_SECONDS = 3600.0
_ERRORS_IN_A_ROW = 3  # errors that a component reports without a success, at which it is in trouble
FAILURES = ("error", "critical")  # severities of reports that count as failures
HEALER = "heal"
STORED_MAX = 500  # errors that are stored; the oldest are deleted first
_RECOVERIES_MAX, _ATTEMPTS_MAX = 1000, 16
_RECENT_SECONDS = 3600.0  # for how long an error counts


class ErrorReport(Value):
    """An error that a program reported; an empty one is a success, which ends the row of errors of its component."""

    id: str
    component: str
    error: str
    severity: str
    node: str
    time: float
    tick: float = 0.0  # the monotonic clock of the machine, whose nodes all use this store


class Trouble(Value):
    """A subject that does not work."""

    subject: str
    error: str
    taken: tuple[str, ...] = ()  # rungs that others have taken already, or that cannot be taken now

    @property
    def kind(self) -> str:
        return self.subject.partition(":")[0]


class Attempt(Value):
    """A step that was taken."""

    step: str
    by: str
    time: float
    helped: bool | None = None  # None while it is under way
    detail: str = ""


class Recovery(Value):
    """The steps against the trouble of one subject."""

    subject: str
    error: str
    since: float
    attempts: tuple[Attempt, ...] = ()
    number: int = 0  # grows with every change: an observer sees by it how long nothing has changed

    @property
    def under_way(self) -> Attempt | None:
        """The step that is under way."""
        return next((last for last in self.attempts[-1:] if last.helped is None), None)

    def with_attempt(self, attempt: Attempt) -> "Recovery":
        """This recovery with one more step."""
        return changed(self, attempts=(*self.attempts, attempt)[-_ATTEMPTS_MAX:], number=self.number + 1)

    def settled(self, helped: bool) -> "Recovery":
        """This recovery with the outcome of the step that is under way."""
        assert self.attempts
        last = changed(self.attempts[-1], helped=helped)
        return changed(self, attempts=(*self.attempts[:-1], last), number=self.number + 1)


ERRORS = Records("reported_error", ErrorReport, id="id", limit=STORED_MAX)  # programs write them
RECOVERIES = Records("recovery_of", Recovery, id="subject", limit=_RECOVERIES_MAX)  # while it is in trouble


def next_step(subject: str, attempts: Sequence[Attempt], taken: Collection[str] = ()) -> str | None:
    """The rung after *attempts* and those *taken* otherwise; None when a person has been asked.

    Steps before the last one that helped belong to an earlier trouble.
    """
    kind, failed = subject.partition(":")[0], _failed_attempts(attempts)
    counts = Counter(attempt.step for attempt in failed)
    if ASK in counts:
        return None
    if len(failed) >= _TRIES_MAX[kind]:
        return ASK
    counts.update(dict.fromkeys(taken, len(_LADDERS[kind])))
    for rung in _LADDERS[kind]:
        if not counts[rung]:
            return rung
        counts[rung] -= 1
    return ASK


def _failed_attempts(attempts: Sequence[Attempt]) -> list[Attempt]:
    """The attempts since the last one that helped, the latest first."""
    return list(takewhile(lambda attempt: not attempt.helped, reversed(attempts)))


def judge(trouble: Trouble, recovery: Recovery, *, is_rested: bool, steps_left: int, now: float) -> Verdict:
    """Whether the next step may be taken, with its name as the rule: not too soon after the last, nor too many."""
    gate, number = f"heal {trouble.subject}", len(_failed_attempts(recovery.attempts))
    limit = _TRIES_MAX[trouble.kind]
    step, last = next_step(trouble.subject, recovery.attempts, trouble.taken), recovery.under_way
    since = recovery.attempts[-1].time if recovery.attempts else recovery.since
    if step is None:
        rule = f"a person was asked: {trouble.error}"
    elif not is_rested:
        rule = f"{f'{last.step} is under way' if last else 'rests'}, next: {step}: {trouble.error}"
    elif step != ASK and steps_left <= 0:
        rule, number, limit = f"steps in the last hour, before {step}", STEPS_PER_HOUR_MAX, STEPS_PER_HOUR_MAX
    else:
        return Verdict(gate=gate, allowed=True, rule=step, value=number, limit=limit, since=now)
    return Verdict(gate=gate, allowed=False, rule=rule, value=number, limit=limit, since=since)


async def recent_errors(view: Reads, tick: float) -> list[ErrorReport]:
    """Reports of the hour before *tick*; a later one was written before the machine was started again."""
    return [report for report in await ERRORS.all(view) if 0 <= tick - report.tick < _RECENT_SECONDS]


def failing_components(reports: Iterable[ErrorReport]) -> dict[str, ErrorReport]:
    """Components that reported several errors in a row, each with the last one."""
    rows: dict[str, list[ErrorReport]] = {}
    for report in reports:
        if not report.error:
            rows[report.component] = []
        elif report.severity in FAILURES:
            rows.setdefault(report.component, []).append(report)
    return {component: row[-1] for component, row in rows.items() if len(row) >= _ERRORS_IN_A_ROW}
