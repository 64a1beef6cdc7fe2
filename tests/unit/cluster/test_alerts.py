"""Trouble opens an alert, its end closes it, and there are never too many of either."""

import msgspec
import pytest

from ringrift.cluster.alerts import (
    CLOSED_MAX,
    EVENTS,
    OPEN_MAX,
    Alert,
    Close,
    Open,
    judge,
    rank,
    settle,
    surplus,
)
from ringrift.events import (
    alert,
    catalog,
    daemon,
    data,
    evaluation,
    health,
    letter,
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
    (letter.Changed(reader="r", positions=(7, 8), state="dead", error="no"), "+severe letter r"),
    (letter.Changed(reader="r", positions=(7,), state="done"), "-letter r"),
    (letter.Changed(reader="r", positions=(7,), state="discarded"), "-letter r"),
    (letter.Changed(reader="r", positions=(7,), state="parked", error="no"), ""),
    (reader.Lapsed(reader="r", position=7, seconds=9.0), "+warning reader_lapsed r"),
    (reader.Forgotten(reader="r"), "-reader_lapsed r -letter r"),
    (alert.Raised(kind="disk", subject="n", level="critical", detail="full"), "+critical disk n"),
    (alert.Cleared(kind="disk", subject="n"), "-disk n"),
]  # fmt: skip


def written(meant: Open | Close) -> str:
    """*meant* in short."""
    sign = f"+{meant.level} " if isinstance(meant, Open) else "-"
    return f"{sign}{meant.kind} {meant.subject}"


def disk(subject: str = "n", **changes: object) -> Open:
    """Trouble with a disk."""
    return msgspec.structs.replace(Open(kind="disk", subject=subject, level="severe", detail="full"), **changes)


def opened(*meant: Open, at: float = 5.0) -> list[Alert]:
    """The alerts that *meant* open."""
    return list(settle((), meant, at).alerts)


@pytest.mark.parametrize(("event", "expected"), TABLE, ids=lambda one: one if isinstance(one, str) else one.name())
def test_each_event_means_what_the_table_says(event: Event, expected: str) -> None:
    """Which alert an event opens, how bad that is, and which it closes."""
    assert " ".join(written(meant) for meant in judge(event)) == expected


def test_the_daemon_hears_exactly_what_means_something() -> None:
    """Every event of the table is listed for the daemon, and what is listed is in the table."""
    assert {type(event) for event, expected in TABLE if expected} == set(EVENTS)
    assert set(EVENTS) <= set(catalog.EVENTS)


def test_an_alert_opens_once_and_counts() -> None:
    """The same trouble again is the same alert: it keeps its beginning, takes the newest words, and is said once."""
    first = settle((), [disk()], 5.0)
    again = settle(first.alerts, [disk(level="critical", detail="fuller", count=3)], 9.0)

    assert first.events == (alert.Raised(kind="disk", subject="n", level="severe", detail="full"),)
    assert again.events == ()
    assert again.alerts == (Alert(kind="disk", subject="n", level="critical", detail="fuller", since=5.0, count=4),)


def test_an_end_closes_what_is_open_and_all_below_it() -> None:
    """Closing a node closes the alerts about its parts, and none of another kind, another node or a longer name."""
    known = opened(disk("n"), disk("n/sda"), disk("n2"), disk("n", kind="fan"))

    ended = settle(known, [Close(kind="disk", subject="n")], 9.0)

    assert [(one.subject, one.until) for one in ended.alerts] == [("n", 9.0), ("n/sda", 9.0)]
    assert ended.events == (alert.Cleared(kind="disk", subject="n"), alert.Cleared(kind="disk", subject="n/sda"))


def test_an_end_without_a_beginning_changes_nothing() -> None:
    """What is not open cannot be closed, and nothing is said of it."""
    assert settle((), [Close(kind="disk", subject="n")], 9.0).alerts == ()
    assert settle((), [Close(kind="disk", subject="n")], 9.0).events == ()


def test_what_opens_and_ends_at_once_is_said_as_it_was() -> None:
    """Several meanings of one event are taken in their order."""
    both = settle((), [disk(), Close(kind="disk", subject="n"), disk()], 9.0)

    assert [type(said).__name__ for said in both.events] == ["Raised", "Cleared", "Raised"]
    assert [one.until for one in both.alerts] == [None]


def test_more_alerts_than_anybody_reads_are_one_alert() -> None:
    """Beyond the limit trouble is counted in one alert that says so; what is open already still counts for itself."""
    full = opened(*(disk(str(number)) for number in range(OPEN_MAX)))

    over = settle(full, [disk("one more"), disk("and another"), disk("7")], 9.0)

    assert [(one.kind, one.subject, one.count) for one in over.alerts] == [("alerts", "", 2), ("disk", "7", 2)]
    assert [said.kind for said in over.events] == ["alerts"]


def test_names_and_details_have_an_end() -> None:
    """However long somebody's words are, they fit into a record and an event, and find their alert again."""
    long = disk("x" * 10_000, detail="y\ud800" * 10_000)

    [one] = opened(long)
    ended = settle([one], [Close(kind="disk", subject=long.subject)], 9.0)

    assert len(one.subject) <= 200
    assert len(one.detail) <= 500
    assert [found.until for found in ended.alerts] == [9.0]
    catalog.encode(settle((), [long], 5.0).events[0])


def test_the_oldest_that_are_over_are_forgotten() -> None:
    """Only so many closed alerts are kept: what was cleared first goes first."""
    closed = [
        Alert(kind="disk", subject=str(number), level="info", detail="", since=0.0, until=float(number))
        for number in range(CLOSED_MAX + 2)
    ]

    assert surplus(closed[::-1]) == ["disk:0", "disk:1"]
    assert surplus(closed[:CLOSED_MAX]) == []


def test_levels_have_an_order() -> None:
    """Critical is worst; a word that nobody knows counts as a warning."""
    assert rank("info") < rank("minor") < rank("odd") == rank("warning") < rank("severe") < rank("critical")
