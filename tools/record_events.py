"""Records how each event looks on the wire today, so that tests can hold every later version to it.

Recordings are only ever added: a body that was once written into a log must be readable for ever.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from ringrift.events import catalog
from ringrift.events.base import Event
from ringrift.events.schema import example, shape

FILE = Path(__file__).parent.parent / "tests" / "unit" / "events" / "recorded" / "bodies.jsonl"


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
