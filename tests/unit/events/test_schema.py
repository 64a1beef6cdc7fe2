"""The published schema of events is complete, has no dangling references, and its examples are valid."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from ringrift.events import catalog
from ringrift.events.base import Envelope, Event
from ringrift.events.catalog import EVENTS
from ringrift.events.schema import asyncapi, example, json_schema

KEY = re.compile(r"[a-zA-Z0-9._-]+")


def references(part: Any) -> Iterator[str]:
    """Every reference anywhere below *part*."""
    if isinstance(part, dict):
        yield from ([part["$ref"]] if "$ref" in part else [])
        for inner in part.values():
            yield from references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from references(inner)


def follow(document: dict[str, Any], reference: str) -> Any:
    """Return the target of *reference*. Raises KeyError if it does not exist."""
    result: Any = document
    for step in reference.removeprefix("#/").split("/"):
        result = result[step]
    return result


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name())
def test_an_example_is_a_body_of_its_event(event: type[Event]) -> None:
    """Each example passes the edge, decodes to its event and encodes to itself."""
    body = msgspec.json.encode(example(event))

    result = catalog.decode(event.name(), body)

    assert type(result) is event
    assert catalog.encode(result) == body
    assert example(event) == example(event)


@pytest.mark.parametrize("document", [json_schema(), asyncapi()], ids=["json schema", "asyncapi"])
def test_every_reference_resolves(document: dict[str, Any]) -> None:
    """No document refers to a part that it does not have, and each can be written as JSON."""
    result = set(references(document))

    assert result
    assert all(follow(document, reference) for reference in result)
    assert msgspec.json.decode(msgspec.json.encode(document)) == document


def test_the_schema_has_every_event_under_its_name() -> None:
    """One alternative and one definition for each event, distinguished by their tags, and the values inside them."""
    schema = json_schema()

    assert [entry["$ref"] for entry in schema["oneOf"]] == [f"#/$defs/{name}" for name in catalog.BY_NAME]
    assert set(schema["$defs"]) == {*catalog.BY_NAME, "Evidence", "Block", "Pair", "Strength", "Summary"}
    for name in catalog.BY_NAME:
        assert schema["$defs"][name]["properties"]["type"] == {"enum": [name]}
        assert schema["$defs"][name]["description"]


def test_the_schema_lists_required_fields() -> None:
    """Fields without a default are required; the others show theirs."""
    result = json_schema()["$defs"]["model.promoted"]

    assert result["required"] == ["type", "variant", "model", "generation"]
    assert result["properties"]["previous"]["default"] is None
    assert result["properties"]["evidence"]["anyOf"][0] == {"$ref": "#/$defs/Evidence"}


def test_asyncapi_has_a_channel_and_a_message_for_every_event() -> None:
    """Channel, message and payload of an event carry its name; keys are such as AsyncAPI allows."""
    document = asyncapi()

    assert document["asyncapi"] == "3.0.0"
    assert {"title", "version"} <= set(document["info"])
    assert tuple(document["channels"]) == tuple(document["components"]["messages"]) == tuple(catalog.BY_NAME)
    assert all(KEY.fullmatch(key) for part in document["components"].values() for key in part)
    for event in EVENTS:
        channel = document["channels"][event.name()]
        assert channel["address"] == event.name()
        message = follow(document, channel["messages"][event.name()]["$ref"])
        assert message["payload"] == {"$ref": f"#/components/schemas/{event.name()}"}
        assert message["tags"] == [{"name": event.SCOPE}]
        assert message["examples"][0]["payload"] == example(event)


def test_the_envelope_is_the_headers() -> None:
    """Everything around an event is a header, except the body, which is the message itself."""
    headers = asyncapi()["components"]["schemas"]["Envelope"]

    assert headers["type"] == "object"
    assert set(headers["properties"]) == set(Envelope.__struct_fields__) - {"body"}
    assert headers["required"] == ["id", "name"]
