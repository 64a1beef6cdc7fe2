"""Events from outside: an invalid one raises a typed error that names the fault, and nothing changes."""

import json

import pytest

from contract.engines import Engine
from contract.subscribers import envelopes
from ringrift.events import catalog
from ringrift.events.base import Envelope, Unknown
from ringrift.events.node import Left
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import IdConflict, InvalidId, InvalidPayload, RingriftError, TooDeep, TooLarge
from ringrift.kernel.ids import check_name
from ringrift.store.ports import Store
from ringrift_compat.events import edge

NAME = Left.name()
GOOD = b'{"type":"node.left","node":"n","seen":[1,2],"why":"maintenance"}'


async def publish_untrusted(store: Store, name: str, raw: bytes, id: str | None = None) -> Envelope:
    """Publish an event from outside; its bytes are stored unchanged."""
    check_name("event", name)
    edge.check(raw)
    event = catalog.decode(name, raw)
    assert not isinstance(event, Unknown)
    async with store.begin() as tx:
        [envelope] = await tx.append([envelopes("n1", SystemClock()).make(event, body=raw, id=id)])
    return envelope


@pytest.mark.parametrize(
    ("name", "raw", "error", "text"),
    [
        (NAME, b'{"type":"node.left","node":NaN}', InvalidPayload, "NaN"),
        (NAME, b'{"type":"node.left","node":"a","node":"b"}', InvalidPayload, "node: occurs twice"),
        (NAME, b"[" * 100_000, TooLarge, "65536"),
        (NAME, b'{"type":"node.left","node":"n","x":' + b"[" * 30_000, TooDeep, "limit is 32"),
        (NAME, b'{"type":"node.left","node":"\\ud800"}', InvalidPayload, "lone surrogate"),
        (NAME, b'{"type":"node.left","node":"' + b"x" * 65_536 + b'"}', TooLarge, "limit is 65536"),
        (NAME, b'{"type":"node.left"}', InvalidPayload, "node"),
        (NAME, b'{"type":"node.left","node":7}', InvalidPayload, "$.node: Expected `str`, got `int`"),
        (NAME, b"not json", InvalidPayload, "not JSON"),
        ("no name", b"{}", InvalidId, "event 'no name' is not valid"),
        ("", b"{}", InvalidId, "event '' is not valid"),
    ],
)
def test_the_error_names_the_fault_and_nothing_changes(
    engine: Engine, name: str, raw: bytes, error: type[RingriftError], text: str
) -> None:
    """The error names what is invalid, with its value and the limit; the log is unchanged."""

    async def story(store: Store) -> tuple[str, int]:
        with pytest.raises(error) as refused:
            await publish_untrusted(store, name, raw)
        async with store.read() as view:
            return str(refused.value), len(await view.read(0, 10))

    message, events = engine.run(story)

    assert text in message
    assert events == 0


def test_bytes_are_stored_unchanged(engine: Engine) -> None:
    """Fields that this version does not have stay in the log, byte for byte, and the event is read all the same."""

    async def story(store: Store) -> bytes:
        first = await publish_untrusted(store, NAME, GOOD, id="from-outside")
        again = await publish_untrusted(store, NAME, GOOD, id="from-outside")
        with pytest.raises(IdConflict):
            await publish_untrusted(store, NAME, GOOD.replace(b"maintenance", b"a storm"), id="from-outside")
        assert again == first
        async with store.read() as view:
            [envelope] = await view.read(0, 10)
        return envelope.body

    body = engine.run(story)

    assert body == GOOD
    assert catalog.decode(NAME, body) == Left(node="n")
    assert json.loads(body)["why"] == "maintenance"
