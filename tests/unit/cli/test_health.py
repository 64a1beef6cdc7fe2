"""Health is the worst of what nodes and daemons say; who is not heard is neither alive nor ready."""

from typing import Any

import pytest

from ringrift.cli.commands.health import _as_text, _parts, _probe
from ringrift.cli.presence import Presence
from ringrift.cluster.activity import Activity
from ringrift.cluster.alerts import Alert
from ringrift.cluster.daemon_summary import DaemonSummary
from ringrift.cluster.roster import NodeRecord
from ringrift.kernel.health import Health, Status, whole
from ringrift.supervision.status import DaemonStatus


def daemon(name: str, status: Status = Status.HEALTHY, reason: str = "", **fields: Any) -> DaemonStatus:
    """A daemon with this health."""
    health = Health(part=name, status=status, reason=reason, since=fields.pop("since", None))
    return DaemonStatus(name=name, health=health, **fields)


BEAT = daemon("beat", critical=True)
STOPPED = daemon("rate", Status.UNKNOWN, "stopped", state="stopped", since=40.0)
BROKEN = daemon("beat", Status.UNHEALTHY, "given up: no", critical=True, state="failed")
STARTING = daemon("work", Status.UNKNOWN, "not ready yet", critical=True)


def node(id: str, *statuses: DaemonStatus) -> NodeRecord:
    """A node that reports these daemons."""
    activity = Activity(daemons=DaemonSummary(statuses=statuses))
    return NodeRecord(id=id, profile="full", address=id, beat=1, activity=activity)


WELL = Presence(present=(node("a", BEAT),), seconds=15.0)


def status(presence: Presence, *alerts: Alert) -> Status:
    """How all of it is."""
    return whole("cluster", _parts(presence, alerts)).status


def test_all_is_well_only_if_every_part_is_known_to_be() -> None:
    """A daemon that was stopped by hand is unknown, a silent node is unhealthy, nobody at all is unknown."""
    assert status(WELL) is Status.HEALTHY
    assert status(Presence(present=(node("a", BEAT, STOPPED),))) is Status.UNKNOWN
    assert status(Presence(present=WELL.present, silent=(node("b", BEAT),), seconds=15.0)) is Status.UNHEALTHY
    assert status(Presence()) is Status.UNKNOWN


def test_what_is_written_down_as_wrong_counts() -> None:
    """An open alert about a node that is here."""
    alert = Alert(kind="quarantine", subject="a", level="severe", detail="it lies", since=1.0)

    assert status(WELL, alert) is Status.DEGRADED


def test_people_read_each_part_that_is_not_well() -> None:
    """The worst first, with its reason and since when."""
    presence = Presence(present=(node("a", BEAT, STOPPED, BROKEN),))
    every = _parts(presence, [])
    problems = [part for part in every if part.status is not Status.HEALTHY]

    text = _as_text(whole("cluster", every), problems, 100.0)

    assert text.splitlines() == [
        "unhealthy, score 0.38",
        "  unhealthy  a/beat: given up: no",
        "  unknown  a/rate: stopped (since 1 min 0 s ago)",
        "  degraded  a: daemons that failed and do not run: beat",
    ]
    assert _as_text(whole("cluster", []), [], 100.0).splitlines() == ["unknown, score 0.00", "  no running node"]


@pytest.mark.parametrize(
    ("presence", "alive", "ready", "reason"),
    [
        (WELL, True, True, ""),
        (Presence(present=(node("a", BEAT, STOPPED),)), True, True, ""),
        (Presence(present=(node("a", BEAT, STARTING),)), True, False, "a/work: not ready yet"),
        (Presence(present=(node("a", BEAT), node("b", BROKEN))), False, False, "b/beat: given up: no"),
        (Presence(present=WELL.present, silent=(node("c"),), seconds=15.0), False, False, "c: no heartbeat for 15 s"),
        (Presence(present=(node("old"),)), False, False, "old/reports no critical daemon"),
        (Presence(), False, False, "no running node"),
    ],
)
def test_a_probe_says_yes_only_when_it_is_so(presence: Presence, alive: bool, ready: bool, reason: str) -> None:
    """Only what is critical counts; whoever is not heard or says nothing is a no with that reason."""
    assert (_probe(presence, ready=False).ok, _probe(presence, ready=True).ok) == (alive, ready)
    assert _probe(presence, ready=True).reasons == ((reason,) if reason else ())
