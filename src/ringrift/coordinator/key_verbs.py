"""The verbs by which a key is added, proven, replaced and given up."""

from functools import partial
from pathlib import Path

from ringrift.cluster.keys import KEYS, redeem, replace_key, revoke_key, store_keys
from ringrift.cluster.placement import set_labels
from ringrift.coordinator.roster_verbs import record_left
from ringrift.coordinator.sessions import describe
from ringrift.coordinator.verbs import Parts, Peer, Verb
from ringrift.events.node import KeyChanged, KeyShared
from ringrift.kernel.errors import InputError, printable
from ringrift.kernel.value import changed
from ringrift.kernel.wire_errors import KeyRefused, WireTooOld
from ringrift.wire.connection import (
    Challenge,
    ChallengeAnswer,
    Hello,
    Join,
    JoinAnswer,
    Leave,
    Nothing,
    Rotate,
    Session,
)
from ringrift.wire.keys import NOT_SIGNED, PublicKey, prove
from ringrift.wire.ports import WIRE_VERSION_MIN

_TEXT_CHARACTERS_MAX = 200
_SOURCE = "keys"


async def _challenge(peer: Peer, body: Challenge, parts: Parts) -> ChallengeAnswer:
    _require_version(body.version)
    return ChallengeAnswer(nonce=parts.sessions.challenge())


async def _join(peer: Peer, body: Join, parts: Parts) -> JoinAnswer:
    _require_version(body.version)
    request = peer.request
    assert request is not None
    if not _make_public(body.public).has_signed(request):
        raise KeyRefused(peer.node, NOT_SIGNED)
    add_key = partial(redeem, node=peer.node, public=body.public, profile=body.profile, own=parts.node_id)
    async with parts.store.begin() as tx:
        key, token, is_new = await add_key(tx, body.token, body.proof, now=parts.clock.now())
        if is_new:
            added = KeyChanged(node=key.node, change="added", by=f"token {token.id}")
            await tx.append([parts.envelopes.make(added, source=_SOURCE)])
            if token.labels:
                await set_labels(tx, key.node, token.labels)
    if is_new:
        parts.keys.forget()
        parts.sessions.end_all(key.node)
    ca = _read_text(parts.settings.wire.ca)
    proof = prove(token.digest, "joined", key.node, key.public, parts.node_id, ca, *key.scopes)
    return JoinAnswer(coordinator=parts.node_id, scopes=key.scopes, ca=ca, proof=proof)


def _read_text(path: str) -> str:
    return Path(path).read_text() if path else ""


def _make_public(public: bytes) -> PublicKey:
    try:
        return PublicKey(public)
    except ValueError as error:
        raise InputError(f"no Ed25519 key: {error}") from error


async def _hello(peer: Peer, body: Hello, parts: Parts) -> Session:
    _require_version(body.version)
    assert peer.request is not None
    key = await parts.keys.prove(peer.request, parts.clock.now())
    boot, machine = (printable(text, _TEXT_CHARACTERS_MAX) for text in (body.boot, body.machine))
    is_single = not key.is_program and not key.shared
    session, other = parts.sessions.open(
        key.node, body.nonce, boot, machine=machine, public=key.public, is_single=is_single
    )
    session.is_rotating = key.rotate
    if other:
        await mark_shared(parts, key.node, f"{other}, {describe(boot, machine)}")
    return Session(session=session.id, coordinator=parts.node_id, rotate=key.rotate)


async def mark_shared(parts: Parts, node: str, processes: str) -> None:
    """Note that two *processes* use the key of *node*: it gets no work until it is replaced, and people are told."""
    async with parts.store.begin() as tx:
        key = await KEYS.get(tx, node)
        if key is not None and not key.shared:
            await store_keys(tx, [changed(key, shared=processes)])
            await tx.append([parts.envelopes.make(KeyShared(node=node, processes=processes), source=_SOURCE)])
    parts.keys.forget()


async def _rotate(peer: Peer, body: Rotate, parts: Parts) -> Nothing:
    _make_public(body.public)
    async with parts.store.begin() as tx:
        await replace_key(tx, peer.node, body.public)
        event = KeyChanged(node=peer.node, change="rotated", by=peer.node)
        await tx.append([parts.envelopes.make(event, source=_SOURCE)])
    parts.keys.forget()
    parts.sessions.end_all(peer.node)
    return Nothing()


async def _leave(peer: Peer, body: Leave, parts: Parts) -> Nothing:
    """End the sessions of a node in good order: it is not lost.  With *remove* its key is given up too."""
    reason = printable(body.reason, _TEXT_CHARACTERS_MAX)
    async with parts.store.begin() as tx:
        await record_left(tx, peer.node, parts)
        if body.remove and await revoke_key(tx, peer.node, reason or "it has left"):
            event = KeyChanged(node=peer.node, change="revoked", by=peer.node)
            await tx.append([parts.envelopes.make(event, source=_SOURCE)])
    parts.keys.forget()
    parts.sessions.end(parts.sessions.find(peer.node, peer.session))
    return Nothing()


def _require_version(version: int) -> None:
    if version < WIRE_VERSION_MIN:
        raise WireTooOld(version, WIRE_VERSION_MIN)


VERBS = (
    Verb("challenge", Challenge, ChallengeAnswer, "", _challenge, open=True),
    Verb("join", Join, JoinAnswer, "", _join, open=True, writes=True),
    Verb("hello", Hello, Session, "", _hello, open=True),
    Verb("rotate", Rotate, Nothing, "", _rotate, urgent=True, writes=True),
    Verb("leave", Leave, Nothing, "", _leave, urgent=True, writes=True),
)
