"""What members of SWIM send each other, and in which order news is spread."""

from enum import IntEnum
from itertools import islice
from typing import Literal, NamedTuple

from ringrift.kernel.value import Value

Address = tuple[str, int]
Kind = Literal["ping", "ack", "ask", "nack", "members"]
UPDATES_MAX = 8  # in one packet, so that it fits into one datagram
SENT_MAX = 20  # how often one update is sent at most


class MemberState(IntEnum):
    """By rank: of two updates of one incarnation the higher one holds."""

    ALIVE = 0
    SUSPECT = 1
    DEAD = 2
    LEFT = 3


class Update(Value, array_like=True):
    """What a member says about another one, or about itself."""

    name: str
    state: MemberState
    incarnation: int
    address: Address
    by: str = ""  # the member that suspects it


class Packet(Value, array_like=True):
    """One datagram.  *number* names the probe that it belongs to."""

    kind: Kind
    sender: str
    incarnation: int
    number: int = 0
    target: str = ""  # ping: whom it is meant for; ask: whom the helper shall ping
    is_joining: bool = False  # ping: the sender asks for all members
    updates: tuple[Update, ...] = ()


class Send(NamedTuple):
    """A packet on its way."""

    address: Address
    packet: Packet


class UpdateQueue:
    """The members about which there is news, by how often it was sent."""

    def __init__(self) -> None:
        self._sent: dict[str, int] = {}
        self._names = [dict[str, None]() for _ in range(SENT_MAX + 1)]

    def add(self, name: str) -> None:
        """Begin anew with what is to be sent about *name*."""
        self.drop(name)
        self._sent[name] = 0
        self._names[0][name] = None

    def drop(self, name: str) -> None:
        if (sent := self._sent.pop(name, None)) is not None:
            del self._names[sent][name]

    def take(self, count: int, most: int) -> list[str]:
        """Up to *count* names that were sent least, and less than *most* times."""
        names: list[str] = []
        for sent in range(most):
            if len(names) == count:
                break
            names += islice(self._names[sent], count - len(names))
        for name in names:
            sent = self._sent[name]
            self.drop(name)
            if sent + 1 < most:
                self._sent[name] = sent + 1
                self._names[sent + 1][name] = None
        return names
