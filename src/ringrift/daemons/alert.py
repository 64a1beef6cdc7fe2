"""Keeps the list of what is wrong: opens an alert with each trouble, closes it with its end, and says both."""

from ringrift.bus.scribe import Scribe
from ringrift.cluster import alerts
from ringrift.events.alert import Cleared, Raised
from ringrift.events.base import Envelope, Event
from ringrift.events.letter import Changed
from ringrift.store.ports import Tx
from ringrift.supervision.spec import Daemon

SOURCE = "alert"


async def alert(event: Event, envelope: Envelope, tx: Tx, *, scribe: Scribe) -> None:
    """Open and close what *event* means.  What we said ourselves is written down already."""
    if envelope.source == SOURCE and isinstance(event, Raised | Cleared):
        return
    if isinstance(event, Changed) and event.state != "dead" and await tx.deliveries(("dead",), 1, event.reader):
        return  # one letter is settled, others of this reader are not
    said = await alerts.apply(tx, alerts.judge(event), envelope.time)
    # What somebody else said in just these words is not said again.
    known = (type(event), getattr(event, "kind", None), getattr(event, "subject", None))
    fresh = [news for news in said if (type(news), news.kind, news.subject) != known]
    await tx.append([scribe.wrap(news, cause=envelope, source=SOURCE) for news in fresh])


SPEC = Daemon(
    name="alert", run=alert, on=alerts.EVENTS, role="alert", after=("elect",),
    profiles=frozenset({"coordinator", "full"}), category="health",
)  # fmt: skip
