"""What a coordinator can be asked for: a verb has a body, an answer and the scope that a key needs for it.

Verbs are functions of (peer, body, parts).  The gate has proven who asks before it calls one, and it alone knows how;
:data:`ringrift.coordinator.serve.VERBS` and ``STREAMS`` list them all.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from ringrift.blobs.ports import Blobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.bus.router import Router
from ringrift.cluster.keys import KeyCache
from ringrift.cluster.roster import Roster
from ringrift.coordinator.desks import Desks
from ringrift.coordinator.sessions import Sessions
from ringrift.kernel.clock import Clock
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import Value
from ringrift.store.ports import Store
from ringrift.sync.transfer import Transfer
from ringrift.wire.ports import Request

WORK = "play train evaluate"  #: The scopes of which a key needs any one for the verbs of a worker.


def allows(scopes: Collection[str], scope: str) -> bool:
    """Whether a key with *scopes* has any of those that *scope* names; an empty one is open to every key."""
    return not scope or any(name in scopes for name in scope.split())


class Peer(Value):
    """Who asks, proven by the gate: a node or a program, by the id of its key."""

    node: str
    scopes: frozenset[str] = frozenset()
    session: str = ""
    request: Request | None = None  #: As it came: only of a verb that is open, which proves it itself.


@dataclass(frozen=True, slots=True)
class Parts:
    """What verbs need of the coordinator's node; filled by name, as for daemons."""

    node_id: str
    settings: Settings
    clock: Clock
    rng: Random
    ids: Ids
    envelopes: EnvelopeFactory
    store: Store
    blobs: Blobs
    router: Router
    roster: Roster
    keys: KeyCache
    sessions: Sessions
    transfer: Transfer | None  #: Fetches files that another node of this store holds.
    desks: Desks  #: What the coordinator does for each remote node: its desk, its envelopes, its uploads.


class AdminParts(Protocol):
    """What the verbs of an operator need; a command has them for its own store too."""

    @property
    def settings(self) -> Settings: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def rng(self) -> Random: ...
    @property
    def store(self) -> Store: ...
    @property
    def envelopes(self) -> EnvelopeFactory: ...


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb.  A key needs any of the scopes that *scope* names; "" is open to every key that is in force."""

    name: str
    body: type[Value]
    answer: type[Value]
    scope: str
    run: Callable[[Peer, Any, Parts], Awaitable[Value]]
    urgent: bool = False  #: Admitted before others under load: heartbeats, renewals, results.
    writes: bool = False  #: Its reply is kept, so that the same number again does nothing twice.
    takes_work: bool = False  #: Refused to a key that two processes use.
    open: bool = False  #: Needs no session: challenge, join, hello.


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream of notes."""

    name: str
    body: type[Value]
    scope: str
    run: Callable[[Peer, Any, Parts], AsyncIterator[Value]]
