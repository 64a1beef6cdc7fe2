"""The catalog for other tools: JSON Schema, AsyncAPI, and an example of each event."""

import hashlib
from importlib.resources import files
from typing import Any

import msgspec

from ringrift.events.base import Envelope, Event
from ringrift.events.catalog import EVENTS, all_events

# Values that make an example read like the real thing, by field of one event or of all events; every other text is the
# name of its field.
_TEXTS = files("ringrift.events").joinpath("examples.txt").read_text("utf-8").splitlines()
_EXAMPLES = dict(entry.split(": ", 1) for entry in _TEXTS)
_BLOBS = ("batch", "batches", "blob", "candidate", "champion", "model", "parent", "previous", "refused", "samples")
_NUMBERS = {msgspec.inspect.BoolType: True, msgspec.inspect.IntType: 7, msgspec.inspect.FloatType: 0.5}


def json_schema() -> dict[str, Any]:
    """One schema for the body of any event; ``$defs`` has each under its name on the wire."""
    events = [{"$ref": f"#/$defs/{event.name()}"} for event in all_events()]
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, "title": "RingRift events", "oneOf": events, "$defs": _schemas("#/$defs/")}


def asyncapi() -> dict[str, Any]:
    """An AsyncAPI document: one channel and one message for each event, with the envelope as headers."""
    messages, version = "#/components/messages/", str(max(event.VERSION for event in all_events()))
    about = "Events of RingRift.  New fields have defaults; types and names never change."
    names = {event.name(): event for event in all_events()}
    channels = {
        name: {"address": name, "description": _about(event), "messages": {name: {"$ref": messages + name}}}
        for name, event in names.items()
    }
    schemas = _schemas("#/components/schemas/") | {"Envelope": _headers()}
    components = {"messages": {name: _message(event) for name, event in names.items()}, "schemas": schemas}
    info = {"title": "RingRift events", "version": version, "description": about}
    head = {"asyncapi": "3.0.0", "info": info, "defaultContentType": "application/json"}
    return {**head, "channels": channels, "components": components}


def example(event: type[Event]) -> dict[str, Any]:
    """An example body of *event*, made from the types of its fields: the same each time, and it decodes."""
    info = msgspec.inspect.type_info(event)
    assert isinstance(info, msgspec.inspect.StructType)
    return {"type": event.name()} | _struct(info, event.name())


def _schemas(prefix: str) -> dict[str, Any]:
    """The schema of each event under its wire name, and of each value inside an event under its class name."""
    schemas: dict[str, Any] = {}
    for event in all_events():
        _, parts = msgspec.json.schema_components([event], ref_template=prefix + "{name}")
        own = parts.pop(event.__name__)
        schemas = parts | schemas  # ours come first: a part of another package does not replace one of ours
        schemas[event.name()] = own | {"title": event.name()}
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schemas))  # defaults are tuples, JSON has none
    return plain


def _message(event: type[Event]) -> dict[str, Any]:
    name, schemas = event.name(), "#/components/schemas/"
    examples = [{"name": "example", "payload": example(event)}] if event in EVENTS else []
    head = {"name": name, "title": event.__name__, "summary": _about(event), "tags": [{"name": event.SCOPE}]}
    parts = {"headers": {"$ref": f"{schemas}Envelope"}, "payload": {"$ref": f"{schemas}{name}"}}
    return {**head, **parts, "examples": examples}


def _headers() -> dict[str, Any]:
    """The schema of an envelope without its body, which is the message itself."""
    _, parts = msgspec.json.schema_components([Envelope])
    schema: dict[str, Any] = parts["Envelope"]
    fields = {name: part for name, part in schema["properties"].items() if name != "body"}
    return schema | {"properties": fields, "required": [name for name in schema["required"] if name != "body"]}


def _about(event: type[Event]) -> str:
    return (event.__doc__ or "").split("\n")[0]


def _struct(info: msgspec.inspect.StructType, event: str) -> dict[str, Any]:
    return {field.encode_name: _sample(field.type, field.name, event) for field in info.fields}


def _sample(kind: msgspec.inspect.Type, name: str, event: str) -> Any:
    """An example value of *kind* for the field *name* of *event*."""
    match kind:
        case msgspec.inspect.StructType():
            return _struct(kind, event)
        case msgspec.inspect.UnionType(types=types):
            return _sample(next(t for t in types if not isinstance(t, msgspec.inspect.NoneType)), name, event)
        case msgspec.inspect.VarTupleType(item_type=item) | msgspec.inspect.ListType(item_type=item):
            return [_sample(item, name, event)]
        case msgspec.inspect.DictType(value_type=msgspec.inspect.FloatType()):
            return {"loss": 0.5}
        case msgspec.inspect.DictType():
            return {"config_key": "hex8_2p"}
        case msgspec.inspect.BoolType() | msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return _NUMBERS[type(kind)]
    assert isinstance(kind, msgspec.inspect.StrType), f"no example of {kind} for {name}"
    if name in _BLOBS:
        return hashlib.sha256(name.encode()).hexdigest()
    return _EXAMPLES.get(f"{event}.{name}") or _EXAMPLES.get(name, name)
