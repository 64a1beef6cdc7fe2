"""Every event ever written into a log stays readable: recordings of every event, and the rules that keep them so.

New fields have defaults; types never change; tags never change; a retired event stays in the catalog.
"""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from ringrift.events import catalog, model
from ringrift.events.base import Event, LineEvent
from ringrift.events.catalog import EVENTS
from ringrift.kernel.value import Value

FILE = Path(__file__).parent / "recorded" / "bodies.jsonl"
BY_NAME = {event.name(): event for event in EVENTS}
FIRST = 18
"""Events that were recorded before any of the others existed."""


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("record_events", FILE.parents[4] / "tools" / "record_events.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = _tool()
RECORDED: list[dict[str, Any]] = TOOL.recorded(FILE)


def broken(then: Any, now: Any, path: str = "$") -> list[str]:
    """Return the paths where the shape *now* breaks a promise that the shape *then* made."""
    match then, now:
        case {"type": "object", "properties": old}, {"type": "object", "properties": new}:
            return _fields(old, then["required"], new, now["required"], path)
        case {"anyOf": list(old)}, {"anyOf": list(new)} if len(old) == len(new):
            return [error for one, other in zip(old, new, strict=True) for error in broken(one, other, path)]
        case {"type": "array", "items": old}, {"type": "array", "items": new}:
            return broken(old, new, f"{path}[]")
    return [] if then == now else [f"{path}: was {then}, is {now}"]


def _fields(
    old: dict[str, Any], old_required: list[str], new: dict[str, Any], new_required: list[str], path: str
) -> list[str]:
    error = [f"{path}.{name}: is gone" for name in old if name not in new]
    error += [f"{path}.{name}: must have a default" for name in new_required if name not in old_required]
    return error + [entry for name in old if name in new for entry in broken(old[name], new[name], f"{path}.{name}")]


def broken_event(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The same for the shapes of whole events."""
    return _fields(then["fields"], then["required"], now["fields"], now["required"], "$")


@pytest.mark.parametrize("recording", RECORDED, ids=lambda recording: str(recording["name"]))
def test_a_recorded_event_is_still_the_same(recording: dict[str, Any]) -> None:
    """It is in the catalog, its fields keep their types, and later fields have defaults."""
    assert recording["name"] in BY_NAME, "an event that was once published stays in the catalog"
    assert broken_event(recording["shape"], TOOL.shape(BY_NAME[recording["name"]])) == []


def as_far_as(then: Any, now: Any) -> Any:
    """Return *now* without the fields that *then* did not have, at any depth."""
    match then, now:
        case dict(), dict():
            return {name: as_far_as(then[name], now[name]) for name in then if name in now}
        case list(), list() if len(then) == len(now):
            return [as_far_as(old, new) for old, new in zip(then, now, strict=True)]
    return now


@pytest.mark.parametrize("recording", RECORDED, ids=lambda recording: str(recording["name"]))
def test_a_recorded_body_still_means_the_same(recording: dict[str, Any]) -> None:
    """It decodes to the same event with the same values."""
    result = catalog.decode(recording["name"], recording["body"].encode())

    assert type(result) is BY_NAME[recording["name"]]
    values = msgspec.json.decode(msgspec.json.encode(result))
    assert as_far_as(recording["values"], values) == recording["values"]


@pytest.mark.parametrize("recording", RECORDED, ids=lambda recording: str(recording["name"]))
def test_a_recorded_body_needs_only_required_fields(recording: dict[str, Any]) -> None:
    """A body without its optional fields still decodes."""
    values = recording["values"]
    least = {name: values[name] for name in ("type", *recording["shape"]["required"])}

    assert type(catalog.decode(recording["name"], msgspec.json.encode(least))) is BY_NAME[recording["name"]]


def test_every_event_has_a_current_recording() -> None:
    """A new event or a new field is recorded before it is first published."""
    missing = [event.name() for event in TOOL.unrecorded(FILE)]

    assert not missing, f"not recorded: {', '.join(missing)}: run  .venv/bin/python tools/record_events.py"


def test_the_first_events_are_recorded_as_they_first_were() -> None:
    """The oldest recordings stand at the beginning and were made before the others."""
    first = [recording["name"] for recording in RECORDED[:FIRST]]

    assert len(set(first)) == FIRST
    assert len(RECORDED) >= FIRST + len(set(first))


def test_recordings_are_only_added(tmp_path: Path) -> None:
    """Recording again writes nothing; a lost line is appended anew, and the others stay as they are."""
    lines = FILE.read_text().splitlines(keepends=True)
    file = tmp_path / "bodies.jsonl"
    file.write_text("".join(line for line in lines if '"name": "alert.raised"' not in line))
    before = file.read_text()

    missing = TOOL.unrecorded(file)
    for event in missing:
        TOOL.record(event, file)

    assert [event.name() for event in missing] == ["alert.raised"]
    assert file.read_text().startswith(before)
    assert TOOL.unrecorded(file) == []


class _Inside(Value):
    number: int


class _Then(LineEvent, tag="recorded.then"):
    count: int
    inside: _Inside | None = None
    many: tuple[_Inside, ...] = ()
    note: str = ""


class _InsideLater(Value):
    number: int
    added: float = 0.0


class _InsideBroken(Value):
    number: int
    added: float


class _Later(LineEvent, tag="recorded.later"):
    count: int
    inside: _InsideLater | None = None
    many: tuple[_InsideLater, ...] = ()
    note: str = ""
    added: dict[str, float] = {}


class _Gone(LineEvent, tag="recorded.gone"):
    count: int
    inside: _Inside | None = None
    many: tuple[_Inside, ...] = ()


class _Retyped(LineEvent, tag="recorded.retyped"):
    count: float
    inside: _Inside | None = None
    many: tuple[str, ...] = ()
    note: str | None = None


class _Demanding(LineEvent, tag="recorded.demanding"):
    count: int
    note: str
    added: int
    inside: _InsideBroken | None = None
    many: tuple[_InsideBroken, ...] = ()


def test_a_field_with_a_default_may_be_added() -> None:
    """This holds also for a value inside an event."""
    assert broken_event(TOOL.shape(_Then), TOOL.shape(_Later)) == []


@pytest.mark.parametrize(
    ("later", "places"),
    [
        (_Gone, ["$.note: is gone"]),
        (_Retyped, ["$.count: was", "$.many[]: was", "$.note: was"]),
        (
            _Demanding,
            [
                "$.note: must have a default",
                "$.added: must have a default",
                "$.inside.added: must have a default",
                "$.many[].added: must have a default",
            ],
        ),
    ],
)
def test_a_broken_promise_is_detected(later: type[Event], places: list[str]) -> None:
    """A field that is gone, has another type or has lost or lacks a default is named with its path."""
    error = broken_event(TOOL.shape(_Then), TOOL.shape(later))

    assert len(error) == len(places)
    assert all(one.startswith(place) for one, place in zip(error, places, strict=True))


def test_a_shape_has_types_and_no_prose() -> None:
    """Values inside an event are part of its shape; descriptions and defaults are not."""
    result = TOOL.shape(model.Rejected)

    assert result["required"] == ["variant", "model", "reason"]
    assert result["fields"]["reason"] == {"type": "string"}
    evidence, nothing = result["fields"]["evidence"]["anyOf"]
    assert evidence["properties"]["llr"] == {"type": "number"}
    assert nothing == {"type": "null"}
    assert "default" not in result["fields"]["evidence"]
    assert "description" not in evidence
