"""Alerts: which events are trouble and which end it, and the trouble that is open.

A subject is a path: ``n1/fill`` lies below ``n1``.  Clearing a subject clears everything of that kind below it.
"""

from collections.abc import Sequence

import msgspec

from ringrift.events import alert, daemon, data, evaluation, health, letter, model, node, pipeline, reader, work
from ringrift.events.base import Event
from ringrift.kernel.errors import told
from ringrift.kernel.value import Value
from ringrift.store.ports import Put, Reads, Tx

KIND = "alert"
REGRESSIONS = {"minor": "minor", "moderate": "warning", "severe": "severe", "critical": "critical"}
"""What a loss of strength is called → the level of its alert."""
LEVELS = ("info", "minor", "warning", "severe", "critical")
OPEN_MAX = 1000
"""Alerts that may be open; what comes beyond is counted in one alert of its own."""
CLOSED_MAX = 1000
"""Alerts that are remembered after they were cleared; the oldest go first."""
NAME_CHARACTERS_MAX, DETAIL_CHARACTERS_MAX = 200, 500
TOO_MANY = "alerts"


class Open(Value):
    """Trouble: an alert of this kind about this subject."""

    kind: str
    subject: str
    level: str
    detail: str = ""
    count: int = 1


class Close(Value):
    """The end of trouble, also of all that lies below *subject*."""

    kind: str
    subject: str


class Alert(Value):
    """Trouble as it is written down."""

    kind: str
    subject: str
    level: str
    detail: str
    since: float
    until: float | None = None
    count: int = 1
    """How often it was said since it opened."""

    @property
    def id(self) -> str:
        """Its name: there is one alert of each kind about each subject."""
        return f"{self.kind}:{self.subject}"


class Settled(Value):
    """What changes: alerts to be written, and what is said of them."""

    alerts: tuple[Alert, ...]
    events: tuple[alert.Raised | alert.Cleared, ...]


EVENTS: tuple[type[Event], ...] = (
    daemon.Failed, daemon.Cleared, data.Lost, data.Corrupted, work.Buried, work.PressureChanged, node.Joined, node.Left,
    node.Lost, node.Recovered, health.Changed, letter.Changed, reader.Lapsed, reader.Forgotten, pipeline.Overdue,
    pipeline.Moved, evaluation.Plateaued, evaluation.Reviewed, model.Promoted, model.RolledBack, alert.Raised,
    alert.Cleared, node.Quarantined, node.Released,
)  # fmt: skip
"""Those that open or close an alert."""


def judge(event: Event) -> tuple[Open | Close, ...]:
    """What *event* means: which alerts it opens, which it closes."""
    match event:
        case daemon.Failed():
            return (Open(kind="daemon", subject=f"{event.node}/{event.daemon}", level="severe", detail=event.error),)
        case daemon.Cleared():
            return (Close(kind="daemon", subject=f"{event.node}/{event.daemon}"),)
        case node.Quarantined():
            return (Open(kind="quarantine", subject=event.node, level="severe", detail=event.reason),)
        case node.Released():
            return (Close(kind="quarantine", subject=event.node),)
        case model.RolledBack():
            back = f"went back from {event.model[:12]} to {event.to[:12]}: {event.reason}"
            return (
                Open(
                    kind="regression", subject=event.variant, level=REGRESSIONS.get(event.level, "warning"), detail=back
                ),
            )
        case evaluation.Reviewed(passed=True):
            return (Close(kind="regression", subject=event.variant),)
        case node.Lost():
            silent = f"not heard of for {event.seconds:g} s"
            return (Open(kind="node_lost", subject=event.node, level="warning", detail=silent),)
        case node.Recovered():
            return (Close(kind="node_lost", subject=event.node),)
        case node.Left():
            return tuple(Close(kind=kind, subject=event.node) for kind in ("node_lost", "health"))
        case node.Joined():  # a new process, which has failed in nothing yet
            return tuple(Close(kind=kind, subject=event.node) for kind in ("node_lost", "health", "daemon"))
        case health.Changed(status="healthy"):
            return (Close(kind="health", subject=event.node),)
        case health.Changed():
            level = "minor" if event.status == "degraded" else "severe"
            why = f"{event.status}: {'; '.join(event.reasons)}"
            return (Open(kind="health", subject=event.node, level=level, detail=why),)
        case data.Lost():
            detail = f"{event.blob[:12]}: {event.reason}"
            return (Open(kind="data_lost", subject=event.variant, level="severe", detail=detail),)
        case data.Corrupted():
            return (Open(kind="data_corrupted", subject=event.node, level="warning", detail=event.blob[:12]),)
    return _judge_work(event)


def _judge_work(event: Event) -> tuple[Open | Close, ...]:
    """The other half of the table: jobs, lines, letters, readers, and what others say."""
    match event:
        case work.Buried():
            subject, detail = f"{event.variant}/{event.kind}", f"after {event.attempts} tries: {event.error}"
            return (Open(kind="work_buried", subject=subject, level="warning", detail=detail),)
        case pipeline.Moved():  # the line has gone on, with or without what was given up
            return tuple(Close(kind=kind, subject=event.variant) for kind in ("work_buried", "overdue"))
        case pipeline.Overdue():
            detail = f"{event.stage} for {event.seconds:.0f} s, more than {event.limit:g} s"
            return (Open(kind="overdue", subject=event.variant, level="warning", detail=detail),)
        case evaluation.Plateaued():
            detail = f"{event.rejections} candidates in a row were rejected"
            return (Open(kind="plateau", subject=event.variant, level="minor", detail=detail),)
        case model.Promoted():
            return (Close(kind="plateau", subject=event.variant),)
        case work.PressureChanged(level="hard"):
            detail = f"{event.ready} jobs wait, the limit is {event.limit}"
            return (Open(kind="pressure", subject="queue", level="warning", detail=detail),)
        case work.PressureChanged():
            return (Close(kind="pressure", subject="queue"),)
        case letter.Changed(state="dead"):
            count = len(event.positions)
            return (Open(kind="letter", subject=event.reader, level="severe", detail=event.error, count=count),)
        case letter.Changed(state="done" | "discarded"):
            return (Close(kind="letter", subject=event.reader),)
        case reader.Lapsed():
            detail = f"an event has waited for {event.seconds:.0f} s"
            return (Open(kind="reader_lapsed", subject=event.reader, level="warning", detail=detail),)
        case reader.Forgotten():  # its letters are forgotten with it
            return tuple(Close(kind=kind, subject=event.reader) for kind in ("reader_lapsed", "letter"))
        case alert.Raised():
            return (Open(kind=event.kind, subject=event.subject, level=event.level, detail=event.detail),)
        case alert.Cleared():
            return (Close(kind=event.kind, subject=event.subject),)
    return ()


def settle(open_now: Sequence[Alert], meant: Sequence[Open | Close], at: float) -> Settled:
    """What changes among those that are open when events have meant *meant*."""
    now = {one.id: one for one in open_now}
    written: dict[str, Alert] = {}
    events: list[alert.Raised | alert.Cleared] = []
    for one in meant:
        if isinstance(one, Close):
            for ended in [found for found in now.values() if _is_below(found, one)]:
                del now[ended.id]
                written[ended.id] = msgspec.structs.replace(ended, until=at)
                events.append(alert.Cleared(kind=ended.kind, subject=ended.subject))
            continue
        found = _made(one, at)
        if found.id not in now and len(now) >= OPEN_MAX:
            found = _too_many(found)
        if (before := now.get(found.id)) is not None:
            found = msgspec.structs.replace(found, since=before.since, count=before.count + found.count)
        else:
            said = alert.Raised(kind=found.kind, subject=found.subject, level=found.level, detail=found.detail)
            events.append(said)
        now[found.id] = written[found.id] = found
    return Settled(alerts=tuple(written.values()), events=tuple(events))


def _made(meant: Open, at: float) -> Alert:
    kind, subject, level = (told(word, NAME_CHARACTERS_MAX) for word in (meant.kind, meant.subject, meant.level))
    detail = told(meant.detail, DETAIL_CHARACTERS_MAX)
    return Alert(kind=kind, subject=subject, level=level, detail=detail, since=at, count=meant.count)


def _too_many(found: Alert) -> Alert:
    detail = f"more than {OPEN_MAX} are open; not shown: {found.kind} {found.subject}"
    return msgspec.structs.replace(found, kind=TOO_MANY, subject="", level="severe", detail=detail)


def _is_below(found: Alert, meant: Close) -> bool:
    kind, subject = (told(word, NAME_CHARACTERS_MAX) for word in (meant.kind, meant.subject))
    return found.kind == kind and (found.subject == subject or found.subject.startswith(f"{subject}/"))


async def apply(tx: Tx, meant: Sequence[Open | Close], at: float) -> Sequence[alert.Raised | alert.Cleared]:
    """Write down what was meant; what is new about that."""
    news = settle(await open_alerts(tx), meant, at)
    await tx.put([_put(one) for one in news.alerts])
    if any(one.until is not None for one in news.alerts):
        await tx.delete(KIND, surplus(await _find(tx, "closed", 2 * CLOSED_MAX)))
    return news.events


def surplus(closed: Sequence[Alert]) -> list[str]:
    """The ids of those of *closed* that are too many: what was cleared first goes first."""
    oldest = sorted(closed, key=lambda one: one.until or 0.0)
    return [one.id for one in oldest[: max(len(closed) - CLOSED_MAX, 0)]]


async def open_alerts(view: Reads) -> list[Alert]:
    """Every alert that is open, the worst first."""
    found = await _find(view, "open", OPEN_MAX + 1)
    return sorted(found, key=lambda one: (-rank(one.level), one.since))


async def closed_alerts(view: Reads) -> list[Alert]:
    """Every alert that was cleared and is still remembered, the latest first."""
    return sorted(await _find(view, "closed", 2 * CLOSED_MAX), key=lambda one: -(one.until or 0.0))


def rank(level: str) -> int:
    """How bad *level* is; a word that nobody knows is a warning."""
    return LEVELS.index(level if level in LEVELS else "warning")


async def _find(view: Reads, state: str, limit: int) -> list[Alert]:
    return [msgspec.json.decode(one.body, type=Alert) for one in await view.find(KIND, "state", [state], limit)]


def _put(one: Alert) -> Put:
    state = "open" if one.until is None else "closed"
    return Put(kind=KIND, id=one.id, body=msgspec.json.encode(one), index={"state": state})
