"""Scribe: puts an event into its envelope."""

from ringrift.bus import trace
from ringrift.bus.spans import Recorder
from ringrift.bus.trace import Context
from ringrift.events import catalog
from ringrift.events.base import Envelope, Event
from ringrift.kernel.clock import Clock
from ringrift.kernel.ids import Ids, check_id


class Scribe:
    """Writes envelopes for one node."""

    def __init__(self, node: str, clock: Clock, ids: Ids, recorder: Recorder | None = None) -> None:
        self.node, self._clock, self._ids, self._recorder = node, clock, ids, recorder

    def wrap(self, event: Event, *, cause: Envelope | None = None, source: str = "", id: str | None = None) -> Envelope:
        """*event* in an envelope that belongs to the story of *cause*, or of what runs now, or begins its own.

        Raises InputError.
        """
        context = None if cause is None else trace.because(cause)
        return self.seal(event, catalog.encode(event), context=context, source=source, id=id)

    def seal(
        self, event: Event, body: bytes, *, context: Context | None = None, source: str = "", id: str | None = None
    ) -> Envelope:
        """*event* in an envelope with the *body* it came with.  Raises LoopDetected, InvalidId."""
        id = self._ids.next() if id is None else check_id("event", id)
        if context is None:
            context = trace.current()
        if context is None:
            depth, correlation, why, story = 0, id, "", self._ids.trace()
        else:
            depth, correlation, why, story = context.depth, context.correlation or id, context.cause, context.trace
            trace.require_shallow(event.name(), depth)
        envelope = Envelope(
            id=id,
            name=event.name(),
            body=body,
            version=event.VERSION,
            time=self._clock.now(),
            node=self.node,
            source=source,
            origin=event.SCOPE,
            correlation=correlation,
            cause=why,
            trace=story,
            depth=depth,
        )
        if self._recorder is not None:
            self._recorder.sealed(envelope, context)
        return envelope
