"""Every verb and stream, over HTTP, refuses whoever has no key, a wrong, expired, revoked or too weak one.

The tests walk the tables of the coordinator, so that a verb is tested by being there.
"""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from contract.coordinator_rig import Coordinator, opened
from contract.engines import run
from ringrift.cluster.keys import SCOPES, StoredKey, store_keys
from ringrift.coordinator.serve import STREAMS, VERBS
from ringrift.coordinator.verbs import Stream, Verb
from ringrift.kernel.errors import InvalidPayload, RingriftError
from ringrift.kernel.settings import WireSettings
from ringrift.kernel.value import Value, changed
from ringrift.kernel.wire_errors import Forbidden, KeyRefused, raise_from_reply
from ringrift.wire.connection import Challenge, ChallengeAnswer, Connection, Hello, Join, Rotate
from ringrift.wire.keys import SigningKey, prove
from ringrift.wire.open import open_wire
from ringrift.wire.ports import Request, Wire

ROUTES: dict[str, Verb | Stream] = {**VERBS, **STREAMS}
CLOSED = sorted(name for name, route in ROUTES.items() if isinstance(route, Stream) or not route.open)
WEAK = sorted(name for name in CLOSED if ROUTES[name].scope)
OPEN = ("challenge", "hello", "join")  # the only ones without a session; each is tested below
_Send = Callable[[Request], Awaitable[None]]


class Rig:
    """A coordinator behind a real port, and keys for it."""

    def __init__(self, coordinator: Coordinator, wire: Wire, address: str) -> None:
        self.coordinator, self.wire, self.address = coordinator, wire, address

    async def key(self, node: str = "w1", scopes: tuple[str, ...] = SCOPES, **changes: Any) -> SigningKey:
        """A key that the coordinator knows."""
        key = SigningKey.make(node, Random(node))
        row = StoredKey(node=node, public=key.public, scopes=scopes, profile="full")
        async with self.coordinator.store.begin() as tx:
            await store_keys(tx, [changed(row, **changes)])
        self.coordinator.parts.keys.forget()
        return key

    async def session(self, key: SigningKey, boot: str = "b1") -> str:
        """The id of a session that *key* has opened."""
        connection = Connection(self.wire, [self.address], key, Random(1), boot=boot)
        return await connection._open(5.0)

    async def send(self, request: Request) -> bytes:
        """Send *request* as its route is: the answer or the first note.  Raises what it is refused with."""
        if request.verb in STREAMS:
            async with aclosing(self.wire.subscribe(self.address, request)) as notes:  # type: ignore[type-var]  # a generator
                return await anext(notes)
        reply = await self.wire.request(self.address, request, 5.0)
        if reply.error:
            raise_from_reply(reply.error, reply.text, reply.detail)
        return reply.body

    async def refusal(self, request: Request) -> RingriftError:
        """The error that *request* is refused with."""
        with pytest.raises(RingriftError) as caught:
            await self.send(request)
        return caught.value


def play(home: Path, story: Callable[[Rig], Awaitable[None]]) -> None:
    """Run *story* with a coordinator behind a port of this machine."""

    async def go() -> None:
        wire = open_wire(WireSettings())
        try:
            async with opened(home) as coordinator, wire.serve("http://127.0.0.1:0", coordinator.gate) as address:
                await story(Rig(coordinator, wire, address))
                wire.close()
        finally:
            wire.close()

    run(go())


def request_for(name: str, key: SigningKey, session: str, number: int = 1) -> Request:
    """A signed request of *name* whose body no verb accepts: only who may ask learns that."""
    return key.sign(Request(verb=name, body=b"\xc1", node=key.node, session=session, number=number))


@pytest.mark.parametrize("name", CLOSED)
def test_without_a_key_in_force_a_route_refuses(name: str, tmp_path: Path) -> None:
    """No signature, another key's, an altered request, an expired and a revoked key: the verb never sees the body."""

    async def story(rig: Rig) -> None:
        key = await rig.key()
        session = await rig.session(key)
        request = request_for(name, key, session)
        stranger = SigningKey.make("w1", Random("stranger"))
        other = await rig.key("w2")
        attempts = {
            "nothing": Request(verb=name, body=b"\xc1"),
            "no signature": changed(request, signature=b""),
            "a wrong key": stranger.sign(request),
            "the key of another node": other.sign(request),
            "another node": changed(request, node="w2"),
            "a node that is not known": changed(request, node="w3"),
            "another body": changed(request, body=b"\x80"),
            "another number": changed(request, number=2),
            "another session": changed(request, session=await rig.session(other)),
            "no session": request_for(name, key, ""),
            "the session of another": request_for(name, key, await rig.session(other)),
        }
        for what, attempt in attempts.items():
            assert isinstance(await rig.refusal(attempt), KeyRefused), what

        assert isinstance(await rig.refusal(request), InvalidPayload), "with its own key the body is looked at"
        now = rig.coordinator.parts.clock.now()
        for reason, change in (("expired", {"expires": now - 1.0}), ("revoked", {"revoked": "lost"})):
            await rig.key(**change)
            refusal = await rig.refusal(request_for(name, key, session, 7))
            assert isinstance(refusal, KeyRefused)
            assert refusal.reason == reason

    play(tmp_path, story)


@pytest.mark.parametrize("name", WEAK)
def test_a_key_without_the_scope_is_refused(name: str, tmp_path: Path) -> None:
    """A key with every other scope is not enough, and one of the scopes alone is."""

    async def story(rig: Rig) -> None:
        needed = ROUTES[name].scope.split()
        weak = await rig.key("weak", tuple(scope for scope in SCOPES if scope not in needed))
        refusal = await rig.refusal(request_for(name, weak, await rig.session(weak)))
        assert isinstance(refusal, Forbidden)
        for scope in needed:
            key = await rig.key(scope, (scope,))
            assert isinstance(await rig.refusal(request_for(name, key, await rig.session(key))), InvalidPayload)

    play(tmp_path, story)


def test_only_three_routes_need_no_session() -> None:
    """Another one would not be covered by the tests above."""
    assert {name for name in ROUTES if name not in CLOSED} == set(OPEN)
    assert set(CLOSED) - set(WEAK) <= {"rotate", "leave", "leader"}, "every key may do these"


def test_a_name_that_is_no_route_says_nothing_to_strangers(tmp_path: Path) -> None:
    """Only who has a session learns which verbs there are."""

    async def story(rig: Rig) -> None:
        key = await rig.key()
        assert isinstance(await rig.refusal(Request(verb="secrets", node="w1")), KeyRefused)
        refusal = await rig.refusal(request_for("secrets", key, await rig.session(key)))
        assert "secrets" in str(refusal)
        assert not isinstance(refusal, KeyRefused)

    play(tmp_path, story)


async def _hello(rig: Rig, key: SigningKey, **changes: Any) -> Request:
    answer = await rig.send(Request(verb="challenge", body=msgspec.msgpack.encode(Challenge())))
    nonce = msgspec.msgpack.decode(answer, type=ChallengeAnswer).nonce
    body = msgspec.msgpack.encode(changed(Hello(nonce=nonce, boot="b1"), **changes))
    return key.sign(Request(verb="hello", body=body, node=key.node))


@pytest.mark.parametrize("state", ["expired", "revoked", "wrong", "unknown", "unsigned", "old challenge"])
def test_hello_opens_no_session_for(state: str, tmp_path: Path) -> None:
    """A session needs a key in force and a challenge that was issued here."""

    async def story(rig: Rig) -> None:
        now = rig.coordinator.parts.clock.now()
        states = {"expired": {"expires": now - 1.0}, "revoked": {"revoked": "lost"}}
        key = await rig.key(**states.get(state, {}))
        signer = {"wrong": SigningKey.make("w1", Random(0)), "unknown": SigningKey.make("w9", Random(0))}.get(
            state, key
        )
        request = await _hello(rig, signer, **({"nonce": bytes(32)} if state == "old challenge" else {}))
        if state == "unsigned":
            request = changed(request, signature=b"")
        assert isinstance(await rig.refusal(request), KeyRefused)

    play(tmp_path, story)


def _join(key: SigningKey, token: str, digest: bytes, profile: str = "full", **changes: Any) -> Request:
    proof = prove(digest, "join", key.node, key.public, profile)
    body: Value = changed(Join(token=token, proof=proof, public=key.public, profile=profile), **changes)
    return key.sign(Request(verb="join", body=msgspec.msgpack.encode(body), node=key.node))


def test_join_and_rotate_take_no_key_that_is_none(tmp_path: Path) -> None:
    """Bytes that are no Ed25519 key are refused, and nothing is stored."""

    async def story(rig: Rig) -> None:
        key = await rig.key()
        assert not isinstance(await rig.refusal(_join(key, "0" * 8, bytes(32), public=b"short")), KeyRefused)
        body = msgspec.msgpack.encode(Rotate(public=b"short"))
        request = Request(verb="rotate", body=body, node="w1", session=await rig.session(key), number=1)
        assert not isinstance(await rig.refusal(key.sign(request)), KeyRefused)
        assert await rig.session(key, "b2"), "the old key is still in force"

    play(tmp_path, story)
