"""Bytes from outside: what the old API accepts passes a strict check, and everything else is an input error."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.events import catalog
from ringrift.events.base import Event, Unknown
from ringrift.events.catalog import EVENTS
from ringrift.events.schema import example
from ringrift.kernel.errors import InputError, InvalidId, InvalidPayload, TooDeep, TooLarge
from ringrift.kernel.ids import check_name
from ringrift_compat.events import edge


def decode_untrusted(name: str, raw: bytes) -> Event | Unknown:
    """The event in bytes from outside, checked as every entry point must."""
    check_name("event", name)
    edge.check(raw)
    return catalog.decode(name, raw)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name())
def test_what_we_publish_passes_the_check(event: type[Event]) -> None:
    """Our own events are no stricter than what is accepted from outside."""
    ours = msgspec.convert(example(event), event)

    assert decode_untrusted(event.name(), catalog.encode(ours)) == ours


@pytest.mark.parametrize("name", ["", "ev.*", "ev.>", "a b", "a\r\n", "ü", "1a", "x" * 129, "a\x00"])
def test_a_name_from_outside_must_be_a_name(name: str) -> None:
    """Wildcards, line ends and blanks are refused before the body is parsed."""
    with pytest.raises(InvalidId, match=r"^event "):
        decode_untrusted(name, b"not even JSON")


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (b'{"type":"node.left","node":"a","node":"b"}', InvalidPayload),
        (b'{"type":"node.left","node":NaN}', InvalidPayload),
        (b'{"type":"node.left","node":"\\ud800"}', InvalidPayload),
        (b'{"type":"node.left","node":"a","x":' + b"[" * 33 + b"]" * 33 + b"}", TooDeep),
        (b'{"type":"node.left","node":"' + b"a" * 65_536 + b'"}', TooLarge),
        (b'{"type":"node.left","node":["a"]}', InvalidPayload),
        (b"\xff", InvalidPayload),
    ],
)
def test_bytes_from_outside_pass_the_edge_and_the_type(raw: bytes, error: type[InputError]) -> None:
    """Every defect of bytes from outside raises one of the input errors."""
    with pytest.raises(error):
        decode_untrusted("node.left", raw)


@settings(max_examples=40)
@given(st.binary(max_size=60))
def test_any_bytes_are_an_event_or_an_input_error(raw: bytes) -> None:
    """No bytes bring another error out of admit."""
    for name in ("node.left", "later.thing"):
        try:
            admitted = decode_untrusted(name, raw)
        except InputError:
            continue
        assert admitted == Unknown(wire_name="later.thing", raw=raw)
