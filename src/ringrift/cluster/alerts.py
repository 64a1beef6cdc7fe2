"""Alerts: which events open one and which close it, and the alerts that are open.

A subject is a path: ``n1/fill`` lies below ``n1``.  Closing a subject closes everything of that kind below it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ringrift.events import alert, daemon, data, delivery, evaluation, health, model, node, pipeline, reader, work
from ringrift.events.base import Event
from ringrift.kernel.errors import printable
from ringrift.kernel.value import Value, changed
from ringrift.store.ports import Reads, Tx
from ringrift.store.records import Records

_REGRESSIONS = {"minor": "minor", "moderate": "warning", "severe": "severe", "critical": "critical"}
"""The size of a loss of strength → the level of its alert."""
_LEVELS = ("info", "minor", "warning", "severe", "critical")
_OPEN_MAX = 1000  # alerts that may be open; what comes beyond is counted in one alert of its own
_CLOSED_MAX = 1000  # closed alerts that are stored; the oldest are deleted first
NAME_CHARACTERS_MAX, DETAIL_CHARACTERS_MAX = 200, 500


class _CloseAlert(Value):
    """Close the alerts of this kind about *subject* and about everything below it."""

    kind: str
    subject: str


class Alert(Value):
    """An alert as it is stored."""

    kind: str
    subject: str
    level: str
    detail: str
    since: float = 0.0
    until: float | None = None
    count: int = 1  # how often it was raised since it opened

    @property
    def id(self) -> str:
        """Its name: there is one alert of each kind about each subject."""
        return f"{self.kind}:{self.subject}"

    @property
    def state(self) -> str:
        return "open" if self.until is None else "closed"


class _AlertChanges(Value):
    """Alerts to store, and the events to publish about them."""

    alerts: tuple[Alert, ...]
    events: tuple[alert.Raised | alert.Cleared, ...]


_Changes = tuple[Alert | _CloseAlert, ...]


_ALERTS = Records("alert", Alert, id="id", index=("state",), limit=2 * _CLOSED_MAX)


def _open(kind: str, subject: str, level: str, detail: str, count: int = 1) -> _Changes:
    return (Alert(kind=kind, subject=subject, level=level, detail=detail, count=count),)


def _close(subject: str, *kinds: str) -> _Changes:
    return tuple(_CloseAlert(kind=kind, subject=subject) for kind in kinds)


def _rolled_back(event: model.RolledBack) -> _Changes:
    detail = f"went back from {event.model[:12]} to {event.to[:12]}: {event.reason}"
    return _open("regression", event.variant, _REGRESSIONS.get(event.level, "warning"), detail)


def _health(event: health.Changed) -> _Changes:
    if event.status == "healthy":
        return _close(event.node, "health")
    level = "minor" if event.status == "degraded" else "severe"
    return _open("health", event.node, level, f"{event.status}: {'; '.join(event.reasons)}")


def _overdue(event: pipeline.Overdue) -> _Changes:
    detail = f"{event.stage} for {event.seconds:.0f} s, more than {event.limit:g} s"
    return _open("overdue", event.variant, "warning", detail)


def _pressure(event: work.PressureChanged) -> _Changes:
    if event.level != "hard":
        return _close("queue", "pressure")
    return _open("pressure", "queue", "warning", f"{event.ready} jobs wait, the limit is {event.limit}")


def _delivery(event: delivery.Changed) -> _Changes:
    if event.state == "dead":
        return _open("dead_letter", event.reader, "severe", event.error, len(event.positions))
    return _close(event.reader, "dead_letter") if event.state in ("done", "discarded") else ()


_RULES: dict[type[Event], Callable[[Any], _Changes]] = {
    daemon.Failed: lambda e: _open("daemon", f"{e.node}/{e.daemon}", "severe", e.error),
    daemon.Cleared: lambda e: _close(f"{e.node}/{e.daemon}", "daemon"),
    node.Quarantined: lambda e: _open("quarantine", e.node, "severe", e.reason),
    node.Released: lambda e: _close(e.node, "quarantine"),
    node.Lost: lambda e: _open("node_lost", e.node, "warning", f"no heartbeat for {e.seconds:g} s"),
    node.Recovered: lambda e: _close(e.node, "node_lost"),
    node.Left: lambda e: _close(e.node, "node_lost", "health"),
    node.Joined: lambda e: _close(e.node, "node_lost", "health", "daemon"),  # a new process without failures
    health.Changed: _health,
    data.Lost: lambda e: _open("data_lost", e.variant, "severe", f"{e.blob[:12]}: {e.reason}"),
    data.Corrupted: lambda e: _open("data_corrupted", e.node, "warning", e.blob[:12]),
    model.RolledBack: _rolled_back,
    model.Promoted: lambda e: _close(e.variant, "plateau"),
    evaluation.Reviewed: lambda e: _close(e.variant, "regression") if e.passed else (),
    evaluation.Plateaued: lambda e: _open(
        "plateau", e.variant, "minor", f"{e.rejections} candidates in a row were rejected"
    ),
    pipeline.Overdue: _overdue,
    pipeline.Moved: lambda e: _close(e.variant, "work_buried", "overdue"),  # with or without the buried job
    work.Buried: lambda e: _open(
        "work_buried", f"{e.variant}/{e.kind}", "warning", f"{e.attempts} attempts: {e.error}"
    ),
    work.PressureChanged: _pressure,
    delivery.Changed: _delivery,
    reader.Lapsed: lambda e: _open("reader_lapsed", e.reader, "warning", f"an event has waited for {e.seconds:.0f} s"),
    reader.Forgotten: lambda e: _close(e.reader, "reader_lapsed", "dead_letter"),
    alert.Raised: lambda e: _open(e.kind, e.subject, e.level, e.detail),
    alert.Cleared: lambda e: _close(e.subject, e.kind),
}
EVENTS = tuple(_RULES)  # the events that open or close an alert


def judge(event: Event) -> _Changes:
    """The alerts that *event* opens and closes."""
    rule = _RULES.get(type(event))
    return () if rule is None else rule(event)


def _settle(open_now: Sequence[Alert], changes: _Changes, at: float) -> _AlertChanges:
    """The records and events that follow when *changes* happen to the open alerts."""
    still_open = {alert.id: alert for alert in open_now}
    to_store: dict[str, Alert] = {}
    events: list[alert.Raised | alert.Cleared] = []
    for change in changes:
        if isinstance(change, _CloseAlert):
            for closed in [alert for alert in still_open.values() if _is_below(alert, change)]:
                del still_open[closed.id]
                to_store[closed.id] = changed(closed, until=at)
                events.append(alert.Cleared(kind=closed.kind, subject=closed.subject))
            continue
        new = _new_alert(change, at)
        if new.id not in still_open and len(still_open) >= _OPEN_MAX:
            new = _too_many(new)
        if (before := still_open.get(new.id)) is not None:
            new = changed(new, since=before.since, count=before.count + new.count)
        else:
            events.append(alert.Raised(kind=new.kind, subject=new.subject, level=new.level, detail=new.detail))
        still_open[new.id] = to_store[new.id] = new
    return _AlertChanges(alerts=tuple(to_store.values()), events=tuple(events))


def _new_alert(change: Alert, at: float) -> Alert:
    names = {name: printable(getattr(change, name), NAME_CHARACTERS_MAX) for name in ("kind", "subject", "level")}
    return changed(change, **names, detail=printable(change.detail, DETAIL_CHARACTERS_MAX), since=at)


def _too_many(new: Alert) -> Alert:
    detail = f"more than {_OPEN_MAX} are open; not shown: {new.kind} {new.subject}"
    return changed(new, kind="alerts", subject="", level="severe", detail=detail)


def _is_below(alert: Alert, change: _CloseAlert) -> bool:
    kind, subject = (printable(text, NAME_CHARACTERS_MAX) for text in (change.kind, change.subject))
    return alert.kind == kind and (alert.subject == subject or alert.subject.startswith(f"{subject}/"))


async def apply(tx: Tx, changes: _Changes, at: float) -> Sequence[alert.Raised | alert.Cleared]:
    """Store what *changes* mean; the events to publish about it."""
    result = _settle(await open_alerts(tx), changes, at)
    await _ALERTS.put(tx, result.alerts)
    if any(alert.until is not None for alert in result.alerts):
        await _ALERTS.delete(tx, _surplus(await closed_alerts(tx)))
    return result.events


def _surplus(closed: Sequence[Alert]) -> list[str]:
    """The ids of those of *closed* that are too many, the first cleared first."""
    oldest_first = sorted(closed, key=lambda alert: alert.until or 0.0)
    return [alert.id for alert in oldest_first[: max(len(closed) - _CLOSED_MAX, 0)]]


async def open_alerts(view: Reads) -> list[Alert]:
    """Every open alert, the worst first."""
    alerts = (await _ALERTS.find(view, "state", "open")).values()
    return sorted(alerts, key=lambda alert: (-rank(alert.level), alert.since))


async def closed_alerts(view: Reads) -> list[Alert]:
    """Every stored alert that was closed, the latest first."""
    return sorted((await _ALERTS.find(view, "state", "closed")).values(), key=lambda alert: -(alert.until or 0.0))


def rank(level: str) -> int:
    """How bad *level* is; an unknown word counts as a warning."""
    return _LEVELS.index(level if level in _LEVELS else "warning")
