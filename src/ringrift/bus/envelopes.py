"""Envelopes: put an event and its metadata together."""

from ringrift.bus import trace
from ringrift.bus.spans import Recorder
from ringrift.events import catalog
from ringrift.events.base import Envelope, Event
from ringrift.kernel.clock import Clock
from ringrift.kernel.ids import Ids, check_id


class EnvelopeFactory:
    """Makes the envelopes of one node."""

    def __init__(self, node: str, clock: Clock, ids: Ids, recorder: Recorder | None = None) -> None:
        self.node, self._clock, self.ids, self._recorder = node, clock, ids, recorder

    def for_node(self, node: str) -> "EnvelopeFactory":
        """The same for *node*, for which this process acts."""
        return EnvelopeFactory(node, self._clock, self.ids, self._recorder)

    def make(
        self,
        event: Event,
        *,
        cause: Envelope | None = None,
        source: str = "",
        id: str | None = None,
        body: bytes | None = None,
        labels: str = "",
    ) -> Envelope:
        """Make the envelope of *event*, in the trace of *cause*, else of the running code, else a new one.

        *body* are its bytes, if they exist already.  Raises LoopDetected, InvalidId.
        """
        body = catalog.encode(event) if body is None else body
        context = trace.current() if cause is None else trace.caused_by(cause)
        id = self.ids.next() if id is None else check_id("event", id)
        if context is None:
            links = (id, "", self.ids.trace(), 0)
        else:
            links = (context.correlation or id, context.cause, context.trace, context.depth)
            trace.require_shallow(event.name(), context.depth)
        now = self._clock.now()
        # By position, as a row of the log: every publish passes here.
        envelope = Envelope(id, event.name(), body, event.VERSION, 0, now, self.node, source, labels, *links)
        if self._recorder is not None:
            self._recorder.note_made(envelope, context)
        return envelope
