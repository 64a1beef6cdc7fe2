"""Gate: nothing reaches a verb before it is proven who asks, that it is new, and that the key may.

In this order: signature by a key in force, session, number, scope, place.  A number that changes something is answered
once and then only repeated, so that a request whose outcome is unknown can be sent again.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from ringrift.bus import trace
from ringrift.cluster.keys import StoredKey
from ringrift.coordinator.admission import Admission
from ringrift.coordinator.key_verbs import mark_shared
from ringrift.coordinator.sessions import REPEAT_SECONDS_MAX, STREAMS_MAX, Answer, Session, describe
from ringrift.coordinator.verbs import Parts, Peer, Stream, Verb, allows
from ringrift.kernel.errors import TRANSIENT, Backpressure, Busy, InvalidPayload, RingriftError, UnknownName
from ringrift.kernel.value import Value
from ringrift.kernel.wire_errors import Forbidden, KeyRefused, WireError
from ringrift.store.ports import RESERVED
from ringrift.wire.keys import DUPLICATE, NO_SESSION, REPLAYED
from ringrift.wire.ports import Reply, Request, error_reply

_RUNNING_MAX = 64
_SHARED_SECONDS = 5.0  # between two claims by a key that two processes use
_WATCH_SECONDS = 1.0  # between two looks whether the keys of open streams are still in force
_ENCODER = msgspec.msgpack.Encoder()
log = logging.getLogger(__name__)


class Gate:
    """The :class:`ringrift.wire.ports.Service` of a coordinator with these *verbs* and *streams*."""

    def __init__(
        self, parts: Parts, verbs: Mapping[str, Verb], streams: Mapping[str, Stream], running_max: int = _RUNNING_MAX
    ) -> None:
        """*running_max* requests are carried out at once."""
        self._parts, self._verbs, self._streams = parts, verbs, streams
        self._admission = Admission(running_max, parts.settings.wire.waiting_max)
        self._decoders: dict[type[Value], msgspec.msgpack.Decoder[Any]] = {}
        self._open_streams: dict[asyncio.Future[None], Session] = {}
        self._watcher: asyncio.Task[None] | None = None

    async def answer(self, request: Request) -> Reply:
        """Answer *request*.  Never raises: an error is a reply."""
        try:
            return await self._answer(request)
        except TRANSIENT as error:
            return error_reply(error, wait_seconds=self._admission.wait_seconds)
        except RingriftError as error:
            return error_reply(error)
        except Exception:  # a mistake of ours: the caller learns that, the log has the rest
            log.exception("verb %r of node %r failed", request.verb[:80], request.node[:80])
            return error_reply(WireError(f"{request.verb[:80]} failed: see the log of the coordinator"))

    async def _answer(self, request: Request) -> Reply:
        verb = self._verbs.get(request.verb)
        if verb is not None and verb.open:
            peer = Peer(node=request.node, request=request)
            if not verb.writes:
                return await self._run(verb, request, peer)
            async with self._admission.admit(urgent=verb.urgent):
                return await self._run(verb, request, peer)
        session, key, peer = await self._identify(request)
        if verb is None:
            raise UnknownName("verb", request.verb, self._verbs)
        _require_scope(verb, peer)
        if verb.takes_work and key.shared:
            why = f"{DUPLICATE} (stop one of them, then run  ringrift nodes rotate {key.node})"
            return error_reply(Busy(f"work for node {key.node}", why), wait_seconds=_SHARED_SECONDS)
        return await self._answer_once(verb, request, session, peer)

    async def _identify(self, request: Request) -> tuple[Session, StoredKey, Peer]:
        """Who has sent *request*.  Raises KeyRefused."""
        key = await self._parts.keys.prove(request, self._parts.clock.now())
        session = self._parts.sessions.find(key.node, request.session)
        if session.public != key.public or (key.rotate and not session.is_rotating):
            self._parts.sessions.end(session)
            raise KeyRefused(key.node, NO_SESSION)
        return session, key, Peer(node=key.node, scopes=frozenset(key.scopes), session=session.id)

    async def _answer_once(self, verb: Verb, request: Request, session: Session, peer: Peer) -> Reply:
        number, tick = request.number, self._parts.clock.tick()
        while (answer := session.answers.get(number)) is not None:
            if (reply := await self._repeat(answer, request, session)) is not None:
                return reply
            if session.answers.get(number) is answer:  # it changes nothing, and its reply was not kept
                return await self._admit(verb, request, peer)
        answer = session.begin(number, request.signature, tick)
        future = answer.future = asyncio.get_running_loop().create_future()
        try:
            reply = await self._admit(verb, request, peer)
        except BaseException:  # nothing was changed: the same number is tried again
            session.answers.pop(number, None)
            future.cancel()
            raise
        answer.future = None
        if verb.writes:
            session.remember(number, reply)
        future.set_result(reply)
        return reply

    async def _repeat(self, answer: Answer, request: Request, session: Session) -> Reply | None:
        """The reply to a number that has come before; None: it is to be made (again).  Raises KeyRefused."""
        if not request.signature.startswith(answer.mark):
            # One process signs one request under a number.  A copy of it, say of its machine, goes on with the next.
            name = describe(session.boot, session.machine)
            await mark_shared(self._parts, session.node, f"{name}, and a copy of it")
            self._parts.sessions.end(session)
            raise KeyRefused(session.node, NO_SESSION)
        if (future := answer.future) is not None:
            await asyncio.wait((future,))
            return None if future.cancelled() else future.result()
        if answer.reply is None and self._parts.clock.tick() - answer.tick > REPEAT_SECONDS_MAX:
            raise KeyRefused(session.node, REPLAYED)
        return answer.reply

    async def _admit(self, verb: Verb, request: Request, peer: Peer) -> Reply:
        async with self._admission.admit(urgent=verb.urgent):
            with trace.VariableScope(RESERVED, verb.urgent), trace.within(_context(request.trace)):
                try:
                    return await self._run(verb, request, peer)
                except TRANSIENT:
                    raise
                except RingriftError as error:
                    return error_reply(error)

    async def _run(self, verb: Verb, request: Request, peer: Peer) -> Reply:
        body = self._decode(verb, request)
        return Reply(body=_ENCODER.encode(await verb.run(peer, body, self._parts)))

    def _decode(self, verb: Verb | Stream, request: Request) -> Any:
        if verb.body not in self._decoders:
            self._decoders[verb.body] = msgspec.msgpack.Decoder(verb.body)
        try:
            return self._decoders[verb.body].decode(request.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidPayload(f"body of {verb.name}", str(error)) from error

    async def notes(self, request: Request) -> AsyncIterator[bytes]:
        """The stream that *request* asks for, until its reader goes or its key or session ends."""
        stream = self._streams.get(request.verb)
        session, _, peer = await self._identify(request)
        if stream is None:
            raise UnknownName("stream", request.verb, self._streams)
        _require_scope(stream, peer)
        if request.number in session.answers:
            raise KeyRefused(session.node, REPLAYED)
        if session.streams >= STREAMS_MAX:
            raise Backpressure(f"streams of node {session.node}", STREAMS_MAX)
        session.begin(request.number, request.signature, self._parts.clock.tick())
        source, ended = stream.run(peer, self._decode(stream, request), self._parts), self._watch(session)
        note: asyncio.Future[Value] | None = None
        try:
            while True:
                note = asyncio.ensure_future(anext(source))
                await asyncio.wait((note, ended), return_when=asyncio.FIRST_COMPLETED)
                if ended.done():
                    raise KeyRefused(session.node, NO_SESSION)
                try:
                    value = note.result()
                except StopAsyncIteration:
                    return
                yield _ENCODER.encode(value)
        finally:
            self._unwatch(ended, session)
            if note is not None and not note.done():
                note.cancel()
                await asyncio.wait((note,))
            await source.aclose()  # type: ignore[attr-defined]  # every stream is a generator

    def _watch(self, session: Session) -> "asyncio.Future[None]":
        """A future that is done when *session* has ended or its key is no longer in force."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open_streams[ended] = session
        session.streams += 1
        if self._watcher is None:
            self._watcher = asyncio.get_running_loop().create_task(self._watch_streams())
        return ended

    def _unwatch(self, ended: "asyncio.Future[None]", session: Session) -> None:
        session.streams -= 1
        del self._open_streams[ended]
        ended.cancel()
        if not self._open_streams and self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    async def _watch_streams(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            for ended, session in list(self._open_streams.items()):
                with suppress(*TRANSIENT):
                    if not ended.done() and not await self._is_in_force(session):
                        ended.set_result(None)

    async def _is_in_force(self, session: Session) -> bool:
        key = None if session.is_ended else await self._parts.keys.get(session.node)
        if key is None or key.row.public != session.public:
            return False
        return key.row.is_in_force(self._parts.clock.now())


def _require_scope(verb: Verb | Stream, peer: Peer) -> None:
    if not allows(peer.scopes, verb.scope):
        raise Forbidden(verb.name, verb.scope)


def _context(traceparent: str) -> trace.Context | None:
    """The trace of the caller; none for a header that is not one."""
    with suppress(InvalidPayload):
        return trace.from_traceparent(traceparent) if traceparent else None
    return None
