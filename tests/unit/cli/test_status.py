"""Status shows what each node does, and every alert that is open."""

from ringrift.cli.alerts import alert_line
from ringrift.cli.status import SHOWN_MAX, State, as_text, does
from ringrift.cluster.activity import Doing, Running
from ringrift.cluster.alerts import Alert
from ringrift.cluster.roster import NodeRecord

NOW = 10_000.0
IDLE = Doing()
TRAIN = Running(job="j", kind="train", variant="hex8_2p", since=0.0, done=0.4)


def state(*, doing: Doing = IDLE, gone: bool = False, alerts: int = 0) -> State:
    """A cluster of one node."""
    node = NodeRecord(id="n1", profile="full", address="/blobs", beat=1, gone=gone, doing=doing)
    found = [
        Alert(kind="daemon", subject=f"n1/{number}", level="severe", detail="no", since=NOW - 90.0, count=3)
        for number in range(alerts)
    ]
    return State(
        position=7, lines=[], tally={}, claimed=[], dead=[], nodes=[node], roles=[], letters=[], alerts=found
    )  # fmt: skip


def test_a_node_shows_what_it_does() -> None:
    """Each job with its kind, its variant and how far it is; the rest is counted, and what fails is named."""
    busy = Doing(jobs=(TRAIN,), more=2, failing=("fill", "gauge"))

    assert does(busy) == "train hex8_2p 40 %, 2 more, FAILING: fill gauge"
    assert does(IDLE) == "nothing"
    assert "train hex8_2p 40 %" in as_text(state(doing=Doing(jobs=(TRAIN,))), NOW)
    assert "gone" in as_text(state(doing=Doing(jobs=(TRAIN,)), gone=True), NOW)


def test_what_is_wrong_names_the_alerts() -> None:
    """With level, subject, reason, since when and how often; without any, nothing is wrong."""
    text = as_text(state(alerts=1), NOW)

    assert "severe: daemon n1/0: no, since " in text
    assert "(1 min 30 s ago, 3 times)" in text
    assert "what is wrong: nothing" in as_text(state(), NOW)


def test_many_alerts_do_not_fill_the_screen() -> None:
    """So many are shown; who wants them all is told where they are."""
    text = as_text(state(alerts=SHOWN_MAX + 5), NOW)

    assert text.count("severe: daemon") == SHOWN_MAX
    assert "… and 5 more alerts: see  ringrift alerts" in text


def test_an_alert_that_is_over_says_so() -> None:
    """With the time at which it was cleared."""
    over = Alert(kind="disk", subject="n", level="info", detail="", since=NOW, until=NOW + 5.0)

    assert "disk n: no detail, since " in alert_line(over, NOW)
    assert ", cleared " in alert_line(over, NOW)
