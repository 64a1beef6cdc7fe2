"""Events survive the wire, old ones still decode, and values that JSON cannot carry are refused."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.events import catalog, daemon, data, evaluation, model, node, pipeline, selfplay, training, work
from ringrift.events.base import Event, Unknown
from ringrift.events.catalog import EVENTS, FOR_PEOPLE
from ringrift.events.schema import example
from ringrift.kernel.errors import InvalidPayload, TooLarge

EVIDENCE = model.Evidence(blocks=40, score=0.58, llr=3.1, lower=-2.9, upper=2.9, rule="above the upper bound")
EXAMPLES: tuple[Event, ...] = (
    pipeline.Opened(variant="hex8_2p", workload="fake"),
    pipeline.Moved(variant="hex8_2p", stage="training", before="exporting"),
    selfplay.BatchFinished(variant="hex8_2p", batch="b", games=100, node="n", model="m", ephemeral=True),
    data.Synced(variant="hex8_2p", blob="b", kind="games", nodes=("n", "o")),
    data.Lost(variant="hex8_2p", blob="b", reason="no copy — “left”"),
    data.Exported(variant="hex8_2p", samples="s", count=3000, batches=("b",), node="n", job="j", refused=("c",)),
    training.Finished(
        variant="hex8_2p", model="m", generation=1, node="n", samples="s", parent="p", metrics={"a": 1.5}
    ),
    evaluation.BlocksPlayed(
        variant="hex8_2p",
        candidate="c",
        champion="p",
        node="n",
        blocks=(evaluation.Block(number=0, scores=(1.0, 0.5)), evaluation.Block(number=1, scores=(0.0, 0.0))),
    ),
    model.Verified(variant="hex8_2p", model="m", node="n"),
    model.Promoted(variant="hex8_2p", model="m", generation=1, previous="p", evidence=EVIDENCE),
    model.Rejected(variant="hex8_2p", model="m", reason="undecided"),
    model.Distributed(variant="hex8_2p", model="m", nodes=()),
    work.Buried(variant="hex8_2p", job="j", kind="play", key="play:hex8_2p:1", error="exit 13", attempts=4, blob="b"),
    work.Rescued(jobs=("j", "k")),
    work.PressureChanged(queue="export", level="soft", before="low", depth=17, drain_seconds=9000.5, limit=36_000),
    node.Joined(node="n", profile="full"),
    node.Left(node="n"),
    daemon.Failed(daemon="fill", node="n", error="ValueError: no", times=5, seconds=300.0),
)

PLAIN = tuple(
    msgspec.convert(example(event), event) for event in EVENTS if event not in {type(listed) for listed in EXAMPLES}
)
"""Generated examples of all other events."""

# What earlier versions wrote into logs that are still read.  These lines are never changed, only added to.
RECORDED: tuple[tuple[str, bytes, Event], ...] = (
    (
        "selfplay.batch_finished",
        b'{"type":"selfplay.batch_finished","variant":"hex8_2p","batch":"b","games":7,"node":"n","model":"m"}',
        selfplay.BatchFinished(variant="hex8_2p", batch="b", games=7, node="n", model="m", ephemeral=False),
    ),
    (
        "training.finished",
        b'{"type":"training.finished","variant":"hex8_3p","model":"m","generation":0,"node":"n","samples":null,'
        b'"parent":null,"metrics":{}}',
        training.Finished(variant="hex8_3p", model="m", generation=0, node="n"),
    ),
    (
        "model.promoted",
        b'{"type":"model.promoted","variant":"hex8_2p","model":"m","generation":3,"previous":"p","evidence":'
        b'{"blocks":16,"score":0.75,"llr":3.5,"lower":-2.94,"upper":2.94,"rule":"r","added_later":[1,{"x":null}]},'
        b'"unknown_field":{"deep":[true]}}',
        model.Promoted(
            variant="hex8_2p",
            model="m",
            generation=3,
            previous="p",
            evidence=model.Evidence(blocks=16, score=0.75, llr=3.5, lower=-2.94, upper=2.94, rule="r"),
        ),
    ),
    (
        "evaluation.blocks_played",
        b'{"blocks":[{"number":8,"scores":[1,0.5]}],"candidate":"c","champion":"p","node":"n","variant":"hex8_2p",'
        b'"type":"evaluation.blocks_played"}',
        evaluation.BlocksPlayed(
            variant="hex8_2p",
            candidate="c",
            champion="p",
            node="n",
            blocks=(evaluation.Block(number=8, scores=(1.0, 0.5)),),
        ),
    ),
    (
        "data.exported",
        b'{"type":"data.exported","variant":"hex8_2p","samples":"s","count":9,"batches":["b"],"node":"n"}',
        data.Exported(variant="hex8_2p", samples="s", count=9, batches=("b",), node="n", job="", refused=()),
    ),
    ("node.left", b'{"type":"node.left","node":"n"}', node.Left(node="n")),
)


def test_there_is_an_example_of_every_event() -> None:
    """The examples of this file are the catalog, in its order."""
    assert {type(event) for event in (*EXAMPLES, *PLAIN)} == set(EVENTS)


@pytest.mark.parametrize("event", [*EXAMPLES, *PLAIN], ids=lambda event: event.name())
def test_an_event_survives_the_wire(event: Event) -> None:
    """An event encoded under its name decodes to the same event."""
    assert catalog.decode(event.name(), catalog.encode(event)) == event


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name())
def test_the_name_of_an_event_is_its_tag(event: type[Event]) -> None:
    """The name in the log is the tag in the body, begins with its file, and is in the catalog."""
    assert event.name() == event.__struct_config__.tag
    assert event.name().split(".")[0] == event.__module__.rsplit(".", maxsplit=1)[-1]
    assert event.name() in catalog.BY_NAME


def test_no_name_is_used_twice() -> None:
    """One name stands for one class."""
    assert len({event.name() for event in EVENTS}) == len(EVENTS)


def test_every_declared_event_is_in_the_catalog() -> None:
    """Every named event class is in the catalog."""
    result = list(Event.__subclasses__())
    for event in result:
        result.extend(event.__subclasses__())

    declared = {event for event in result if event.__module__.startswith("ringrift.") and event.__struct_config__.tag}
    assert declared == set(EVENTS)


def test_events_for_people_are_events() -> None:
    """Events without a handler of ours are in the catalog all the same."""
    assert set(EVENTS) >= FOR_PEOPLE


def test_the_catalog_is_derived_from_the_modules() -> None:
    """Events are listed by module in the order of their declaration, and sorted by the marks on their classes."""
    modules = [event.__module__ for event in EVENTS]
    line_events = [event.__name__ for event in EVENTS if event.__module__ == pipeline.__name__]

    assert modules == sorted(modules)
    assert line_events == ["Opened", "Moved", "Requested", "Overdue"]
    assert {selfplay.BatchFinished, model.Promoted, pipeline.Moved} <= catalog.EVIDENCE
    assert not {pipeline.Requested, node.Joined, work.Rescued} & catalog.EVIDENCE
    assert {model.Rejected, work.Rescued} <= FOR_PEOPLE
    assert work.Progressed.name() in catalog.MEMORY_NAMES
    assert data.Lost.name() not in catalog.MEMORY_NAMES


@pytest.mark.parametrize(("name", "body", "event"), RECORDED, ids=lambda part: part if isinstance(part, str) else "")
def test_recorded_bodies_still_decode(name: str, body: bytes, event: Event) -> None:
    """Bodies without later fields, with unknown fields or in another order still decode to their events."""
    assert catalog.decode(name, body) == event


def test_an_event_with_an_unknown_name_is_kept_unchanged() -> None:
    """An event of a later version is not an error: its bytes are kept, blank for blank."""
    raw = b'{ "type" : "later.thing", "x" : [1, 2.50] }'

    assert "later.thing" not in catalog.BY_NAME
    assert catalog.decode("later.thing", raw) == Unknown(wire_name="later.thing", raw=raw)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b'{"type":"node.left"}', "$"),
        (b'{"type":"node.left","node":7}', "$.node"),
        (b'{"type":"node.joined","node":"n"}', "$.type"),
        (b'["node.left"]', "$"),
        (b"", "$"),
        (b'{"type":"node.left","node":"n"} x', "$"),
        (b'{"type":"node.left","node":"\xff"}', "$"),
    ],
)
def test_a_body_of_the_wrong_shape_names_its_path(body: bytes, path: str) -> None:
    """Missing fields, wrong types, wrong tags and broken bytes are refused with the path of the defect."""
    with pytest.raises(InvalidPayload) as refused:
        catalog.decode("node.left", body)

    assert refused.value.path == path
    assert refused.value.reason


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_not_published(bad: float) -> None:
    """NaN and infinity are refused at any depth, with their path."""
    cases: tuple[tuple[Event, str], ...] = (
        (daemon.Failed(daemon="d", node="n", error="", times=1, seconds=bad), "$.seconds"),
        (training.Finished(variant="v_2p", model="m", generation=1, node="n", metrics={"loss": bad}), "$.metrics.loss"),
        (
            model.Promoted(
                variant="v_2p", model="m", generation=1, evidence=msgspec.structs.replace(EVIDENCE, llr=bad)
            ),
            "$.evidence.llr",
        ),
    )
    for event, path in cases:
        with pytest.raises(InvalidPayload, match="is not a finite number") as refused:
            catalog.encode(event)

        assert refused.value.path == path


def test_fields_without_a_value_are_published() -> None:
    """None is not NaN: an event with empty fields encodes, and so does the text "null"."""
    event = training.Finished(variant="v_2p", model="null", generation=0, node="n")

    assert catalog.decode(event.name(), catalog.encode(event)) == event


def test_a_lone_surrogate_is_not_published() -> None:
    """Text that is no Unicode would poison every reader, so it is refused before it is stored."""
    with pytest.raises(InvalidPayload, match="lone surrogate"):
        catalog.encode(node.Left(node="a\ud800b"))


def test_an_integer_beyond_64_bits_is_not_published() -> None:
    """A value that the edge would refuse is not published by us either: another reader could not decode it."""
    event = selfplay.BatchFinished(variant="v_2p", batch="b", games=2**63, node="n", model="m")

    with pytest.raises(InvalidPayload):
        catalog.encode(event)


@pytest.mark.parametrize("error", [True, 1.5, "7", None, [7]])
def test_an_event_of_the_wrong_types_is_not_published(error: object) -> None:
    """An event that no reader could decode does not get into the log, and the field is named."""
    event = selfplay.BatchFinished(variant="v_2p", batch="b", games=error, node="n", model="m")

    with pytest.raises(InvalidPayload) as refused:
        catalog.encode(event)

    assert refused.value.path == "$.games"


def test_an_event_that_is_too_large_is_not_published() -> None:
    """Large things travel as blobs; the limit is 64 KiB, and nothing is cut off."""
    room = 64 * 1024 - len(catalog.encode(node.Left(node="")))
    full = catalog.encode(node.Left(node="x" * room))

    with pytest.raises(TooLarge) as refused:
        catalog.encode(node.Left(node="x" * (room + 1)))

    assert len(full) == refused.value.limit == 65_536
    assert refused.value.size == 65_537


@settings(max_examples=40)
@given(
    st.text(max_size=20),
    st.dictionaries(st.text(max_size=8), st.floats(), max_size=3),
    st.integers(-(2**63), 2**63 - 1),
    st.none() | st.text(max_size=8),
)
def test_an_event_is_published_unchanged_or_refused(
    text: str, metrics: dict[str, float], generation: int, parent: str | None
) -> None:
    """Whatever its fields, an event is refused or decodes to itself at the other end."""
    event = training.Finished(
        variant=text, model=text, generation=generation, node=text, parent=parent, metrics=metrics
    )
    try:
        body = catalog.encode(event)
    except InvalidPayload:
        return

    assert catalog.decode(event.name(), body) == event
