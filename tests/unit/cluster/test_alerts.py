"""Trouble opens an alert, its end closes it, and there are never too many of either."""

from pathlib import Path

import msgspec
import pytest

from ringrift.cluster.alerts import (
    _ALERTS,
    _CLOSED_MAX,
    _OPEN_MAX,
    EVENTS,
    Alert,
    _settle,
    apply,
    closed_alerts,
    judge,
    rank,
)
from ringrift.events import (
    alert,
    catalog,
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
from unit.work.world import World, play

V = "hex8_2p"


def _imported(refused: int) -> data.Imported:
    """A file of which so many games were refused."""
    counts = {"games": 3, "repeated": 1, "refused": refused, "other": 0}
    return data.Imported(variant=V, source="f", batches=("b",), errors="row 3: no", node="n", **counts)


def disk_event(level: str, before: str) -> node.DiskPressureChanged:
    """The disk of a node changes its tier."""
    return node.DiskPressureChanged(node="n", level=level, before=before, free_bytes=5, total_bytes=100)


BURIED = work.Buried(variant=V, job="j", kind="train", key="k", error="no", attempts=4)
TABLE: list[tuple[Event, str]] = [
    (daemon.Failed(daemon="fill", node="n", error="no", times=5, seconds=300.0), "+severe daemon n/fill"),
    (daemon.Cleared(daemon="fill", node="n"), "-daemon n/fill"),
    (node.Lost(node="n", seconds=15.0), "+warning node_lost n"),
    (node.Recovered(node="n"), "-node_lost n"),
    (disk_event("low", "none"), "-disk n"),
    (disk_event("high", "low"), "+warning disk n"),
    (disk_event("critical", "high"), "+severe disk n"),
    (disk_event("none", "critical"), "-disk n"),
    (node.KeyShared(node="n", processes="a, b"), "+severe key_shared n"),
    (node.KeyChanged(node="n", change="rotated"), "-key_shared n"),
    (training.LockTimedOut(variant=V, node="n", seconds=5.0), "+minor training_lock hex8_2p"),
    (training.Locked(variant=V, node="n", owner="p", fence=1), "-training_lock hex8_2p"),
    (cluster.BackedUp(place="/mnt", backup="b", files=1), "-backup /mnt -restored store"),
    (cluster.Restored(backup="b", epoch=2, position=9), "+info restored store"),
    (cluster.Restored(backup="b", epoch=2, position=9, missing=3), "+warning restored store"),
    (cluster.BackedUp(place="/mnt", backup="b", files=1, missing=1), ""),
    (data.PrioritySynced(success=False, node="n", reason="r", errors=("no",)), "+warning priority_sync n"),
    (data.PrioritySynced(success=True, variant=V), "-priority_sync hex8_2p"),
    (_imported(refused=2), "+minor import_games hex8_2p"),
    (_imported(refused=0), "-import_games hex8_2p"),
    (node.Quarantined(node="n", reason="it lies"), "+severe quarantine n"),
    (node.Released(node="n"), "-quarantine n"),
    (
        model.RolledBack(variant=V, model="m", to="k", generation=1, reason="weak"),
        "+warning rollback hex8_2p -win_rate hex8_2p",
    ),
    (
        model.RolledBack(variant=V, model="m", to="k", generation=1, reason="weak", level="critical"),
        "+critical regression hex8_2p -win_rate hex8_2p",
    ),
    (
        evaluation.Reviewed(variant=V, model="m", opponent="k", passed=True, blocks=9, score=0.6, elo=70, reason="due"),
        "-win_rate hex8_2p -regression hex8_2p",
    ),
    (
        evaluation.Reviewed(variant=V, model="m", opponent="k", passed=False, blocks=9, score=0.4, elo=-70, reason="x"),
        "-win_rate hex8_2p",
    ),
    (
        evaluation.WinRateFell(
            variant=V, model="m", predecessor="k", opponent="random", rate=0.5, before=0.9, blocks=16
        ),
        "+warning win_rate hex8_2p",
    ),
    (node.Left(node="n"), "-node_lost n -health n -breaker node:n -breaker link:n"),
    (node.Joined(node="n", profile="full"), "-node_lost n -health n -daemon n"),
    (health.Changed(node="n", status="degraded", before="healthy"), "+minor health n"),
    (health.Changed(node="n", status="unhealthy", before="healthy"), "+severe health n"),
    (health.Changed(node="n", status="healthy", before="unhealthy"), "-health n"),
    (health.RecoveryStarted(subject="node:n", step="restart_daemon", by="heal"), ""),
    (health.RecoveryStarted(subject="node:n", step="ask_person", by="heal", reason="no"), "+severe recovery node:n"),
    (health.RecoveryFinished(subject="node:n", step="restart_daemon", helped=False), ""),
    (health.RecoveryFinished(subject="node:n", step="ask_person", helped=True), "-recovery node:n"),
    (health.BreakerChanged(subject="node:n", state="open", before="closed", failures=6), "+warning breaker node:n"),
    (health.BreakerChanged(subject="stage:train", state="open", before="closed"), "+severe breaker stage:train"),
    (health.BreakerChanged(subject="node:n", state="half_open", before="open"), ""),
    (health.BreakerChanged(subject="node:n", state="closed", before="half_open"), "-breaker node:n"),
    (data.Lost(variant=V, blob="b" * 64, reason="gone"), "+severe data_lost hex8_2p"),
    (data.Corrupted(blob="b" * 64, node="n"), "+warning data_corrupted n"),
    (BURIED, "+warning work_buried hex8_2p/train"),
    (pipeline.Moved(variant=V, stage="b", before="a"), "-work_buried hex8_2p -overdue hex8_2p -data_lost hex8_2p"),
    (pipeline.Overdue(variant=V, stage="a", seconds=9.0, limit=5.0), "+warning overdue hex8_2p"),
    (evaluation.Plateaued(variant=V, rejections=8, since=1.0), "+minor plateau hex8_2p"),
    (model.Missing(variant=V, model="m", nodes=("n",)), "+severe model_missing hex8_2p"),
    (model.Returned(variant=V, model="m"), "-model_missing hex8_2p"),
    (model.Returned(variant=V, model="m", node="n", generation=3), "+info model_returned hex8_2p"),
    (model.Promoted(variant=V, model="m", generation=1), "-plateau hex8_2p -rollback hex8_2p -win_rate hex8_2p"),
    (
        work.PressureChanged(queue="sync", level="hard", before="low", depth=9, limit=5, backpressure="activated"),
        "+warning pressure sync",
    ),
    (work.PressureChanged(queue="sync", level="stop", before="hard", depth=9, limit=5), ""),
    (
        work.PressureChanged(queue="sync", level="soft", before="stop", limit=5, backpressure="released"),
        "-pressure sync",
    ),
    (delivery.Changed(reader="r", positions=(7, 8), state="dead", error="no"), "+severe dead_letter r"),
    (delivery.Changed(reader="r", positions=(7,), state="done"), "-dead_letter r"),
    (delivery.Changed(reader="r", positions=(7,), state="discarded"), "-dead_letter r"),
    (delivery.Changed(reader="r", positions=(7,), state="parked", error="no"), ""),
    (reader.Lapsed(reader="r", position=7, seconds=9.0), "+warning reader_lapsed r"),
    (reader.Forgotten(reader="r"), "-reader_lapsed r -dead_letter r -handler r"),
    (alert.Raised(kind="disk", subject="n", level="critical", detail="full"), "+critical disk n"),
    (alert.Cleared(kind="disk", subject="n"), "-disk n"),
]


def written(change: Alert | tuple[str, str]) -> str:
    """*change* in short."""
    return f"+{change.level} {change.kind} {change.subject}" if isinstance(change, Alert) else f"-{' '.join(change)}"


def disk(subject: str = "n", **changes: object) -> Alert:
    """Trouble with a disk."""
    return msgspec.structs.replace(Alert(kind="disk", subject=subject, level="severe", detail="full"), **changes)


def opened(*change: Alert, at: float = 5.0) -> list[Alert]:
    """The alerts that *change* opens."""
    return _settle((), change, at)[0]


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
    first, events = _settle((), [disk()], 5.0)
    again = _settle(first, [disk(level="critical", detail="fuller", count=3)], 9.0)

    assert events == [alert.Raised(kind="disk", subject="n", level="severe", detail="full")]
    newest = Alert(kind="disk", subject="n", level="critical", detail="fuller", since=5.0, count=4)
    assert again == ([newest], [])


def test_an_end_closes_an_open_alert_and_all_below_it() -> None:
    """Closing a node closes the alerts about its parts, and none of another kind, another node or a longer name."""
    before = opened(disk("n"), disk("n/sda"), disk("n2"), disk("n", kind="fan"))

    ended, events = _settle(before, [("disk", "n")], 9.0)

    assert [(alert.subject, alert.until) for alert in ended] == [("n", 9.0), ("n/sda", 9.0)]
    assert events == [alert.Cleared(kind="disk", subject="n"), alert.Cleared(kind="disk", subject="n/sda")]


def test_an_end_without_a_beginning_changes_nothing() -> None:
    """An alert that is not open cannot be closed, and nothing is published."""
    assert _settle((), [("disk", "n")], 9.0) == ([], [])


def test_an_alert_that_opens_and_closes_at_once_is_published_in_order() -> None:
    """Several effects of one event are applied in their order."""
    both, events = _settle((), [disk(), ("disk", "n"), disk()], 9.0)

    assert [type(event).__name__ for event in events] == ["Raised", "Cleared", "Raised"]
    assert [alert.until for alert in both] == [None]


def test_too_many_alerts_become_one_alert() -> None:
    """Beyond the limit trouble is counted in one summary alert; an alert that is already open still counts for
    itself."""
    full = opened(*(disk(str(number)) for number in range(_OPEN_MAX)))

    over, events = _settle(full, [disk("one more"), disk("and another"), disk("7")], 9.0)

    assert [(alert.kind, alert.subject, alert.count) for alert in over] == [("alerts", "", 2), ("disk", "7", 2)]
    assert [event.kind for event in events] == ["alerts"]


def test_names_and_details_are_bounded() -> None:
    """Texts of any length fit into a record and an event, and identify the same alert again."""
    long = disk("x" * 10_000, detail="y\ud800" * 10_000)

    [alert] = opened(long)
    [ended], _ = _settle([alert], [("disk", long.subject)], 9.0)

    assert len(alert.subject) <= 200
    assert len(alert.detail) <= 500
    assert ended.until == 9.0
    catalog.encode(_settle((), [long], 5.0)[1][0])


def test_the_oldest_closed_alerts_are_forgotten(tmp_path: Path) -> None:
    """Only a bounded number of closed alerts is kept: the first cleared goes first."""
    closed = [
        Alert(kind="disk", subject=str(number), level="info", detail="", since=0.0, until=float(number))
        for number in range(_CLOSED_MAX + 2)
    ]

    async def story(world: World) -> None:
        async with world.store.begin() as tx:
            await _ALERTS.put(tx, [*closed[: 1 - _CLOSED_MAX : -1], *opened(disk("n1"), disk("n2"))])
            await apply(tx, [("disk", "n1")], 9999.0)
            assert len(await closed_alerts(tx)) == _CLOSED_MAX - 1
            await _ALERTS.put(tx, closed[::-1])
            await apply(tx, [("disk", "n2")], 9999.0)
            left = {alert.id for alert in await closed_alerts(tx)}
        assert left == {"disk:n1", "disk:n2", *(alert.id for alert in closed[4:])}

    play(tmp_path, story)


def test_levels_have_an_order() -> None:
    """Critical is worst; an unknown level counts as a warning."""
    assert rank("info") < rank("minor") < rank("odd") == rank("warning") < rank("severe") < rank("critical")
