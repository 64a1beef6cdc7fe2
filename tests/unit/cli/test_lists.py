"""Commands that list: alone they list, and what they list has short ids."""

import json

import pytest

from ringrift.cli.commands.events import _fields
from ringrift.cli.main import build_parser
from ringrift.events.base import Envelope
from unit.pipeline.story import blob

JOB = "01M7J19KHK3EK18BMD0001XN"


@pytest.mark.parametrize(("command", "verb"), [("models", "list"), ("jobs", "list"), ("events", "tail")])
def test_a_command_alone_lists(command: str, verb: str) -> None:
    """No verb is needed to look."""
    assert build_parser(command).parse_args([command]).verb == verb


def test_ids_in_events_are_short() -> None:
    """Blobs by their beginning, jobs by their end, also within lists; other text stays as it is."""
    body = {"type": "x.y", "model": blob("m"), "jobs": [JOB, JOB], "reason": "no MODEL 0123456789"}

    text = _fields(Envelope(id="e", name="x.y", body=json.dumps(body).encode()))

    short = f"…{JOB[-8:]}"
    assert text == f"model={blob('m')[:10]}, jobs=['{short}', '{short}'], reason=no MODEL 0123456789"
