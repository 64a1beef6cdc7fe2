"""What a running job in a worker process can ask of its node, and its trace, which every program it starts gets too."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import TypeVar

import msgspec

from ringrift.blobs.folder import Folder
from ringrift.bus import trace
from ringrift.bus.spans import Recorder, Span, recording
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import NodeAway, TransferError
from ringrift.work.launch.process import SPANS_PER_JOB_MAX, FromChild, ToChild
from ringrift.workload.api import Artifact, Kind, Scalar

T = TypeVar("T")
_Send = Callable[[FromChild], None]
_VARIABLE = "TRACEPARENT"
_SPANS_BYTES_MAX = 1024 * 1024  #: They travel in one line with the result, which has a limit of its own.


def finite(values: Mapping[str, T]) -> dict[str, T]:
    """*values* without numbers that are not finite, which JSON cannot hold: a loss of NaN must not end its job."""
    return {name: value for name, value in values.items() if not isinstance(value, float) or isfinite(value)}


class WorkerContext:
    """:class:`ringrift.workload.api.JobContext` over the node's blob folder and the pipe to the node."""

    def __init__(self, folder: Folder, send: _Send, should_stop: Callable[[], bool], message: ToChild) -> None:
        self._folder, self._send, self.should_stop = folder, send, should_stop
        self.traceparent, self._resume = message.traceparent, message.resume
        self._done = 0.0

    def open_input(self, blob: str) -> Path:
        return self._folder.open(blob)

    def find_away(self) -> NodeAway | None:
        """Why the node's blob folder is not there, if it is not: then no failure of the job is its own."""
        return self._folder.find_away()

    def publish(self, kind: Kind, data: bytes, meta: Mapping[str, Scalar]) -> Artifact:
        return Artifact(kind=kind, blob=self._folder.put(data), size=len(data), meta=finite(meta))

    def heartbeat(self, done: float, **metrics: float) -> None:
        self._done = done if isfinite(done) else self._done
        self._send(FromChild(done=self._done, metrics=finite(metrics)))

    def checkpoint(self, data: bytes) -> None:
        self._send(FromChild(done=self._done, checkpoint=self._folder.put(data)))

    def resume(self) -> bytes | None:
        if self._resume is None:
            return None
        try:
            return self._folder.open(self._resume).read_bytes()
        except TransferError:  # the checkpoint stayed on a node that is gone: start over
            return None


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
