"""Every name in the documents leads to an event of ours or to a reason, and saying one never invents anything."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.events import alert, catalog, data, evaluation, model, node, pipeline, reader, selfplay, training, work
from ringrift.events.base import Event
from ringrift.events.custom import Said
from ringrift.events.old_names import Row, canonical, convert, matches, names, resolve, spoken
from ringrift.kernel.errors import InputError, InvalidId, InvalidPayload, TooDeep, TooLarge, UnknownName

RECORDED = Path(__file__).parent / "recorded"
DOCUMENTED = (RECORDED / "old_names.txt").read_text().split()
"""Every name and enum value of the earlier system, its stages, and every event in the documents we build from."""
SUBJECTS = re.compile(
    "SELFPLAY|DATA_|TRAINING|EVALUATION|PROMOTION|WORK_|TASK|JOB|NODE|HOST|DAEMON|HEALTH|DLQ|HANDLER|ELO_|NPZ"
)
IN_SEEDS = (RECORDED / "seed_names.txt").read_text().split()
BATCH = {"config_key": "hex8_2p", "games_generated": 100, "batch": "b", "node_id": "n", "model": "m"}
PLAYED = selfplay.BatchFinished(variant="hex8_2p", games=100, batch="b", node="n", model="m")


def row_of(name: str) -> Row:
    """The row of a name that has one."""
    row = resolve(name)
    assert row is not None
    return row


def test_every_documented_name_resolves() -> None:
    """No name in the documents or of the earlier system is unknown."""
    assert len(DOCUMENTED) > 700
    assert [name for name in DOCUMENTED if resolve(name) is None] == []


def test_a_row_is_an_event_or_has_a_reason() -> None:
    """A name is typed or retired, never both and never neither."""
    assert [name for name, row in names().items() if (row.event is None) != bool(row.retired)] == []


def test_names_in_the_seeds_are_not_retired() -> None:
    """What the documents print is an event of ours."""
    assert [name for name in IN_SEEDS if row_of(name).event is None] == []


def test_names_whose_subject_exists_are_not_retired() -> None:
    """Selfplay, data, training, evaluation, promotion, work, nodes, daemons, health and letters are all still here."""
    assert [name for name, row in names().items() if row.event is None and SUBJECTS.search(name)] == []


def test_rows_name_fields_that_exist() -> None:
    """Every field that a row maps to or fixes is one of its event, with a value that the event can have."""
    for name, row in names().items():
        if row.event is not None:
            fields = set(row.event.__struct_fields__)
            assert set(row.same.values()) <= fields, name
            assert set(row.fixed) <= fields, name


@pytest.mark.parametrize("event", catalog.EVENTS, ids=lambda event: event.name())
def test_our_own_names_are_ours_in_every_spelling(event: type[Event]) -> None:
    """A name of ours leads to its own event with nothing fixed, also when an old name is spelled the same."""
    for spelling in (event.name(), event.name().upper(), event.name().replace(".", "_").upper()):
        assert row_of(spelling).event is event
        assert not row_of(spelling).fixed


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("NPZ_EXPORT_COMPLETE", "NPZ_EXPORT_COMPLETED"),
        ("SELFPLAY_COMPLETE", "GAME_BATCH_READY"),
        ("SELFPLAY_COMPLETE", "selfplay_completion"),
        ("EVALUATION_COMPLETED", "EVALUATION_RESULT"),
        ("TRAINING_COMPLETED", "training.completed"),
        ("TRAINING_COMPLETED", "training_complete"),
        ("TRAINING_COMPLETED", "Training.Completion"),
        ("NEW_GAMES_AVAILABLE", "new_games"),
        ("DATA_SYNC_COMPLETED", "sync_complete"),
        ("DATA_SYNC_STARTED", "sync_started"),
        ("TRAINING_THRESHOLD_REACHED", "training_threshold"),
        ("MODEL_PROMOTED", "model.promoted"),
        ("DAEMON_FAILED", "daemon_permanently_failed"),
    ],
)
def test_two_spellings_are_one_name(one: str, other: str) -> None:
    """Case, dots, endings and second words do not make a second event."""
    assert canonical(one) == canonical(other) == one
    assert row_of(one).event is row_of(other).event


def test_an_unknown_name_stays_as_it_is() -> None:
    """A name nobody used is written in upper case, and nothing else is done to it."""
    assert resolve("my.own_thing") is None
    assert canonical("my.own_thing") == "MY.OWN_THING"


def test_a_payload_with_everything_becomes_the_event() -> None:
    """Their words for our fields are understood, and what we have no field for is left out."""
    assert convert("selfplay_complete", {**BATCH, "db_path": "/data/games.db", "success": True}) == PLAYED
    assert convert("GAME_BATCH_READY", BATCH) == PLAYED


@pytest.mark.parametrize(
    ("name", "payload", "event"),
    [
        (
            "TRAINING_STARTED",
            {"config": "hex8_2p", "job_id": "j", "host": "n", "attempt": 1},
            work.Started(job="j", kind="train", variant="hex8_2p", node="n", attempts=1),
        ),
        (
            "EXPORT_TRIGGERED",
            {"config": "hex8_2p", "threshold_met": True},
            pipeline.Requested(variant="hex8_2p", stage="export"),
        ),
        (
            "TRAINING_TRIGGERED",
            {"config_key": "hex8_2p", "samples": 12_000, "reason": "enough"},
            pipeline.Requested(variant="hex8_2p", stage="train", reason="enough"),
        ),
        (
            "DATA_SYNC_COMPLETED",
            {"config_key": "hex8_2p", "blob": "b", "nodes": ["n", "o"], "kind": "model"},
            data.Synced(variant="hex8_2p", blob="b", kind="games", nodes=("n", "o")),
        ),
        (
            "NPZ_EXPORT_COMPLETED",
            {"config_key": "v_2p", "samples": "s", "samples_exported": 9, "batches": ["b"], "node": "n"},
            data.Exported(variant="v_2p", samples="s", count=9, batches=("b",), node="n"),
        ),
        (
            "training.completed",
            {"config_key": "v_2p", "model_id": "m", "generation": 1, "host": "n", "metrics": {"loss": 1}, "job": None},
            training.Finished(variant="v_2p", model="m", generation=1, node="n", metrics={"loss": 1.0}),
        ),
        ("HOST_OFFLINE", {"hostname": "n", "seconds": 30}, node.Lost(node="n", seconds=30.0)),
        ("NODE_RECOVERED", {"node_id": "n", "node": "o"}, node.Recovered(node="o")),
        ("REGRESSION_MINOR", {}, alert.Raised(kind="regression", level="minor")),
        (
            "disk_space_low",
            {"host": "n", "message": "3 %", "level": "info"},
            alert.Raised(kind="disk", subject="n", level="warning", detail="3 %"),
        ),
        (
            "model.rejected",
            {"variant": "v_2p", "model": "m", "reason": "r", "type": "x"},
            model.Rejected(variant="v_2p", model="m", reason="r"),
        ),
        ("custom.said", {"event": "X", "payload": {"a": 1}}, Said(event="X", payload={"a": 1})),
    ],
)
def test_what_is_said_is_understood(name: str, payload: dict[str, Any], event: Event) -> None:
    """Field words are mapped, the name's own fields win over the payload's, and ours over theirs."""
    assert convert(name, payload) == event
    assert canonical(name) in spoken(event)


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("SELFPLAY_COMPLETE", {"config_key": "hex8_2p", "games_generated": 1000, "db_path": "/data/games/selfplay.db"}),
        ("TRAINING_COMPLETED", {"config_key": "hex8_2p", "model_path": "/models/x.pth", "metrics": {"loss": 0.5}}),
        ("MODEL_PROMOTED", {"model_path": "models/canonical_hex8_2p.pth"}),
        ("DATA_SYNC_COMPLETED", {"games_synced": 150, "duration": 12.5}),
        ("SELFPLAY_COMPLETE", {**BATCH, "games_generated": "100"}),
        ("SELFPLAY_COMPLETE", {**BATCH, "games_generated": True}),
        ("CUSTOM_EVENT", {"data": "value"}),
        ("QUORUM_LOST", {"voters": 2}),
        ("MY.OWN_THING", {"a": [1, {"b": None}]}),
    ],
)
def test_what_holds_too_little_is_kept_as_it_was_said(name: str, payload: dict[str, Any]) -> None:
    """Missing fields, wrong types, retired and unknown names are carried whole, and heard under their name."""
    event = convert(name, payload)

    assert event == Said(event=name, payload=payload)
    assert canonical(name) in spoken(event)
    assert catalog.decode(event.name(), catalog.encode(event)) == event


def test_what_was_said_is_heard_under_its_other_spelling() -> None:
    """Somebody who listens to the second word for an event hears what was said under the first."""
    assert canonical("GAME_BATCH_READY") in spoken(convert("selfplay_complete", {"config": "hex8_2p"}))


def test_strict_refuses_only_what_is_unknown() -> None:
    """A retired name, and a known one with too little, are still carried; a name that nobody ever used is refused."""
    assert convert("QUORUM_LOST", {}, strict=True) == Said(event="QUORUM_LOST")
    assert convert("TRAINING_COMPLETED", {}, strict=True) == Said(event="TRAINING_COMPLETED")
    with pytest.raises(UnknownName) as refused:
        convert("MY_OWN_THING", {}, strict=True)

    assert (refused.value.kind, refused.value.name) == ("event", "MY_OWN_THING")


@pytest.mark.parametrize("name", ["", "a b", "ev.>", "1a", "x" * 129, "ü"])
def test_a_name_must_be_a_name(name: str) -> None:
    """What could not be the name of an event is refused before anything else."""
    with pytest.raises(InvalidId):
        convert(name, {})


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ({"a": object()}, InvalidPayload),
        ({"a": math.nan}, InvalidPayload),
        ({"a": [math.inf]}, InvalidPayload),
        ({"a": 2**63}, InvalidPayload),
        ({"a": "\ud800"}, InvalidPayload),
        ({"a": "x" * 70_000}, TooLarge),
        (["a"], InvalidPayload),
        (None, InvalidPayload),
    ],
)
def test_a_payload_must_be_json(payload: Any, error: type[InputError]) -> None:
    """What no reader could decode is refused by an error that says so, and not carried."""
    with pytest.raises(error):
        convert("CUSTOM_EVENT", payload)


def test_a_payload_without_end_is_refused() -> None:
    """A payload that contains itself, or is nested beyond the limit, does not break the stack."""
    round_and_round: dict[str, Any] = {}
    round_and_round["a"] = round_and_round
    deep: Any = 1
    for _ in range(40):
        deep = [deep]

    with pytest.raises(InvalidPayload):
        convert("CUSTOM_EVENT", round_and_round)
    with pytest.raises(TooDeep):
        convert("CUSTOM_EVENT", {"a": deep})


def test_the_payload_is_copied() -> None:
    """Who goes on using his dictionary does not change what he said."""
    payload: dict[str, Any] = {"a": [1]}
    event = convert("CUSTOM_EVENT", payload)

    payload["a"].append(2)

    assert event == Said(event="CUSTOM_EVENT", payload={"a": [1]})


def test_a_listener_hears_what_the_name_means() -> None:
    """Only events of the class with the fields that the name fixes are meant."""
    training_began = work.Started(job="j", kind="train", variant="v_2p", node="n", attempts=1)
    match_began = work.Started(job="j", kind="match", variant="v_2p", node="n", attempts=1)

    assert matches(row_of("TRAINING_STARTED"), training_began)
    assert not matches(row_of("TRAINING_STARTED"), match_began)
    assert matches(row_of("WORK_STARTED"), match_began)
    assert not matches(row_of("QUORUM_LOST"), match_began)


def test_the_closest_name_comes_first() -> None:
    """An event is called by the name that says most, then by the documented one, and last by our own."""
    finished = evaluation.Finished(
        variant="v", candidate="c", champion="p", blocks=4, score=0.6, elo=70, promoted=False
    )
    began = work.Started(job="j", kind="train", variant="v", node="n", attempts=1)

    assert spoken(began)[0] == "TRAINING_STARTED"
    assert "WORK_STARTED" in spoken(began)
    assert spoken(finished)[:2] == ("EVALUATION_COMPLETED", "ELO_UPDATED")
    assert "PROMOTION_CONSENSUS_APPROVED" not in spoken(finished)
    assert spoken(PLAYED)[0] == "SELFPLAY_COMPLETE"
    assert spoken(PLAYED)[-1] == "SELFPLAY_BATCH_FINISHED"
    assert spoken(alert.Raised(kind="regression", level="minor"))[:2] == ("REGRESSION_MINOR", "REGRESSION_DETECTED")
    assert spoken(reader.Forgotten(reader="r")) == ("READER_FORGOTTEN",)


def test_every_typed_name_is_among_those_its_event_answers_to() -> None:
    """What is said under a name and understood is heard under that name too."""
    from ringrift.events.schema import example

    for name, row in names().items():
        if row.event is not None and row.event is not Said:
            event = convert(name, example(row.event))
            assert type(event) is row.event, name
            assert name in spoken(event), name


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60)
@given(st.sampled_from(DOCUMENTED) | st.text(max_size=12), st.dictionaries(st.text(max_size=12), PLAIN, max_size=4))
def test_anything_said_can_be_published_or_is_refused(name: str, payload: dict[str, Any]) -> None:
    """Whatever is said, what comes of it encodes and decodes to itself, or an input error says why not."""
    try:
        event = convert(name, payload)
    except InputError:
        return

    assert catalog.decode(event.name(), catalog.encode(event)) == event
