"""Tickets: the coordinator signs that one node may read one file from one peer, which needs no store to check that.

A ticket names the key of its reader, who signs every request with it, so that a copy of a ticket is of no use.  It has
no time in it, since no clock of another machine is trusted: it ends with the key that signed it.  The coordinator makes
another one every few minutes, and at once when a right was withdrawn.
"""

from collections.abc import Collection
from random import Random

import msgspec

from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import InvalidPayload
from ringrift.kernel.value import Value
from ringrift.kernel.wire_errors import KeyRefused
from ringrift.wire.keys import NOT_SIGNED, PublicKey, SigningKey
from ringrift.wire.ports import Request

_VERB = "ticket"
_ISSUE_SECONDS = 600.0  # a ticket is valid as long, and at most twice as long
_ENCODER = msgspec.msgpack.Encoder()


class Ticket(Value):
    """*reader*, whose key is *public*, may read *blob* from *holder*."""

    holder: str
    reader: str
    public: bytes
    blob: str


class _Signed(Value):
    """A ticket with the signature of its issuer."""

    ticket: bytes
    signature: bytes


class TicketIssuer:
    """Signs tickets for one process of a coordinator."""

    def __init__(self, clock: Clock, rng: Random) -> None:
        self._clock, self._rng = clock, rng
        self._keys: list[SigningKey] = []  # the newest last, and the one before it
        self._since, self._withdrawn = float("-inf"), 0

    def public_keys(self, withdrawn: int) -> tuple[bytes, ...]:
        """The keys whose tickets are valid; none that is older than the last of the *withdrawn* rights."""
        tick = self._clock.tick()
        if withdrawn != self._withdrawn:
            self._keys.clear()
        if not self._keys or tick - self._since >= _ISSUE_SECONDS:
            self._keys = [*self._keys[-1:], SigningKey.make("coordinator", self._rng)]
            self._since, self._withdrawn = tick, withdrawn
        return tuple(key.public for key in self._keys)

    def issue(self, ticket: Ticket, withdrawn: int) -> bytes:
        """*ticket*, signed."""
        self.public_keys(withdrawn)
        body = _ENCODER.encode(ticket)
        signed = self._keys[-1].sign(Request(verb=_VERB, body=body))
        return _ENCODER.encode(_Signed(ticket=body, signature=signed.signature))


def open_ticket(data: bytes, issuers: Collection[bytes]) -> Ticket:
    """The ticket that one of *issuers* has signed.  Raises KeyRefused or InvalidPayload."""
    try:
        signed = msgspec.msgpack.decode(data, type=_Signed)
        request = Request(verb=_VERB, body=signed.ticket, signature=signed.signature)
        if not any(PublicKey(public).has_signed(request) for public in issuers):
            raise KeyRefused("", NOT_SIGNED, "ask the coordinator for another ticket")
        return msgspec.msgpack.decode(signed.ticket, type=Ticket)
    except msgspec.MsgspecError as error:
        raise InvalidPayload("ticket", str(error)) from error
