"""Records how each event looks on the wire today, so that tests can hold every later version to it.

Recordings are only ever added: a body that was once written into a log must be readable for ever.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from ringrift.events import catalog
from ringrift.events.base import Event
from ringrift.events.schema import example

FILE = Path(__file__).parent.parent / "tests" / "unit" / "events" / "recorded" / "bodies.jsonl"
# No type contains itself, so this is deeper than anything that we declare.
_NESTING_MAX = 8


def shape(event: type[Event]) -> dict[str, Any]:
    """The part of *event* that must not change: its fields with their types on the wire, and the required ones."""
    _, parts = msgspec.json.schema_components([event], ref_template="{name}")
    schema = parts[event.__name__]
    fields = {name: _bare(part, parts) for name, part in schema["properties"].items() if name != "type"}
    return {"fields": fields, "required": [name for name in schema["required"] if name != "type"]}


def _bare(part: Any, parts: dict[str, Any], nested: int = 0) -> Any:
    """*part* with its references resolved, without descriptions and defaults."""
    assert nested < _NESTING_MAX
    match part:
        case {"$ref": str(name)}:
            return _bare(parts[name], parts, nested + 1)
        case {"properties": dict(fields)}:
            bare = {name: _bare(field, parts, nested + 1) for name, field in fields.items()}
            return {"type": "object", "properties": bare, "required": part.get("required", [])}
        case dict():
            prose = ("title", "description", "default")
            return {key: _bare(value, parts, nested + 1) for key, value in part.items() if key not in prose}
        case list():
            return [_bare(item, parts, nested + 1) for item in part]
    return part


def recorded(file: Path) -> list[dict[str, Any]]:
    """Every recording: an event's name, its shape, a body, and the values that the body decoded to."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def unrecorded(file: Path) -> list[type[Event]]:
    """Events that have never been recorded in the shape they have now."""
    existing = [(one["name"], one["shape"]) for one in recorded(file)]
    return [event for event in catalog.EVENTS if (event.name(), shape(event)) not in existing]


def record(event: type[Event], file: Path) -> None:
    """Add a recording of *event* behind all others."""
    body = msgspec.json.encode(example(event))
    values = msgspec.to_builtins(catalog.decode(event.name(), body))
    made = {"name": event.name(), "shape": shape(event), "body": body.decode(), "values": values}
    with file.open("a") as end:
        end.write(json.dumps(made, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    for kind in unrecorded(FILE):
        record(kind, FILE)
        print(f"recorded {kind.name()}")
