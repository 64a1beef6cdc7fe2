"""``ringrift events trace``: everything that came of one cause, as a tree."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ringrift.cli.show import clock, short
from ringrift.events.base import Envelope
from ringrift.kernel.errors import UnknownName, told
from ringrift.kernel.value import Value
from ringrift.store.ports import Store

EVENTS_MAX = 10_000
BLOB = re.compile(r"\b[0-9a-f]{64}\b")
BODY_CHARACTERS_MAX = 100
INDENTED_MAX = 20
"""Levels that are indented: a story that goes round the loop for days would leave the screen."""
NESTED_MAX = 100
"""Levels that are nested for programs, whose parsers have limits too; deeper ones lie beside their ancestor's."""


class Story(Value):
    """The events of one trace in the order of the tree, each with its level; *cut* if there are more than these."""

    trace: str
    asked: str
    """The event that was asked for; "" if it was the trace."""
    steps: tuple[tuple[int, Envelope], ...]
    cut: bool = False


async def tree(store: Store, id: str, limit: int = EVENTS_MAX, *, machine: bool = False) -> str:
    """The causal tree around an event or of a trace, as lines or as JSON.  Raises UnknownName."""
    story = await find(store, id, limit)
    return json.dumps(as_tree(story), indent=2) if machine else as_text(story)


async def find(store: Store, id: str, limit: int = EVENTS_MAX) -> Story:
    """The story that the event *id* belongs to, or that of the trace *id*.  Raises UnknownName if it is neither."""
    async with store.read() as view:
        asked = await view.envelopes([id])
        trace = asked[0].trace if asked else id
        found = await view.story(trace, limit + 1) if trace else asked
    if not found:
        raise UnknownName("event or trace", id)
    steps = tuple(order(found[:limit]))
    return Story(trace=trace, asked=id if asked else "", steps=steps, cut=len(found) > limit)


def order(events: Sequence[Envelope]) -> Iterator[tuple[int, Envelope]]:
    """*events*, each behind the one that caused it and one level deeper; by position among its equals."""
    known = {event.id for event in events}
    caused: dict[str, list[Envelope]] = {}
    for event in events:
        caused.setdefault(event.cause if event.cause in known else "", []).append(event)
    waiting = [(0, event) for event in reversed(caused.get("", []))]
    while waiting:
        level, event = waiting.pop()
        yield level, event
        waiting += [(level + 1, next) for next in reversed(caused.get(event.id, []))]


def as_text(story: Story) -> str:
    """One line for each event: position, time, node, and indented by its level what happened."""
    width = max(len(event.node) for _, event in story.steps)
    lines = [f"trace {story.trace}: {len(story.steps)} events on {_nodes(story)}"]
    for level, event in story.steps:
        mark = ">" if event.id == story.asked else " "
        what = "  " * min(level, INDENTED_MAX) + event.name
        said = told(_short(event), BODY_CHARACTERS_MAX)
        line = f"{mark}{event.position:>8}  {clock(event.time)}  {event.node:<{width}}  {what}  {said}"
        lines.append(line.rstrip())
    if story.cut:
        lines.append(f"… there are more than these {len(story.steps)}")
    return "\n".join(lines)


def as_tree(story: Story) -> dict[str, Any]:
    """The same for programs: each event holds under *then* those that it caused."""
    top: list[dict[str, Any]] = []
    path = [top]
    for level, event in story.steps:
        node = msgspec.structs.asdict(event) | {"body": json.loads(event.body), "level": level, "then": []}
        del path[min(level, NESTED_MAX) + 1 :]
        path[-1].append(node)
        path.append(node["then"])
    return {"trace": story.trace, "asked": story.asked, "events": len(story.steps), "cut": story.cut, "then": top}


def _short(event: Envelope) -> str:
    """What *event* says, with only the beginning of each blob's name."""
    fields = {key: value for key, value in json.loads(event.body).items() if key != "type"}
    said = ", ".join(f"{key}={value}" for key, value in fields.items())
    return BLOB.sub(lambda found: short(found[0]), said)


def _nodes(story: Story) -> str:
    return ", ".join(Counter(event.node for _, event in story.steps))
