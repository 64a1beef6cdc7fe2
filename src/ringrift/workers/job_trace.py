"""The trace of a job, for the workload's own code and for every program that it starts."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from ringrift.bus import trace
from ringrift.bus.spans import Recorder, Span, recording
from ringrift.kernel.clock import SystemClock
from ringrift.work.launch.process import SPANS_PER_JOB_MAX, ToChild

_VARIABLE = "TRACEPARENT"
_SPANS_BYTES_MAX = 1024 * 1024  #: They travel in one line with the result, which has a limit of its own.


class _SpanBuffer:
    """The spans of one job, up to a number and a size; the rest is counted."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.dropped = 0
        self._bytes_left = _SPANS_BYTES_MAX

    def add(self, span: Span) -> None:
        size = len(msgspec.json.encode(span))
        if len(self.spans) >= SPANS_PER_JOB_MAX or size > self._bytes_left:
            self.dropped += 1
            return
        self._bytes_left -= size
        self.spans.append(span)


@contextmanager
def traced_job(message: ToChild) -> Iterator[_SpanBuffer]:
    """Run the body at the job's place in its trace; yields the spans that the body makes, if the node records them."""
    buffer = _SpanBuffer()
    os.environ.pop(_VARIABLE, None)  # the trace in which the node itself was started is another one
    if not message.traceparent:
        yield buffer
        return
    assert message.run is not None
    context = trace.from_traceparent(message.traceparent)
    seed = f"{message.traceparent} {message.run.job} {message.run.attempt} {os.getpid()}"
    recorder = Recorder(SystemClock(), seed, [buffer.add] if context.sampled else [])
    os.environ[_VARIABLE] = message.traceparent
    try:
        with trace.within(context), recording(recorder):
            yield buffer
    finally:
        os.environ.pop(_VARIABLE, None)
