"""Trouble opens an alert, its end closes it, and there are never too many of either."""

import msgspec
import pytest

from ringrift.cluster.alerts import (
    _CLOSED_MAX,
    _OPEN_MAX,
    EVENTS,
    Alert,
    _CloseAlert,
    _settle,
    _surplus,
    judge,
    rank,
)
from ringrift.events import (
    alert,
    catalog,
    daemon,
    data,
    delivery,
    evaluation,
    health,
    model,
    node,
    pipeline,
    reader,
    work,
)
from ringrift.events.base import Event

V = "hex8_2p"
BURIED = work.Buried(variant=V, job="j", kind="train", key="k", error="no", attempts=4)
TABLE: list[tuple[Event, str]] = [
    (daemon.Failed(daemon="fill", node="n", error="no", times=5, seconds=300.0), "+severe daemon n/fill"),
    (daemon.Cleared(daemon="fill", node="n"), "-daemon n/fill"),
    (node.Lost(node="n", seconds=15.0), "+warning node_lost n"),
    (node.Recovered(node="n"), "-node_lost n"),
    (node.Quarantined(node="n", reason="it lies"), "+severe quarantine n"),
    (node.Released(node="n"), "-quarantine n"),
    (model.RolledBack(variant=V, model="m", to="k", generation=1, reason="weak"), "+warning regression hex8_2p"),
    (
        model.RolledBack(variant=V, model="m", to="k", generation=1, reason="weak", level="critical"),
        "+critical regression hex8_2p",
    ),
    (
        evaluation.Reviewed(variant=V, model="m", opponent="k", passed=True, blocks=9, score=0.6, elo=70, reason="due"),
        "-regression hex8_2p",
    ),
    (node.Left(node="n"), "-node_lost n -health n"),
    (node.Joined(node="n", profile="full"), "-node_lost n -health n -daemon n"),
    (health.Changed(node="n", status="degraded", before="healthy"), "+minor health n"),
    (health.Changed(node="n", status="unhealthy", before="healthy"), "+severe health n"),
    (health.Changed(node="n", status="healthy", before="unhealthy"), "-health n"),
    (data.Lost(variant=V, blob="b" * 64, reason="gone"), "+severe data_lost hex8_2p"),
    (data.Corrupted(blob="b" * 64, node="n"), "+warning data_corrupted n"),
    (BURIED, "+warning work_buried hex8_2p/train"),
    (pipeline.Moved(variant=V, stage="b", before="a"), "-work_buried hex8_2p -overdue hex8_2p"),
    (pipeline.Overdue(variant=V, stage="a", seconds=9.0, limit=5.0), "+warning overdue hex8_2p"),
    (evaluation.Plateaued(variant=V, rejections=8, since=1.0), "+minor plateau hex8_2p"),
    (model.Promoted(variant=V, model="m", generation=1), "-plateau hex8_2p"),
    (work.PressureChanged(level="hard", ready=9, claimed=0, limit=5), "+warning pressure queue"),
    (work.PressureChanged(level="soft", ready=4, claimed=0, limit=5), "-pressure queue"),
    (work.PressureChanged(level="none", ready=0, claimed=0, limit=5), "-pressure queue"),
    (delivery.Changed(reader="r", positions=(7, 8), state="dead", error="no"), "+severe dead_letter r"),
    (delivery.Changed(reader="r", positions=(7,), state="done"), "-dead_letter r"),
    (delivery.Changed(reader="r", positions=(7,), state="discarded"), "-dead_letter r"),
    (delivery.Changed(reader="r", positions=(7,), state="parked", error="no"), ""),
    (reader.Lapsed(reader="r", position=7, seconds=9.0), "+warning reader_lapsed r"),
    (reader.Forgotten(reader="r"), "-reader_lapsed r -dead_letter r"),
    (alert.Raised(kind="disk", subject="n", level="critical", detail="full"), "+critical disk n"),
    (alert.Cleared(kind="disk", subject="n"), "-disk n"),
]


def written(change: Alert | _CloseAlert) -> str:
    """*meant* in short."""
    sign = f"+{change.level} " if isinstance(change, Alert) else "-"
    return f"{sign}{change.kind} {change.subject}"


def disk(subject: str = "n", **changes: object) -> Alert:
    """Trouble with a disk."""
    return msgspec.structs.replace(Alert(kind="disk", subject=subject, level="severe", detail="full"), **changes)


def opened(*change: Alert, at: float = 5.0) -> list[Alert]:
    """The alerts that *meant* open."""
    return list(_settle((), change, at).alerts)


@pytest.mark.parametrize(
    ("event", "expected"), TABLE, ids=lambda alert: alert if isinstance(alert, str) else alert.name()
)
def test_each_event_opens_and_closes_the_alerts_of_the_table(event: Event, expected: str) -> None:
    """The table fixes which alert an event opens, at which level, and which it closes."""
    assert " ".join(written(change) for change in judge(event)) == expected


def test_the_daemon_subscribes_to_exactly_the_events_of_the_table() -> None:
    """Every event of the table is listed for the daemon, and every listed one is in the table."""
    assert {type(event) for event, expected in TABLE if expected} == set(EVENTS)
    assert set(EVENTS) <= set(catalog.EVENTS)


def test_an_alert_opens_once_and_counts() -> None:
    """The same trouble again is the same alert: it keeps its beginning, takes the newest details, and is published
    once."""
    first = _settle((), [disk()], 5.0)
    again = _settle(first.alerts, [disk(level="critical", detail="fuller", count=3)], 9.0)

    assert first.events == (alert.Raised(kind="disk", subject="n", level="severe", detail="full"),)
    assert again.events == ()
    assert again.alerts == (Alert(kind="disk", subject="n", level="critical", detail="fuller", since=5.0, count=4),)


def test_an_end_closes_an_open_alert_and_all_below_it() -> None:
    """Closing a node closes the alerts about its parts, and none of another kind, another node or a longer name."""
    before = opened(disk("n"), disk("n/sda"), disk("n2"), disk("n", kind="fan"))

    ended = _settle(before, [_CloseAlert(kind="disk", subject="n")], 9.0)

    assert [(alert.subject, alert.until) for alert in ended.alerts] == [("n", 9.0), ("n/sda", 9.0)]
    assert ended.events == (alert.Cleared(kind="disk", subject="n"), alert.Cleared(kind="disk", subject="n/sda"))


def test_an_end_without_a_beginning_changes_nothing() -> None:
    """An alert that is not open cannot be closed, and nothing is published."""
    assert _settle((), [_CloseAlert(kind="disk", subject="n")], 9.0).alerts == ()
    assert _settle((), [_CloseAlert(kind="disk", subject="n")], 9.0).events == ()


def test_an_alert_that_opens_and_closes_at_once_is_published_in_order() -> None:
    """Several effects of one event are applied in their order."""
    both = _settle((), [disk(), _CloseAlert(kind="disk", subject="n"), disk()], 9.0)

    assert [type(event).__name__ for event in both.events] == ["Raised", "Cleared", "Raised"]
    assert [alert.until for alert in both.alerts] == [None]


def test_too_many_alerts_become_one_alert() -> None:
    """Beyond the limit trouble is counted in one summary alert; an alert that is already open still counts for
    itself."""
    full = opened(*(disk(str(number)) for number in range(_OPEN_MAX)))

    over = _settle(full, [disk("one more"), disk("and another"), disk("7")], 9.0)

    assert [(alert.kind, alert.subject, alert.count) for alert in over.alerts] == [("alerts", "", 2), ("disk", "7", 2)]
    assert [event.kind for event in over.events] == ["alerts"]


def test_names_and_details_are_bounded() -> None:
    """Texts of any length fit into a record and an event, and identify the same alert again."""
    long = disk("x" * 10_000, detail="y\ud800" * 10_000)

    [alert] = opened(long)
    ended = _settle([alert], [_CloseAlert(kind="disk", subject=long.subject)], 9.0)

    assert len(alert.subject) <= 200
    assert len(alert.detail) <= 500
    assert [alert.until for alert in ended.alerts] == [9.0]
    catalog.encode(_settle((), [long], 5.0).events[0])


def test_the_oldest_closed_alerts_are_forgotten() -> None:
    """Only a bounded number of closed alerts is kept: the first cleared goes first."""
    closed = [
        Alert(kind="disk", subject=str(number), level="info", detail="", since=0.0, until=float(number))
        for number in range(_CLOSED_MAX + 2)
    ]

    assert _surplus(closed[::-1]) == ["disk:0", "disk:1"]
    assert _surplus(closed[:_CLOSED_MAX]) == []


def test_levels_have_an_order() -> None:
    """Critical is worst; an unknown level counts as a warning."""
    assert rank("info") < rank("minor") < rank("odd") == rank("warning") < rank("severe") < rank("critical")
