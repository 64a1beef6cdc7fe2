"""Spans on their way out: the receiver may be slow, refuse or hang, and the node goes on."""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence

import pytest

from ringrift.bus.recorder import _Outbox
from ringrift.bus.spans import Span
from ringrift.kernel.settings import TraceSettings
from wait import wait_until

QUICK = TraceSettings(flush_seconds=0.02, batch_max=4, queue_max=10)


def made(number: int) -> Span:
    """Return a span with a distinct name."""
    return Span(trace="t", id=str(number), parent="", name="n", start=0.0, seconds=0.0)


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another thread does."""
    asyncio.run(wait_until(condition))


def counts(outbox: _Outbox) -> tuple[int, int, int]:
    """The spans that were sent, dropped and refused."""
    return outbox.sent, outbox.dropped, outbox.failed


class Taker:
    """Takes spans, unless it refuses or is held back."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.takes = True
        self.free = threading.Event()
        self.free.set()
        self.spec = threading.Event()

    def send(self, spans: Sequence[Span]) -> bool:
        """Take one batch."""
        self.spec.set()
        self.free.wait(30)
        self.batches.append([int(span.id) for span in spans])
        return self.takes


def test_spans_are_sent_in_order_and_in_batches() -> None:
    """Everything that was offered arrives once, in order, in batches of bounded size."""
    taker = Taker()
    outbox = _Outbox(taker.send, QUICK)

    for number in range(9):
        outbox.offer(made(number))
    outbox.close(5.0)

    assert [number for batch in taker.batches for number in batch] == list(range(9))
    assert max(len(batch) for batch in taker.batches) <= 4
    assert counts(outbox) == (9, 0, 0)


def test_a_batch_that_is_not_full_leaves_after_a_moment() -> None:
    """One span does not wait for others to come."""
    taker = Taker()
    outbox = _Outbox(taker.send, QUICK)

    outbox.offer(made(1))
    until(lambda: taker.batches == [[1]])

    outbox.close(5.0)
    assert outbox.sent == 1


def test_a_full_queue_drops_the_newest_and_counts_them(caplog: pytest.LogCaptureFixture) -> None:
    """While the receiver is stuck, the queue fills to its limit; the rest is counted and reported, and delays no
    caller."""
    taker = Taker()
    taker.free.clear()
    outbox = _Outbox(taker.send, QUICK)
    outbox.offer(made(0))
    assert taker.spec.wait(5)

    for number in range(1, 26):
        outbox.offer(made(number))
    before, waiting = counts(outbox), len(outbox._queue)
    taker.free.set()
    with caplog.at_level(logging.WARNING):
        outbox.close(5.0)

    assert (before, waiting) == ((0, 15, 0), 10)
    assert [number for batch in taker.batches for number in batch] == list(range(11))
    assert counts(outbox) == (11, 15, 0)
    assert "15 spans were lost" in caplog.text


def test_a_refused_batch_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    """A batch that was refused is lost, and the next one is tried all the same."""
    taker = Taker()
    taker.takes = False
    outbox = _Outbox(taker.send, QUICK)

    with caplog.at_level(logging.WARNING):
        outbox.offer(made(1))
        until(lambda: outbox.failed == 1)
        taker.takes = True
        outbox.offer(made(2))
        outbox.close(5.0)

    assert counts(outbox) == (1, 0, 1)
    assert "1 spans were lost" in caplog.text


def test_closing_has_a_timeout() -> None:
    """A receiver that hangs cannot keep a node from stopping; waiting spans are counted as dropped."""
    taker = Taker()
    taker.free.clear()
    outbox = _Outbox(taker.send, QUICK)
    outbox.offer(made(0))
    assert taker.spec.wait(5)
    outbox.offer(made(1))

    outbox.close(0.05)
    closed = counts(outbox)
    outbox.offer(made(2))
    late = outbox.dropped
    taker.free.set()

    assert closed == (0, 1, 0)
    assert late == 2
