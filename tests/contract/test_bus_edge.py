"""Events from outside: whatever is wrong gets a typed error that names it, and nothing changes."""

import json

import pytest

from contract.engines import Engine
from contract.test_bus import router
from ringrift.events import catalog
from ringrift.events.node import Left
from ringrift.kernel.errors import IdConflict, InvalidId, InvalidPayload, RingriftError, TooDeep, TooLarge, UnknownName
from ringrift.store.ports import Store

NAME = Left.name()
GOOD = b'{"type":"node.left","node":"n","seen":[1,2],"why":"maintenance"}'


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
        ("node.vanished", b"{}", UnknownName, "unknown event 'node.vanished'"),
        ("no name", b"{}", InvalidId, "event 'no name' is not valid"),
        ("", b"{}", InvalidId, "event '' is not valid"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_changes(
    engine: Engine, name: str, raw: bytes, error: type[RingriftError], text: str
) -> None:
    """The error says what is wrong, with which value and which limit; the log is as it was."""

    async def story(store: Store) -> tuple[str, int]:
        with pytest.raises(error) as refused:
            await router(store).admit(name, raw)
        async with store.read() as view:
            return str(refused.value), len(await view.read(0, 10))

    message, events = engine.run(story)

    assert text in message
    assert events == 0


def test_what_came_is_kept_as_it_came(engine: Engine) -> None:
    """Fields that this version does not know survive in the log, byte for byte, and the event is read all the same."""

    async def story(store: Store) -> bytes:
        told = await router(store).admit(NAME, GOOD, id="from-outside")
        again = await router(store).admit(NAME, GOOD, id="from-outside")
        with pytest.raises(IdConflict):
            await router(store).admit(NAME, GOOD.replace(b"maintenance", b"a storm"), id="from-outside")
        assert again == told
        async with store.read() as view:
            [kept] = await view.read(0, 10)
        return kept.body

    body = engine.run(story)

    assert body == GOOD
    assert catalog.decode(NAME, body) == Left(node="n")
    assert json.loads(body)["why"] == "maintenance"
