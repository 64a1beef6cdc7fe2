"""The client side of the wire: signed, numbered requests to whichever coordinator can be reached.

A request whose outcome is unknown is sent again under the same number, so that a coordinator answers it once.  One that
does not know the session, after a restart or on another address, is told hello first; then the request has a new number
there, and the verbs themselves see that nothing is done twice.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import msgspec

from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import TRANSIENT, InvalidPayload, NodeAway, RingriftError
from ringrift.kernel.value import Value, changed
from ringrift.kernel.wire_errors import KeyRefused, WireTooOld
from ringrift.kernel.wire_errors import raise_from_reply as raise_error
from ringrift.wire.address import is_loopback, parse_address, parse_ip
from ringrift.wire.keys import (
    NO_SESSION,
    NOT_SIGNED,
    REPLAYED,
    STALE,
    SigningKey,
    is_proof,
    load_key,
    prove,
    secret_rng,
    split_token,
)
from ringrift.wire.ports import CHUNK_BYTES, WIRE_VERSION, WIRE_VERSION_MIN, Reply, Request, Wire

_HELLO_AGAIN = (NO_SESSION, STALE)  # reasons that pass with a new hello
_TRY_SECONDS_MIN, _TRY_SECONDS_MAX = 1.0, 5.0
_BYTES_PER_SECOND_MIN = 20_000  # of a link that is slow and not broken
_HELLO_SECONDS_MAX = 10.0
_PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX = 0.05, 2.0
_STREAM_PAUSE_SECONDS_MAX = 10.0
_ADDRESSES_MAX = 16
_IN_FLIGHT_MAX = 32  # requests at once: fewer than the replies that a coordinator remembers
_ENCODER = msgspec.msgpack.Encoder()
T = TypeVar("T", bound=Value)


class Challenge(Value):
    """`challenge`: something new to sign, for a hello.  Needs no key."""

    version: int = WIRE_VERSION


class ChallengeAnswer(Value):
    """The challenge, and what the coordinator understands."""

    nonce: bytes
    version: int = WIRE_VERSION


class Hello(Value):
    """`hello`: open a session.  It ends the session of an earlier process of this node."""

    nonce: bytes
    boot: str  #: Of this process.
    machine: str = ""  #: Where it runs, for people.
    version: int = WIRE_VERSION


class Session(Value):
    """A session; requests are numbered from 1 within it."""

    session: str
    coordinator: str
    rotate: bool = False  #: The operator wants a new key of this node.


class Join(Value):
    """`join`: store the public key of a new node.  The token is proven, not sent; signed by the new key."""

    token: str  #: The id of the token.
    proof: bytes
    public: bytes
    profile: str = "full"
    version: int = WIRE_VERSION


class JoinAnswer(Value):
    """What the node may do; *ca* is the authority to trust from now on, proven by the token."""

    coordinator: str
    scopes: tuple[str, ...]
    ca: str = ""
    proof: bytes = b""


class Rotate(Value):
    """`rotate`: replace the key of the node that asks; the old one is refused from then on."""

    public: bytes


class Leave(Value):
    """`leave`: end the session in good order; leases have been given back before."""

    reason: str = ""
    remove: bool = False  #: Also give up the key: the node does not come back under it.


class Nothing(Value):
    """The answer of verbs that have none."""


async def join(
    wire: Wire, address: str, token: str, key: SigningKey, *, profile: str = "full", seconds_max: float = 10.0
) -> JoinAnswer:
    """Store the public half of *key* at the coordinator by *token*.

    Raises KeyRefused for a token that is not valid, or a coordinator that does not know it: then nothing it said is
    used.  Repeated with the same key it succeeds again.
    """
    id, digest = split_token(token)
    proof = prove(digest, "join", key.node, key.public, profile)
    body = _ENCODER.encode(Join(token=id, proof=proof, public=key.public, profile=profile))
    request = key.sign(Request(verb="join", body=body, node=key.node))
    answer = _decode("join", _raise_error(await wire.request(address, request, seconds_max)), JoinAnswer)
    parts: tuple[bytes | str, ...] = (key.node, key.public, answer.coordinator, answer.ca, *answer.scopes)
    if not is_proof(answer.proof, digest, "joined", *parts):
        raise KeyRefused("", "the coordinator does not know it", "check the address, and who answers there")
    return answer


class Connection:
    """A connection of one process, by its key, to the coordinators at *addresses*.

    With *key_path* a key that the operator wants replaced is replaced there; *trace* is the context that travels.
    """

    def __init__(
        self,
        wire: Wire,
        addresses: Iterable[str],
        key: SigningKey,
        rng: Random,
        *,
        boot: str,
        machine: str = "",
        key_path: Path | None = None,
        key_rng: Random | None = None,
        trace: Callable[[], str] = str,
    ) -> None:
        self._wire, self._key, self._rng, self._key_path, self._trace = wire, key, rng, key_path, trace
        self._addresses = list(dict.fromkeys(addresses))
        assert self._addresses
        self._boot, self._machine = boot, machine
        self._next: SigningKey | None = None
        self._key_rng = key_rng or secret_rng(SystemClock(), rng)
        self._current, self._session, self._number = 0, "", 0
        self._hello_lock, self._slots = asyncio.Lock(), asyncio.Semaphore(_IN_FLIGHT_MAX)
        self.ready = False  #: Whether the last request was answered.
        self.coordinator = ""  #: The node that answered the last hello.

    @property
    def node(self) -> str:
        return self._key.node

    @property
    def address(self) -> str:
        """Where the coordinator was reached last, or is tried next."""
        return self._addresses[self._current % len(self._addresses)]

    def sign(self, request: Request) -> Request:
        """*request* with a signature by the key of this node, for a peer that checks it."""
        return self._key.sign(request)

    def learn(self, addresses: Iterable[str]) -> None:
        """Also try these *addresses*: those of one machine alone only if it was given none of another kind."""
        if not all(map(_is_local, self._addresses)):
            addresses = [address for address in addresses if not _is_local(address)]
        self._addresses = list(dict.fromkeys([*self._addresses, *addresses]))[:_ADDRESSES_MAX]

    async def call(self, verb: str, body: Value, answer: type[T], *, seconds_max: float = 10.0) -> T:
        """Ask for *verb*.  Raises NodeAway if no coordinator answers within *seconds_max*, and what they refuse with.

        While a coordinator asks to wait, this waits, as long as *seconds_max* allows.
        """
        async with self._slots:
            reply = await self._deliver(verb, _ENCODER.encode(body), seconds_max)
        return _decode(verb, reply, answer)

    async def notes(self, verb: str, body: Value, note: type[T]) -> AsyncIterator[T]:
        """The stream *verb*, for ever: when it breaks it is asked for again.

        A *body* with a position goes on behind the last note.  Raises KeyRefused, Forbidden and other errors that do
        not pass.
        """
        attempts = 0
        while True:
            session, current = "", self._current
            try:
                session, current = await self._open(_HELLO_SECONDS_MAX), self._current
                request = self._make_request(verb, _ENCODER.encode(body), session)
                stream: Any = self._wire.subscribe(self.address, request)
                async with aclosing(stream):
                    async for data in stream:
                        value = _decode(verb, Reply(body=data), note)
                        attempts, self.ready = 0, True
                        if position := getattr(value, "position", 0):
                            body = changed(body, position=position)
                        yield value
            except KeyRefused as error:
                self._forget(session, error)
            except NodeAway:
                self._fail_over(current)
            except TRANSIENT:
                pass
            attempts += 1
            await asyncio.sleep(self._pause(attempts, _STREAM_PAUSE_SECONDS_MAX))

    async def close(self) -> None:
        """End this side; the coordinator keeps the session until another hello."""
        self._session, self.ready = "", False

    async def _deliver(self, verb: str, body: bytes, seconds_max: float) -> Reply:
        loop = asyncio.get_running_loop()
        end, attempts = loop.time() + seconds_max, 0
        request: Request | None = None
        while True:
            wait, attempts = 0.0, attempts + 1
            session = ""
            try:
                session = await self._open(end - loop.time())
                if request is None or request.session != session:
                    request = self._make_request(verb, body, session)
                reply = await self._send(request, end - loop.time())
                wait = reply.wait_seconds
                return _raise_error(reply)
            except KeyRefused as error:
                self._forget(session, error)
                request = None
                failure: RingriftError = error
            except TRANSIENT as error:
                failure = error
            pause = max(wait * (1 + self._rng.random() / 2), self._pause(attempts, _PAUSE_SECONDS_MAX))
            if loop.time() + pause >= end:  # to be refused for want of a session says nothing about the key
                raise NodeAway(f"coordinator at {self.address}") if isinstance(failure, KeyRefused) else failure
            await asyncio.sleep(pause)

    def _pause(self, attempts: int, seconds_max: float) -> float:
        """Doubling, and spread, so that a fleet that was cut off does not return in step."""
        longest = min(_PAUSE_SECONDS_MIN * 2.0 ** min(attempts, 16), seconds_max)
        return longest * (0.5 + self._rng.random() / 2)

    def _make_request(self, verb: str, body: bytes, session: str) -> Request:
        self._number += 1
        fields = {"node": self.node, "session": session, "number": self._number, "trace": self._trace()}
        return self._key.sign(Request(verb=verb, body=body, **fields))  # type: ignore[arg-type]  # as declared

    async def _send(self, request: Request, seconds: float) -> Reply:
        """One try, with half of the time that is left and no more than it can take: then it is asked again."""
        current, address = self._current, self.address
        if seconds <= 0:
            raise NodeAway(f"coordinator at {address}")
        try:
            size = len(request.body) + (CHUNK_BYTES if request.verb == "blob.read" else 0)
            longest = min(max(_TRY_SECONDS_MIN, seconds / 2), _TRY_SECONDS_MAX + size / _BYTES_PER_SECOND_MIN)
            reply = await self._wire.request(address, request, min(seconds, longest))
        except NodeAway:
            self._fail_over(current)
            raise
        self.ready = True
        return reply

    def _fail_over(self, current: int) -> None:
        self.ready = False
        if current == self._current:  # not if another request has noticed it first
            self._current += 1

    def _forget(self, session: str, error: KeyRefused) -> None:
        """Drop *session*, so that the next request says hello.  Raises *error* again if that cannot help."""
        if error.reason == REPLAYED:  # its reply is forgotten: the verbs see that nothing is done twice
            return
        if session and session != self._session:  # signed by the key of then, which may have been replaced since
            return
        if error.reason not in _HELLO_AGAIN:
            raise error
        if session == self._session:  # another request may have opened a new one
            self._session = ""

    async def _open(self, seconds_max: float) -> str:
        """The session, opened if there is none."""
        if self._session:
            return self._session
        async with self._hello_lock:
            if not self._session:
                await self._say_hello(seconds_max)
            return self._session

    async def _say_hello(self, seconds_max: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds_max
        challenge = await self._ask("challenge", Challenge(), ChallengeAnswer, end - loop.time())
        if challenge.version < WIRE_VERSION_MIN:
            raise WireTooOld(challenge.version, WIRE_VERSION_MIN, is_coordinator=True)
        hello = Hello(nonce=challenge.nonce, boot=self._boot, machine=self._machine)
        try:
            session = await self._ask("hello", hello, Session, end - loop.time())
        except KeyRefused as error:
            if error.reason == NOT_SIGNED and self._take_next_key():
                raise KeyRefused(self.node, STALE) from error  # once more, with the key that was accepted after all
            raise
        self._session, self._number, self.coordinator = session.session, 0, session.coordinator
        if session.rotate:
            await self._rotate(end - loop.time())

    async def _ask(self, verb: str, body: Value, answer: type[T], seconds: float) -> T:
        """Ask for a *verb* that needs no session."""
        request = self._key.sign(Request(verb=verb, body=_ENCODER.encode(body), node=self.node))
        return _decode(verb, _raise_error(await self._send(request, seconds)), answer)

    async def _rotate(self, seconds: float) -> None:
        """Replace the key.  The new one is in the file before it is sent: the answer may be lost."""
        new = self._next = SigningKey.make(self.node, self._key_rng)
        if self._key_path is not None:
            self._key.save(self._key_path, new)
        request = self._make_request("rotate", _ENCODER.encode(Rotate(public=new.public)), self._session)
        self._session = ""  # it was that of the old key
        _raise_error(await self._send(request, seconds))
        self._take_next_key()
        await self._say_hello(seconds)

    def _take_next_key(self) -> bool:
        """Use the key of a rotation, if there is one: its answer may have been lost, also in an earlier process."""
        new, self._next = self._next, None
        if new is None and (self._key_path is None or (new := load_key(self._key_path)[1]) is None):
            return False
        self._key = new
        if self._key_path is not None:
            new.save(self._key_path)
        return True


def _is_local(address: str) -> bool:
    """Whether *address* means another machine on every machine."""
    host = parse_address(address).host
    ip = parse_ip(host)
    return is_loopback(host) or (ip is not None and ip.is_unspecified)


def _raise_error(reply: Reply) -> Reply:
    if reply.error:
        raise_error(reply.error, reply.text, reply.detail)
    return reply


def _decode(verb: str, reply: Reply, answer: type[T]) -> T:
    try:
        return msgspec.msgpack.decode(reply.body, type=answer)
    except msgspec.DecodeError as error:
        raise InvalidPayload(f"answer of {verb}", str(error)) from error
