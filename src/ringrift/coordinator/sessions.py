"""Sessions of nodes and programs with this coordinator process, and what was answered in each.

A node has one session; a hello of a later process of it ends that of the earlier one.  If the earlier process then
signs a challenge that was issued later still, two processes run with one key.
"""

import hmac
import struct
from asyncio import Future
from collections import OrderedDict
from dataclasses import dataclass, field
from random import Random

from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Backpressure
from ringrift.kernel.wire_errors import KeyRefused
from ringrift.wire.keys import NO_SESSION, REPLAYED, STALE
from ringrift.wire.ports import Reply

_CHALLENGE_SECONDS_MAX = 60.0
_CHALLENGE = struct.Struct(">dQ")
_MAC_BYTES = 16
_SECRET_BITS = 256
_SESSIONS_MAX = 20_000  # in all; the one that was quiet for longest ends
_SESSIONS_OF_KEY_MAX = 16  # of a program, whose key several processes may use
_ENDED_MAX = 8  # earlier processes of a node that are remembered
_ANSWERS_MAX = 40  # numbers that a session remembers: more than one client has under way at once
_REMEMBERED_BYTES_MAX = 1024 * 1024  # of the replies of a session; those that were made first are made again
REPEAT_SECONDS_MAX = 60.0  # after which a question that changes nothing is not answered again under its number
_MARK_BYTES = 16
STREAMS_MAX = 8  # of one session


@dataclass(slots=True)
class Answer:
    """One number of a session: under way while *future* is there, then perhaps with its reply."""

    mark: bytes  # of the signature: the same request has the same
    tick: float
    future: "Future[Reply] | None" = None
    reply: Reply | None = None


@dataclass(eq=False, slots=True)
class Session:
    """One process of a node or program."""

    id: str
    node: str
    boot: str
    machine: str
    public: bytes  # the key that opened it
    answers: dict[int, Answer] = field(default_factory=dict)
    floor: int = 0  # numbers up to here are forgotten
    streams: int = 0
    is_rotating: bool = False  # its process was told to replace its key
    is_ended: bool = False

    def begin(self, number: int, signature: bytes, tick: float) -> Answer:
        """Note that *number* arrived for the first time.  Raises KeyRefused for one that may have been answered."""
        if number <= self.floor:
            raise KeyRefused(self.node, REPLAYED)
        if len(self.answers) >= _ANSWERS_MAX:
            ended = [old for old, answer in self.answers.items() if answer.future is None]
            if not ended:
                raise Backpressure(f"requests of node {self.node}", _ANSWERS_MAX)
            self.floor = max(self.floor, min(ended))
            del self.answers[min(ended)]
        answer = self.answers[number] = Answer(signature[:_MARK_BYTES], tick)
        return answer

    def remember(self, number: int, reply: Reply) -> None:
        """Keep the *reply* of a number that changes something, so that it is repeated and nothing is done twice."""
        if number not in self.answers:
            return
        self.answers[number].reply, size = reply, 0
        for answer in reversed(self.answers.values()):
            size += len(answer.reply.body) if answer.reply else 0
            if size > _REMEMBERED_BYTES_MAX:
                answer.reply = None


class Sessions:
    """Every session of this process."""

    def __init__(self, clock: Clock, rng: Random) -> None:
        self._clock, self._rng = clock, rng
        self._secret = rng.getrandbits(_SECRET_BITS).to_bytes(_SECRET_BITS // 8, "big")
        self._challenges = 0
        self._used = OrderedDict[bytes, tuple[float, Session]]()
        self._by_id = OrderedDict[str, Session]()
        self._by_node: dict[str, list[Session]] = {}
        self._ended: dict[str, OrderedDict[str, tuple[int, str]]] = {}  # node → boot → last challenge, machine

    def challenge(self) -> bytes:
        """Something new to sign.  It is not stored: it can be recognized."""
        self._challenges += 1
        head = _CHALLENGE.pack(self._clock.tick(), self._challenges)
        return head + self._mac(head)

    def _mac(self, head: bytes) -> bytes:
        return hmac.digest(self._secret, head, "sha256")[:_MAC_BYTES]

    def _number_of(self, node: str, challenge: bytes) -> int:
        """The place of *challenge* among all.  Raises KeyRefused unless it was issued here and lately."""
        head, mac = challenge[: _CHALLENGE.size], challenge[_CHALLENGE.size :]
        if len(head) != _CHALLENGE.size or not hmac.compare_digest(mac, self._mac(head)):
            raise KeyRefused(node, STALE)
        tick, number = _CHALLENGE.unpack(head)
        if self._clock.tick() - tick > _CHALLENGE_SECONDS_MAX:
            raise KeyRefused(node, STALE)
        return int(number)

    def open(
        self, node: str, challenge: bytes, boot: str, *, machine: str, public: bytes, is_single: bool
    ) -> tuple[Session, str]:
        """A session for a process that has signed *challenge*, and the other process if two run with this key.

        *is_single*: it ends the others of *node*.  The same hello again opens no other session.  Raises KeyRefused.
        """
        number, tick = self._number_of(node, challenge), self._clock.tick()
        while self._used and next(iter(self._used.values()))[0] < tick - _CHALLENGE_SECONDS_MAX:
            self._used.popitem(last=False)
        if challenge in self._used:
            session = self._used[challenge][1]
            if session.is_ended or (session.node, session.boot) != (node, boot):
                raise KeyRefused(node, STALE)
            return session, ""
        earlier = self._ended.get(node, OrderedDict()).get(boot)
        other = self._others(node, boot) if earlier is not None and number > earlier[0] and is_single else ""
        mine = self._by_node.get(node, [])
        ending = [old for old in mine if is_single or old.boot == boot] if not other else []
        for old in ending + mine[: max(0, len(mine) - len(ending) - _SESSIONS_OF_KEY_MAX + 1)]:
            self.end(old)
            if old.boot != boot and is_single:
                self._note_ended(old)
        session = Session(f"{self._rng.getrandbits(128):032x}", node, boot, machine, public)
        self._by_id[session.id] = session
        self._by_node.setdefault(node, []).append(session)
        self._used[challenge] = (tick, session)
        if len(self._by_id) > _SESSIONS_MAX:
            self.end(next(iter(self._by_id.values())))
        return session, other

    def _others(self, node: str, boot: str) -> str:
        others = [old for old in self._by_node.get(node, ()) if old.boot != boot]
        return describe(others[-1].boot, others[-1].machine) if others else ""

    def _note_ended(self, session: Session) -> None:
        ended = self._ended.setdefault(session.node, OrderedDict())
        ended[session.boot] = (self._challenges, session.machine)
        if len(ended) > _ENDED_MAX:
            ended.popitem(last=False)

    def find(self, node: str, id: str) -> Session:
        """The session *id* of *node*.  Raises KeyRefused if it has ended or never was."""
        session = self._by_id.get(id)
        if session is None or session.node != node:
            raise KeyRefused(node, NO_SESSION)
        self._by_id.move_to_end(id)
        return session

    def end(self, session: Session) -> None:
        session.is_ended = True
        self._by_id.pop(session.id, None)
        rest = [other for other in self._by_node.get(session.node, ()) if other is not session]
        if rest:
            self._by_node[session.node] = rest
        else:
            self._by_node.pop(session.node, None)

    def end_all(self, node: str) -> None:
        """End every session of *node* and forget its earlier processes: it has another key, or none."""
        for session in self._by_node.get(node, [])[:]:
            self.end(session)
        self._ended.pop(node, None)


def describe(boot: str, machine: str) -> str:
    """A process, for people."""
    return f"process {boot[-8:]} on {machine or 'an unnamed machine'}"
