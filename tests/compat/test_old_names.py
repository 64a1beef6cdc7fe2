"""Every name in the documents leads to an event of ours or to a reason, and publishing one never invents anything."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.events import alert, catalog, data, evaluation, model, node, pipeline, reader, selfplay, training, work
from ringrift.events.base import Envelope, Event
from ringrift.events.custom import Published
from ringrift.kernel.errors import InputError, InvalidId, InvalidPayload, TooDeep, TooLarge, UnknownName
from ringrift_compat.events.old_names import (
    Row,
    _matches,
    canonical,
    make_event,
    make_filter,
    names,
    names_of,
    resolve,
    to_plain,
)

RECORDED = Path(__file__).parent / "recorded"
DOCUMENTED = (RECORDED / "old_names.txt").read_text().split()
"""Every name and enum value of the earlier system, its stages, and every event in the documents we build from."""
LATER = re.compile("CURRICULUM|CMAES|NAS_|PBT|QUALITY|CACHE|OWC|BACKUP_COMPLETED|BUDGET|PROVISION|MEMORY|GPU|PARITY")
"""Subjects that later work brings."""
IN_SEEDS = (RECORDED / "seed_names.txt").read_text().split()
BATCH = {"config_key": "hex8_2p", "games_generated": 100, "batch": "b", "node_id": "n", "model": "m"}
PLAYED = selfplay.BatchFinished(variant="hex8_2p", games=100, batch="b", node="n", model="m")


def convert(name: str, payload: Any, **options: bool) -> Event:
    """The event of *payload* under *name*, as a publish makes it."""
    return make_event(name, to_plain(payload), **options)


def row_of(name: str) -> Row:
    """The row of a name that has one."""
    row = resolve(name)
    assert row is not None
    return row


def test_every_documented_name_resolves() -> None:
    """No name in the documents or of the earlier system is unknown."""
    assert len(DOCUMENTED) > 700
    assert [name for name in DOCUMENTED if resolve(name) is None] == []


def test_a_name_is_true_not_yet_there_or_retired() -> None:
    """A name has exactly one of an event, something that brings it, and a reason why it never comes."""
    kinds = {name: [row.event is not None, bool(row.not_yet), bool(row.retired)] for name, row in names().items()}

    assert [name for name, kind in kinds.items() if sum(kind) != 1] == []


def test_the_names_in_the_seeds_are_true() -> None:
    """Every event that the documents print is an event of ours."""
    assert [name for name in IN_SEEDS if row_of(name).event is None] == []


def test_later_subjects_are_not_retired() -> None:
    """Tuning, curriculum, quality, caches and drives come later: none of their names is retired."""
    assert [name for name, row in names().items() if row.retired and LATER.search(name)] == []


def test_truth_is_not_bought_by_saying_less() -> None:
    """Well over a third of all names are true."""
    assert len(names()) == 364
    assert sum(row.event is not None for row in names().values()) >= 160


def test_rows_name_fields_that_exist() -> None:
    """Every field that a row maps to or fixes is one of its event, and a condition has its words."""
    for name, row in names().items():
        if row.event is not None:
            fields = set(row.event.__struct_fields__)
            assert set(row.same.values()) <= fields, name
            assert set(row.fixed) <= fields, name
            assert bool(row.condition) == (row.check is not None), name


@pytest.mark.parametrize("event", catalog.EVENTS, ids=lambda event: event.name())
def test_our_own_names_are_ours_in_every_spelling(event: type[Event]) -> None:
    """A name of ours leads to its own event with nothing fixed; in capitals it may be an old name for some of them."""
    for spelling in (event.name().upper(), event.name().replace(".", "_").upper()):
        assert row_of(spelling).event is event
    assert not row_of(event.name()).fixed


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
    """Case, dots, endings and synonyms do not make a second event."""
    assert canonical(one) == canonical(other) == one
    assert row_of(one).event is row_of(other).event


def test_an_unknown_name_is_only_upper_cased() -> None:
    """An unknown name is written in upper case and otherwise unchanged."""
    assert resolve("my.own_thing") is None
    assert canonical("my.own_thing") == "MY.OWN_THING"


def test_a_payload_with_everything_becomes_the_event() -> None:
    """Documented field names map to our fields, and keys without a field are left out."""
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
        ("REGRESSION_CLEARED", {}, alert.Cleared(kind="regression")),
        (
            "health_alert",
            {"host": "n", "message": "3 %", "level": "info"},
            alert.Raised(kind="health", subject="n", level="info", detail="3 %"),
        ),
        (
            "WORK_TIMEOUT",
            {"work_id": "j", "kind": "play", "config": "v_2p", "host": "n", "error": "late", "cause": "silent"},
            work.Failed(job="j", kind="play", variant="v_2p", node="n", error="late", cause="silent"),
        ),
        (
            "WORK_FAILED",
            {"work_id": "j", "kind": "play", "config": "v_2p", "host": "n", "error": "late", "cause": "stopped"},
            work.Failed(job="j", kind="play", variant="v_2p", node="n", error="late", cause="error"),
        ),
        (
            "model.rejected",
            {"variant": "v_2p", "model": "m", "reason": "r", "type": "x"},
            model.Rejected(variant="v_2p", model="m", reason="r"),
        ),
        ("custom.published", {"event": "X", "payload": {"a": 1}}, Published(event="X", payload={"a": 1})),
    ],
)
def test_a_payload_is_decoded(name: str, payload: dict[str, Any], event: Event) -> None:
    """Field names are mapped, the name's own fields win over the payload's, and ours over the documented ones."""
    assert convert(name, payload) == event
    assert canonical(name) in names_of(event)


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
        ("S3_BACKUP_COMPLETED", {"config_key": "v_2p", "blob": "b", "nodes": ["n"], "kind": "games"}),
        ("EXPORT_VALIDATION_FAILED", {"variant": "v_2p", "samples": "s", "count": 1, "batches": [], "node": "n"}),
        ("MY.OWN_THING", {"a": [1, {"b": None}]}),
    ],
)
def test_an_incomplete_payload_is_carried_unchanged(name: str, payload: dict[str, Any]) -> None:
    """Missing fields, wrong types, retired and unknown names are carried whole, and delivered under their name."""
    event = convert(name, payload)

    assert event == Published(event=name, payload=payload)
    assert canonical(name) in names_of(event)
    assert catalog.decode(event.name(), catalog.encode(event)) == event


def test_an_event_is_delivered_under_its_other_spelling() -> None:
    """A subscriber to a synonym receives the events published under the first name."""
    assert canonical("GAME_BATCH_READY") in names_of(convert("selfplay_complete", {"config": "hex8_2p"}))


def test_strict_refuses_only_unknown_names() -> None:
    """A retired name, and a known one with too few fields, are still carried; an unknown name is refused."""
    assert convert("QUORUM_LOST", {}, strict=True) == Published(event="QUORUM_LOST")
    assert convert("TRAINING_COMPLETED", {}, strict=True) == Published(event="TRAINING_COMPLETED")
    with pytest.raises(UnknownName) as refused:
        convert("MY_OWN_THING", {}, strict=True)

    assert (refused.value.kind, refused.value.name) == ("event", "MY_OWN_THING")


@pytest.mark.parametrize("name", ["", "a b", "ev.>", "1a", "x" * 129, "ü"])
def test_a_name_must_be_a_name(name: str) -> None:
    """An invalid event name is refused before anything else."""
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
    """A payload that no reader could decode is refused with an error, and not carried."""
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
    """Changing the dictionary after publishing does not change the event."""
    payload: dict[str, Any] = {"a": [1]}
    event = convert("CUSTOM_EVENT", payload)

    payload["a"].append(2)

    assert event == Published(event="CUSTOM_EVENT", payload={"a": [1]})


def test_a_filter_selects_the_events_of_a_name() -> None:
    """It selects only events of the class with the fields that the name fixes."""
    training_began = work.Started(job="j", kind="train", variant="v_2p", node="n", attempts=1)
    match_began = work.Started(job="j", kind="match", variant="v_2p", node="n", attempts=1)

    assert _matches(row_of("TRAINING_STARTED"), training_began)
    assert not _matches(row_of("TRAINING_STARTED"), match_began)
    assert _matches(row_of("WORK_STARTED"), match_began)
    assert not _matches(row_of("QUORUM_LOST"), match_began)
    assert not _matches(row_of("NODE_PROVISIONED"), node.Joined(node="n", profile="full"))


def test_the_closest_name_comes_first() -> None:
    """An event is called by the most specific name, then by the documented one, and last by our own."""
    finished = evaluation.Finished(
        variant="v", candidate="c", champion="p", blocks=4, score=0.6, elo=70, promoted=False
    )
    began = work.Started(job="j", kind="train", variant="v", node="n", attempts=1)

    assert names_of(began)[0] == "TRAINING_STARTED"
    assert "WORK_STARTED" in names_of(began)
    assert names_of(finished) == ("EVALUATION_COMPLETED", "EVALUATION_FINISHED", "HEAD_TO_HEAD_COMPLETED")
    assert names_of(PLAYED)[0] == "SELFPLAY_COMPLETE"
    assert names_of(PLAYED)[-1] == "SELFPLAY_BATCH_FINISHED"
    assert names_of(alert.Raised(kind="health", level="severe"))[:2] == ("ERROR", "HEALTH_ALERT")
    assert names_of(reader.Forgotten(reader="r")) == ("READER_FORGOTTEN",)


def test_every_typed_name_is_among_the_names_of_its_event() -> None:
    """An event published and decoded under a name is delivered under that name too."""
    from ringrift.events.schema import example

    for name, row in names().items():
        if row.event is not None and row.event is not Published and row.check is None:
            event = convert(name, example(row.event))
            assert type(event) is row.event, name
            assert name in names_of(event), name


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60)
@given(st.sampled_from(DOCUMENTED) | st.text(max_size=12), st.dictionaries(st.text(max_size=12), PLAIN, max_size=4))
def test_every_payload_is_published_or_refused(name: str, payload: dict[str, Any]) -> None:
    """Whatever the payload, the result encodes and decodes to itself, or an input error gives the reason."""
    try:
        event = convert(name, payload)
    except InputError:
        return

    assert catalog.decode(event.name(), catalog.encode(event)) == event


EVENTS = {
    "finished": training.Finished(variant="v", model="m", generation=1, node="n"),
    "games": data.Synced(variant="v", blob="b", kind="games", nodes=()),
    "model": data.Synced(variant="v", blob="b", kind="model", nodes=()),
    "left": node.Left(node="n"),
    "too little": Published(event="TRAINING_COMPLETED", payload={"loss": 1.0}),
    "own": Published(event="MY_OWN_EVENT"),
}


@pytest.mark.parametrize(
    ("names_or_none", "selected"),
    [
        (None, set(EVENTS)),
        ("training.finished", {"finished"}),
        ("TRAINING_COMPLETED", {"finished", "too little"}),
        ("training.completed", {"finished", "too little"}),
        ("Training_Complete", {"finished", "too little"}),
        ("DATA_SYNC_COMPLETED", {"games"}),
        ("P2P_MODEL_SYNCED", {"model"}),
        ("data.synced", {"games", "model"}),
        ("MY_OWN_EVENT", {"own"}),
        ("my_own_event", {"own"}),
        ("custom.published", {"too little", "own"}),
        ("SPLIT_BRAIN_DETECTED", set()),
        (["DATA_SYNC_COMPLETED", "P2P_MODEL_SYNCED"], {"games", "model"}),
        (frozenset({"MY_OWN_EVENT", "node.left"}), {"own", "left"}),
    ],
)
def test_a_filter_selects_by_any_spelling(names_or_none: Any, selected: set[str]) -> None:
    """A name selects its event, and custom events that were published under it with too little in them."""
    event_filter = make_filter(names_or_none)
    envelopes = {key: Envelope(id="i", name=event.name(), body=b"") for key, event in EVENTS.items()}

    assert {key for key, event in EVENTS.items() if event_filter.matches(event, envelopes[key])} == selected
