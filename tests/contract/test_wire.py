"""Every engine of the wire carries requests whole, says when the outcome is unknown, and streams notes in order."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from contract.wire_rig import REFUSAL, Echo, WireRig, make_rig, read, settle_at
from ringrift.kernel.errors import NodeAway, TooLarge
from ringrift.kernel.wire_errors import Forbidden
from ringrift.wire.ports import BODY_BYTES_MAX, NOTE_BYTES_MAX, Reply, Request
from wait import wait_until

SECONDS = 10.0
NUMBERS = [b"%d" % number for number in range(200)]
BODIES = [*NUMBERS, b"", b"\n\n", bytes(range(256)), b"x" * NOTE_BYTES_MAX]
Story = Callable[[WireRig], Awaitable[None]]


@pytest.fixture(params=["http", "https", "sim"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> WireRig:
    """Every engine in turn."""
    return make_rig(request.param, tmp_path / "certs")


def test_a_request_arrives_with_every_field(rig: WireRig) -> None:
    """What the service sees is what was sent, and what it answers comes back."""
    sent = Request(
        verb="claim",
        body=bytes(range(256)),
        node="n-1",
        session="s",
        number=7,
        signature=b"\x00\xff",
        trace="00-a-b-01",
    )

    async def story(rig: WireRig) -> None:
        echo = Echo()
        async with rig.serve(echo) as address:
            assert await rig.wire.request(address, sent, SECONDS) == Reply(body=sent.body)
        assert echo.requests == [sent]

    rig.play(story)


def test_an_error_comes_back_as_it_was(rig: WireRig) -> None:
    """Name, text, fields, and how long to wait."""

    async def story(rig: WireRig) -> None:
        async with rig.serve(Echo()) as address:
            reply = await rig.wire.request(address, Request(verb="refused"), SECONDS)
        assert reply == Reply(
            error="Forbidden", text=str(REFUSAL), detail={"verb": "promote", "scope": "promote"}, wait_seconds=2.5
        )

    rig.play(story)


def test_the_largest_body_passes_both_ways_and_a_larger_one_is_not_sent(rig: WireRig) -> None:
    """A body has a limit, and the one who sends it is told."""

    async def story(rig: WireRig) -> None:
        body, echo = bytes(BODY_BYTES_MAX), Echo()
        async with rig.serve(echo) as address:
            assert (await rig.wire.request(address, Request(verb="echo", body=body), 60.0)).body == body
            with pytest.raises(TooLarge):
                await rig.wire.request(address, Request(verb="echo", body=body + b"!"), SECONDS)
        assert len(echo.requests) == 1

    rig.play(story)


def test_requests_at_once_get_their_own_replies(rig: WireRig) -> None:
    """Hundreds of requests of one process at the same time."""

    async def story(rig: WireRig) -> None:
        async with rig.serve(Echo()) as address:
            calls = [rig.wire.request(address, Request(verb="echo", body=body), SECONDS) for body in NUMBERS]
            assert [reply.body for reply in await asyncio.gather(*calls)] == NUMBERS

    rig.play(story)


def test_a_reply_that_does_not_come_is_an_unknown_outcome(rig: WireRig) -> None:
    """The caller is told in time; the service may do what it was asked all the same."""

    async def story(rig: WireRig) -> None:
        echo = Echo()
        async with rig.serve(echo) as address:
            with pytest.raises(NodeAway):
                await rig.wire.request(address, Request(verb="held"), 0.3)
            await wait_until(lambda: len(echo.requests) == 1)
            assert echo.finished == 0
            echo.gate.set()
            await wait_until(lambda: echo.finished == 1)
            assert (await rig.wire.request(address, Request(verb="echo", body=b"next"), SECONDS)).body == b"next"

    rig.play(story)


def test_nobody_is_there(rig: WireRig) -> None:
    """Both verbs say so."""

    async def story(rig: WireRig) -> None:
        async with rig.serve(Echo()) as address:
            pass
        with pytest.raises(NodeAway):
            await rig.wire.request(address, Request(verb="echo"), SECONDS)
        with pytest.raises(NodeAway):
            await read(rig.wire, address, "numbers", [])

    rig.play(story)


def test_notes_arrive_in_order_and_whole_and_the_end_is_told(rig: WireRig) -> None:
    """Whatever bytes they have, up to the limit of a note; then the stream has broken, and may be asked for again."""

    async def story(rig: WireRig) -> None:
        notes, echo = list[bytes](), Echo()
        async with rig.serve(echo) as address:
            with pytest.raises(NodeAway):
                await read(rig.wire, address, "numbers", notes)
        assert (notes, echo.streams) == (BODIES, 0)

    rig.play(story)


@pytest.mark.parametrize(("verb", "before"), [("refused", []), ("breaks", BODIES)])
def test_an_error_of_a_stream_comes_back_as_it_was(rig: WireRig, verb: str, before: list[bytes]) -> None:
    """Before its first note, or behind all that came before it."""

    async def story(rig: WireRig) -> None:
        notes = list[bytes]()
        async with rig.serve(Echo()) as address:
            with pytest.raises(Forbidden) as caught:
                await read(rig.wire, address, verb, notes)
        assert (notes, caught.value.scope, str(caught.value)) == (before, "promote", str(REFUSAL))

    rig.play(story)


def test_a_stream_ends_at_the_service_when_its_reader_goes(rig: WireRig) -> None:
    """Nothing is produced for nobody."""

    async def story(rig: WireRig) -> None:
        echo = Echo()
        async with rig.serve(echo) as address:
            await read(rig.wire, address, "endless", [], most=3, body=b"note")
            await wait_until(lambda: echo.streams == 0, SECONDS)

    rig.play(story)


def test_a_service_waits_for_a_slow_reader(rig: WireRig) -> None:
    """What nobody reads is not produced without end, and requests go on beside it."""

    async def story(rig: WireRig) -> None:
        echo = Echo()
        async with rig.serve(echo) as address:
            stream = rig.wire.subscribe(address, Request(verb="endless", body=b"x" * 100_000))
            assert await anext(stream) == b"x" * 100_000
            assert await settle_at(lambda: echo.produced) < 1_000
            assert (await rig.wire.request(address, Request(verb="echo", body=b"1"), SECONDS)).body == b"1"
            await stream.aclose()

    rig.play(story)


def test_a_server_that_ends_is_noticed_and_one_that_returns_is_used(rig: WireRig) -> None:
    """Requests and streams under way break; connections that rested are not taken for live ones."""

    async def story(rig: WireRig) -> None:
        echo, notes = Echo(), list[bytes]()
        async with rig.serve(echo) as address:
            rig.stay(address)
            await rig.wire.request(address, Request(verb="echo"), SECONDS)
            reader = asyncio.ensure_future(read(rig.wire, address, "held", notes))
            request = asyncio.ensure_future(rig.wire.request(address, Request(verb="held"), 30.0))
            await wait_until(lambda: len(echo.requests) == 3 and len(notes) == len(BODIES), SECONDS)
        for broken in (reader, request):
            with pytest.raises(NodeAway):
                await broken
        async with rig.serve(Echo()) as again:
            assert again == address
            assert (await rig.wire.request(address, Request(verb="echo", body=b"2"), SECONDS)).body == b"2"

    rig.play(story)


def test_a_closed_wire_can_be_used_again(rig: WireRig) -> None:
    """Closing ends what rests."""

    async def story(rig: WireRig) -> None:
        async with rig.serve(Echo()) as address:
            for body in (b"1", b"2"):
                assert (await rig.wire.request(address, Request(verb="echo", body=body), SECONDS)).body == body
                rig.wire.close()

    rig.play(story)
