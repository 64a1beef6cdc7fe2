"""Health is the worst of what nodes and daemons say; who is not heard is neither alive nor ready."""

import pytest

from ringrift.cli.health import as_text, parts, probe
from ringrift.cli.heard import Heard
from ringrift.cluster.activity import Doing
from ringrift.cluster.alerts import Alert
from ringrift.cluster.duties import Duties, Duty
from ringrift.cluster.roster import NodeRecord
from ringrift.kernel.health import Status, whole

BEAT = Duty(name="beat", critical=True)
STOPPED = Duty(name="rate", state="stopped", status="unknown", reason="stopped", since=40.0)
BROKEN = Duty(name="beat", critical=True, state="failed", status="unhealthy", reason="given up: no")
STARTING = Duty(name="work", critical=True, status="unknown", reason="not ready yet")


def node(id: str, *duties: Duty) -> NodeRecord:
    """A node that says this of its daemons."""
    doing = Doing(daemons=len(duties), duties=Duties(shown=duties))
    return NodeRecord(id=id, profile="full", address=id, beat=1, doing=doing)


WELL = Heard(here=(node("a", BEAT),), seconds=15.0)


def status(found: Heard, *alerts: Alert) -> Status:
    """How all of it is."""
    return whole("cluster", parts(found, alerts)).status


def test_all_is_well_only_if_every_part_is_known_to_be() -> None:
    """A daemon that was stopped by hand is unknown, a silent node is unhealthy, nobody at all is unknown."""
    assert status(WELL) is Status.HEALTHY
    assert status(Heard(here=(node("a", BEAT, STOPPED),))) is Status.UNKNOWN
    assert status(Heard(here=WELL.here, silent=(node("b", BEAT),), seconds=15.0)) is Status.UNHEALTHY
    assert status(Heard()) is Status.UNKNOWN


def test_what_is_written_down_as_wrong_counts() -> None:
    """An open alert about a node that is here."""
    alert = Alert(kind="quarantine", subject="a", level="severe", detail="it lies", since=1.0)

    assert status(WELL, alert) is Status.DEGRADED


def test_people_read_each_part_that_is_not_well() -> None:
    """The worst first, with its reason and since when."""
    found = Heard(here=(node("a", BEAT, STOPPED, BROKEN),))
    every = parts(found, [])
    wrong = [part for part in every if part.status is not Status.HEALTHY]

    text = as_text(whole("cluster", every), wrong, 100.0)

    assert text.splitlines() == [
        "unhealthy, score 0.50",
        "  unhealthy  a/beat: given up: no",
        "  unknown  a/rate: stopped (since 1 min 0 s ago)",
    ]
    assert as_text(whole("cluster", []), [], 100.0).splitlines() == ["unknown, score 0.00", "  no node is here"]


@pytest.mark.parametrize(
    ("found", "alive", "ready", "reason"),
    [
        (WELL, True, True, ""),
        (Heard(here=(node("a", BEAT, STOPPED),)), True, True, ""),
        (Heard(here=(node("a", BEAT, STARTING),)), True, False, "a/work: not ready yet"),
        (Heard(here=(node("a", BEAT), node("b", BROKEN))), False, False, "b/beat: given up: no"),
        (Heard(here=WELL.here, silent=(node("c"),), seconds=15.0), False, False, "c: not heard of for 15 s"),
        (Heard(here=(node("old"),)), False, False, "old/says nothing of its critical daemons"),
        (Heard(), False, False, "no node is here"),
    ],
)  # fmt: skip
def test_a_probe_says_yes_only_when_it_is_so(found: Heard, alive: bool, ready: bool, reason: str) -> None:
    """Only what is critical counts; whoever is not heard or says nothing is a no with that reason."""
    assert (bool(probe(found, ready=False)), bool(probe(found, ready=True))) == (alive, ready)
    assert probe(found, ready=True).reasons == ((reason,) if reason else ())
