"""Scribe: puts an event into its envelope."""

from ringrift.events import catalog
from ringrift.events.base import Envelope, Event
from ringrift.kernel.clock import Clock
from ringrift.kernel.ids import Ids, check_id


class Scribe:
    """Writes envelopes for one node."""

    def __init__(self, node: str, clock: Clock, ids: Ids) -> None:
        self._node, self._clock, self._ids = node, clock, ids

    def wrap(self, event: Event, *, cause: Envelope | None = None, source: str = "", id: str | None = None) -> Envelope:
        """*event* in an envelope, with its cause's trace and correlation or with its own.  Raises InputError."""
        return self.seal(event, catalog.encode(event), cause=cause, source=source, id=id)

    def seal(
        self, event: Event, body: bytes, *, cause: Envelope | None = None, source: str = "", id: str | None = None
    ) -> Envelope:
        """*event* in an envelope with the *body* it came with."""
        id = self._ids.next() if id is None else check_id("event", id)
        return Envelope(
            id=id,
            name=event.name(),
            body=body,
            version=event.VERSION,
            time=self._clock.now(),
            node=self._node,
            source=source,
            origin="log",
            correlation=cause.correlation if cause else id,
            cause=cause.id if cause else "",
            trace=cause.trace if cause else id,
        )
