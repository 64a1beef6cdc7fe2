"""Alerts: which events open one and which close it, and the alerts that are open.

A subject is a path: ``n1/fill`` lies below ``n1``.  Closing a subject closes everything of that kind below it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ringrift.events import (
    alert,
    cluster,
    daemon,
    data,
    delivery,
    evaluation,
    health,
    model,
    node,
    pipeline,
    reader,
    training,
    work,
)
from ringrift.events.base import Event
from ringrift.kernel.errors import printable
from ringrift.kernel.value import Value, changed
from ringrift.store.ports import Reads, Tx
from ringrift.store.records import Records

_STORE = "store"  # the subject of an alert about it
_LEVELS = ("info", "minor", "warning", "severe", "critical")
_OPEN_MAX = 1000  # alerts that may be open; what comes beyond is counted in one alert of its own
_CLOSED_MAX = 1000  # closed alerts that are stored; the oldest are deleted first
NAME_CHARACTERS_MAX, DETAIL_CHARACTERS_MAX = 200, 500


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


_Changes = Sequence[Alert | tuple[str, str]]  # to open; (kind, subject) of those to close, with everything below
_Events = list[alert.Raised | alert.Cleared]
_ALERTS = Records("alert", Alert, id="id", index=("state",), limit=2 * _CLOSED_MAX)


def _open(kind: str, subject: str, level: str, detail: str, count: int = 1) -> _Changes:
    return (Alert(kind=kind, subject=subject, level=level, detail=detail, count=count),)


def _close(subject: str, *kinds: str) -> _Changes:
    return [(kind, subject) for kind in kinds]


def _rolled_back(event: model.RolledBack) -> _Changes:
    detail = f"went back from {event.model[:12]} to {event.to[:12]}: {event.reason}"
    # A lost champion or an operator's wish is no loss of strength, and has no level.
    level = "warning" if event.level in ("", "moderate") else event.level
    return _open("regression" if event.level else "rollback", event.variant, level, detail)


def _returned(event: model.Returned) -> _Changes:
    if event.generation is None:
        return _close(event.variant, "model_missing")
    return _open("model_returned", event.variant, "info", f"lost model {event.model[:12]} is on {event.node} again")


def _backed_up(event: cluster.BackedUp) -> _Changes:
    """Also one that an operator has made; after a restoration it is the first one of the new epoch."""
    return () if event.missing else [*_close(event.place, "backup"), *_close(_STORE, "restored")]


def _restored(event: cluster.Restored) -> _Changes:
    detail = f"from backup {event.backup}: what is new since then is in no backup yet"
    missing = f", and {event.missing} files were not in it" if event.missing else ""
    return _open("restored", _STORE, "warning" if event.missing else "info", detail + missing)


def _health(event: health.Changed) -> _Changes:
    if event.status == "healthy":
        return _close(event.node, "health")
    level = "minor" if event.status == "degraded" else "severe"
    return _open("health", event.node, level, f"{event.status}: {'; '.join(event.reasons)}")


def _breaker(event: health.BreakerChanged) -> _Changes:
    if event.state == "closed":
        return _close(event.subject, "breaker")
    detail = f"{event.failures} failures in a row, the last: {event.error}"
    level = "warning" if event.subject.startswith(("node:", "link:")) else "severe"
    return _open("breaker", event.subject, level, detail) if event.state == "open" else ()


def _pressure(event: work.PressureChanged) -> _Changes:
    if event.backpressure == "released":
        return _close(event.queue, "pressure")
    if event.backpressure != "activated":
        return ()
    is_timed = event.drain_seconds is not None
    value, unit = (event.drain_seconds, "s to drain") if is_timed else (event.depth, "items wait")
    return _open("pressure", event.queue, "warning", f"{event.level}: {value:.0f} {unit}, the limit is {event.limit}")


def _disk(event: node.DiskPressureChanged) -> _Changes:
    if event.level not in ("high", "critical"):
        return _close(event.node, "disk")
    detail = f"{event.level}: {event.free_bytes / 1e9:.3g} of {event.total_bytes / 1e9:.3g} GB are free"
    return _open("disk", event.node, "severe" if event.level == "critical" else "warning", detail)


def _delivery(event: delivery.Changed) -> _Changes:
    if event.state == "dead":
        return _open("dead_letter", event.reader, "severe", event.error, len(event.positions))
    return _close(event.reader, "dead_letter") if event.state in ("done", "discarded") else ()


def _imported(event: data.Imported) -> _Changes:
    """Games from elsewhere were refused: the rest counts, and nothing else would tell who sends such files."""
    if not event.refused:
        return _close(event.variant, "import_games")
    rows = event.games + event.repeated + event.refused
    detail = f"{event.refused} of {rows} games of the file {event.source[:12]} were refused: {event.errors}"
    return _open("import_games", event.variant, "minor", detail)


def _priority_synced(event: data.PrioritySynced) -> _Changes:
    subject = event.node or event.variant or "all"
    if event.success:
        return _close(subject, "priority_sync")
    return _open("priority_sync", subject, "warning", f"{event.reason}: {'; '.join(event.errors[:1])}")


_RULES: dict[type[Event], Callable[[Any], _Changes]] = {
    daemon.Failed: lambda e: _open("daemon", f"{e.node}/{e.daemon}", "severe", e.error),
    daemon.Cleared: lambda e: _close(f"{e.node}/{e.daemon}", "daemon"),
    node.Quarantined: lambda e: _open("quarantine", e.node, "severe", e.reason),
    node.Released: lambda e: _close(e.node, "quarantine"),
    node.Lost: lambda e: (
        () if e.ephemeral else _open("node_lost", e.node, "warning", f"no heartbeat for {e.seconds:g} s")
    ),
    node.DiskPressureChanged: _disk,
    node.Recovered: lambda e: _close(e.node, "node_lost"),
    node.Left: lambda e: (
        *_close(e.node, "node_lost", "health"),
        *_close(f"node:{e.node}", "breaker"),
        *_close(f"link:{e.node}", "breaker"),
    ),
    node.Joined: lambda e: _close(e.node, "node_lost", "health", "daemon"),  # a new process without failures
    node.KeyShared: lambda e: _open("key_shared", e.node, "severe", f"two processes use one key: {e.processes}"),
    node.KeyChanged: lambda e: _close(e.node, "key_shared"),
    training.LockTimedOut: lambda e: _open(
        "training_lock", e.variant, "minor", f"not free within {e.seconds:g} s: {e.reason or e.owner or 'held'}"
    ),
    training.Locked: lambda e: _close(e.variant, "training_lock"),
    health.Changed: _health,
    health.BreakerChanged: _breaker,
    health.RecoveryStarted: lambda e: (
        _open("recovery", e.subject, "severe", f"no step helps: {e.reason}") if e.step == "ask_person" else ()
    ),
    health.RecoveryFinished: lambda e: _close(e.subject, "recovery") if e.helped else (),
    cluster.BackedUp: _backed_up,
    cluster.Restored: _restored,
    data.Imported: _imported,
    data.PrioritySynced: _priority_synced,
    data.Lost: lambda e: _open("data_lost", e.variant, "severe", f"{e.blob[:12]}: {e.reason}"),
    data.Corrupted: lambda e: _open("data_corrupted", e.node, "warning", e.blob[:12]),
    model.RolledBack: lambda e: (*_rolled_back(e), *_close(e.variant, "win_rate")),
    model.Promoted: lambda e: _close(e.variant, "plateau", "rollback", "win_rate"),
    model.Missing: lambda e: _open(
        "model_missing", e.variant, "severe", f"no holder of champion {e.model[:12]} answers: {', '.join(e.nodes)} away"
    ),
    model.Returned: _returned,
    evaluation.Reviewed: lambda e: _close(e.variant, "win_rate", *(["regression"] if e.passed else [])),
    evaluation.WinRateFell: lambda e: _open(
        "win_rate", e.variant, "warning", f"{e.rate:.2f} against {e.opponent[:12]}, before {e.before:.2f}"
    ),
    evaluation.Plateaued: lambda e: _open(
        "plateau", e.variant, "minor", f"{e.rejections} candidates in a row were rejected"
    ),
    pipeline.Overdue: lambda e: _open(
        "overdue", e.variant, "warning", f"{e.stage} for {e.seconds:.0f} s, more than {e.limit:g} s"
    ),
    pipeline.Moved: lambda e: _close(e.variant, "work_buried", "overdue", "data_lost"),  # it goes on without it
    work.Buried: lambda e: _open(
        "work_buried", f"{e.variant}/{e.kind}", "warning", f"{e.attempts} attempts: {e.error}"
    ),
    work.PressureChanged: _pressure,
    delivery.Changed: _delivery,
    reader.Lapsed: lambda e: _open("reader_lapsed", e.reader, "warning", f"an event has waited for {e.seconds:.0f} s"),
    reader.Forgotten: lambda e: _close(e.reader, "reader_lapsed", "dead_letter", "handler"),
    alert.Raised: lambda e: _open(e.kind, e.subject, e.level, e.detail),
    alert.Cleared: lambda e: _close(e.subject, e.kind),
}
EVENTS = tuple(_RULES)  # the events that open or close an alert


def judge(event: Event) -> _Changes:
    """The alerts that *event* opens and closes."""
    rule = _RULES.get(type(event))
    return () if rule is None else rule(event)


def _settle(open_now: Iterable[Alert], changes: _Changes, at: float) -> tuple[list[Alert], _Events]:
    """The alerts to store and the events to publish when *changes* happen to the open alerts."""
    still_open = {alert.id: alert for alert in open_now}
    to_store: dict[str, Alert] = {}
    events: _Events = []
    for change in changes:
        if isinstance(change, tuple):
            for closed in [alert for alert in still_open.values() if _is_below(alert, *change)]:
                del still_open[closed.id]
                to_store[closed.id] = changed(closed, until=at)
                events.append(alert.Cleared(kind=closed.kind, subject=closed.subject))
            continue
        names = {name: printable(getattr(change, name), NAME_CHARACTERS_MAX) for name in ("kind", "subject", "level")}
        new = changed(change, **names, detail=printable(change.detail, DETAIL_CHARACTERS_MAX), since=at)
        if new.id not in still_open and len(still_open) >= _OPEN_MAX:
            detail = f"more than {_OPEN_MAX} are open; not shown: {new.kind} {new.subject}"
            new = changed(new, kind="alerts", subject="", level="severe", detail=detail)
        if (before := still_open.get(new.id)) is not None:
            new = changed(new, since=before.since, count=before.count + new.count)
        else:
            events.append(alert.Raised(kind=new.kind, subject=new.subject, level=new.level, detail=new.detail))
        still_open[new.id] = to_store[new.id] = new
    return list(to_store.values()), events


def _is_below(alert: Alert, *names: str) -> bool:
    kind, subject = (printable(text, NAME_CHARACTERS_MAX) for text in names)
    return alert.kind == kind and (alert.subject == subject or alert.subject.startswith(f"{subject}/"))


async def apply(tx: Tx, changes: _Changes, at: float) -> _Events:
    """Store what *changes* mean; the events to publish about it."""
    alerts, events = _settle(await open_alerts(tx), changes, at)
    await _ALERTS.put(tx, alerts)
    if any(alert.until is not None for alert in alerts):
        await _ALERTS.delete(tx, [alert.id for alert in (await closed_alerts(tx))[_CLOSED_MAX:]])
    return events


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
