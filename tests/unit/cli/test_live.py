"""What people hear of while the loop runs: every event that is for people has a sentence."""

import pytest

from ringrift.cli.live import told
from ringrift.events import alert, cluster, custom, evaluation, model, node, work
from ringrift.events.base import Event, Unknown
from ringrift.events.catalog import FOR_PEOPLE

V = "hex8_2p"
SENTENCES: list[tuple[Event, str]] = [
    (alert.Raised(kind="daemon", subject="n/fill", level="severe", detail="no"), "ALERT severe: daemon n/fill: no"),
    (alert.Cleared(kind="daemon", subject="n/fill"), "alert over: daemon n/fill"),
    (alert.Cleared(kind="disk", subject="n", detail="swapped"), "alert over: disk n swapped"),
    (cluster.RoleTaken(role="fill", node="n", term=3), "node n leads fill in term 3"),
    (custom.Said(event="MY_EVENT", payload={"a": 1}), "MY_EVENT: {'a': 1}"),
    (
        evaluation.VelocityChanged(variant=V, trend="rising", before="flat", elo_per_hour=12.4, matches=5),
        "hex8_2p: rising, before flat: +12 Elo an hour over the last 5 matches",
    ),
    (work.Enqueued(variant=V, kind="train", jobs=("j",)), "hex8_2p: train is asked for"),
    (work.Rescued(jobs=("a", "b")), "2 leases were not renewed and have been taken back"),
    (model.Rejected(variant=V, model="m" * 64, reason="weak"), "hex8_2p: candidate mmmmmmmmmm rejected: weak"),
    (node.Left(node="n"), "node n left"),
]


@pytest.mark.parametrize(("event", "sentence"), SENTENCES, ids=lambda one: "" if isinstance(one, str) else one.name())
def test_an_event_is_told_in_a_sentence(event: Event, sentence: str) -> None:
    """Each as a person would say it."""
    assert told(event) == sentence


def test_every_event_for_people_has_a_sentence() -> None:
    """What nobody else reacts to is told, or people would never hear of it."""
    assert {type(event) for event, _ in SENTENCES} >= FOR_PEOPLE


def test_what_nobody_wants_to_hear_is_not_told() -> None:
    """Small jobs, and events of another version."""
    assert told(work.Enqueued(variant=V, kind="sync", jobs=("j",))) is None
    assert told(Unknown(wire_name="x.y", raw=b"{}")) is None


def test_long_words_have_an_end() -> None:
    """A payload of any size is one line on a screen."""
    text = told(custom.Said(event="E", payload={"a": "x" * 10_000}))

    assert text is not None
    assert len(text) <= 160
