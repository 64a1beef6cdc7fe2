"""Keeps the list of open alerts: opens one with each problem, closes it with its end, and publishes both."""

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster import alerts
from ringrift.events.alert import Cleared, Raised
from ringrift.events.base import Envelope, Event
from ringrift.events.delivery import Changed
from ringrift.store.ports import Tx
from ringrift.supervision.spec import Daemon

_SOURCE = "alert"


async def alert(event: Event, envelope: Envelope, tx: Tx, *, envelopes: EnvelopeFactory) -> None:
    """Open and close the alerts of *event*.  Its own events are stored already."""
    if envelope.source == _SOURCE and isinstance(event, Raised | Cleared):
        return
    if isinstance(event, Changed) and event.state != "dead" and await tx.deliveries(("dead",), 1, event.reader):
        return  # one delivery is settled, others of this reader are not
    changes = await alerts.apply(tx, alerts.judge(event), envelope.time)
    # An alert that another source has published is not published again.
    same = (type(event), getattr(event, "kind", None), getattr(event, "subject", None))
    fresh = [change for change in changes if (type(change), change.kind, change.subject) != same]
    await tx.append([envelopes.make(change, cause=envelope, source=_SOURCE) for change in fresh])


SPEC = Daemon(name="alert", run=alert, role="alert", on=alerts.EVENTS, category="health")
