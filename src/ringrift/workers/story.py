"""Story: a job as a part of its trace, for the workload's own code and for every program that it starts."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from ringrift.bus import trace
from ringrift.bus.spans import Recorder, Span, recording
from ringrift.kernel.clock import SystemClock
from ringrift.work.launch.process import SPANS_PER_JOB_MAX, Told

VARIABLE = "TRACEPARENT"
SPANS_BYTES_MAX = 1024 * 1024
"""They travel in one line with the result, which has a limit of its own."""


class Kept:
    """The spans of one job, until there are too many."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.dropped = 0
        self._room = SPANS_BYTES_MAX

    def offer(self, span: Span) -> None:
        """Keep *span*, or count it."""
        size = len(msgspec.json.encode(span))
        if len(self.spans) >= SPANS_PER_JOB_MAX or size > self._room:
            self.dropped += 1
            return
        self._room -= size
        self.spans.append(span)


@contextmanager
def belonging(told: Told) -> Iterator[Kept]:
    """Run the body where the node says that its job stands; the spans that it makes, if anybody wants them."""
    kept = Kept()
    os.environ.pop(VARIABLE, None)  # what the node itself was started in is another story
    if not told.traceparent:
        yield kept
        return
    assert told.run is not None
    context = trace.from_traceparent(told.traceparent)
    seed = f"{told.traceparent} {told.run.job} {told.run.attempt} {os.getpid()}"
    recorder = Recorder(SystemClock(), seed, [kept.offer] if context.sampled else [])
    os.environ[VARIABLE] = told.traceparent
    try:
        with trace.within(context), recording(recorder):
            yield kept
    finally:
        os.environ.pop(VARIABLE, None)
