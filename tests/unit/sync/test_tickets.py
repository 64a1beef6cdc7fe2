"""Tickets end with the key of their issuer: by time, and at once when a right was withdrawn."""

from random import Random

import pytest

from contract.engines import ManualClock
from ringrift.kernel.errors import InvalidPayload
from ringrift.kernel.wire_errors import KeyRefused
from ringrift.sync.tickets import Ticket, TicketIssuer, open_ticket

TICKET = Ticket(holder="w1", reader="w2", public=b"k" * 32, blob="ab" * 32)


def test_a_ticket_lasts_some_minutes() -> None:
    """At least one period, at most two, by the clock of its issuer alone."""
    clock = ManualClock()
    issuer = TicketIssuer(clock, Random(1))
    signed = issuer.issue(TICKET, 0)
    assert open_ticket(signed, issuer.public_keys(0)) == TICKET
    clock.seconds += 600.0
    assert open_ticket(signed, issuer.public_keys(0)) == TICKET
    clock.seconds += 600.0
    with pytest.raises(KeyRefused):
        open_ticket(signed, issuer.public_keys(0))


def test_a_withdrawn_right_ends_every_ticket() -> None:
    """Whoever still has the right gets another one."""
    issuer = TicketIssuer(ManualClock(), Random(1))
    signed = issuer.issue(TICKET, 0)
    keys = issuer.public_keys(1)
    with pytest.raises(KeyRefused):
        open_ticket(signed, keys)
    assert open_ticket(issuer.issue(TICKET, 1), issuer.public_keys(1)) == TICKET


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x80", b"\x92\xc4\x00\xc4\x00"])
def test_what_is_no_ticket_is_refused(data: bytes) -> None:
    """With a typed error, whatever it is."""
    issuer = TicketIssuer(ManualClock(), Random(1))
    with pytest.raises((KeyRefused, InvalidPayload)):
        open_ticket(data, issuer.public_keys(0))
