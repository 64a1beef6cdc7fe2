"""Outbox: spans on their way out of the node, which never waits for whoever takes them.

    offer ─▶ queue (bounded) ─▶ a thread of its own ─▶ send(batch)

When the queue is full the newest are dropped, counted and told: what a node does is worth more than its being watched.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

from ringrift.bus.spans import Span
from ringrift.kernel.settings import TraceSettings
from ringrift.kernel.value import Value

Send = Callable[[Sequence[Span]], bool]
log = logging.getLogger(__name__)


class Counts(Value):
    """What became of the spans so far."""

    sent: int
    dropped: int
    """There was no room for them."""
    failed: int
    """Nobody took them."""
    waiting: int


class Outbox:
    """Has *send* take spans in batches; it says whether it did, and may take its time."""

    def __init__(self, send: Send, settings: TraceSettings) -> None:
        self._send, self._settings = send, settings
        self._changed = threading.Condition()
        self._queue: deque[Span] = deque()
        self._closing = False
        self._sent = self._dropped = self._failed = self._flying = self._told = 0
        # It ends with the process at the latest, even while somebody keeps it waiting.
        self._thread = threading.Thread(target=self._work, name="ringrift-spans", daemon=True)
        self._thread.start()

    def offer(self, span: Span) -> None:
        """Put *span* into the queue, if there is room: never wait."""
        with self._changed:
            if self._closing or len(self._queue) >= self._settings.queue_max:
                self._dropped += 1
                return
            self._queue.append(span)
            if len(self._queue) == self._settings.batch_max:
                self._changed.notify_all()

    def counts(self) -> Counts:
        """How many were sent, dropped and refused, and how many wait or are on their way."""
        with self._changed:
            waiting = len(self._queue) + self._flying
            return Counts(sent=self._sent, dropped=self._dropped, failed=self._failed, waiting=waiting)

    def close(self, seconds: float) -> Counts:
        """Send what waits, within *seconds*; the last counts, in which what was left counts as dropped.  Blocks."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(seconds)
        with self._changed:
            self._dropped += len(self._queue)
            self._queue.clear()
        self._tell()
        return self.counts()

    def _work(self) -> None:
        while (batch := self._take()) is not None:
            if batch:
                taken = self._send(batch)
                with self._changed:
                    self._flying = 0
                    self._sent, self._failed = self._sent + len(batch) * taken, self._failed + len(batch) * (not taken)
            self._tell()

    def _take(self) -> list[Span] | None:
        """The next batch, as soon as it is full or the oldest of it has waited long enough; None at the end."""
        limit = self._settings.batch_max
        with self._changed:
            self._changed.wait_for(lambda: self._closing or len(self._queue) >= limit, self._settings.flush_seconds)
            batch = [self._queue.popleft() for _ in range(min(limit, len(self._queue)))]
            self._flying = len(batch)
            return None if self._closing and not batch else batch

    def _tell(self) -> None:
        """Say how many were lost since this was last said."""
        with self._changed:
            lost, self._told = self._dropped + self._failed - self._told, self._dropped + self._failed
        if lost:
            log.warning("%d spans were lost: the collector takes them too slowly, or not at all", lost)
