"""What a running job in a worker process can ask of its node."""

from collections.abc import Callable, Mapping
from pathlib import Path

from ringrift.blobs.folder import Folder
from ringrift.kernel.errors import TransferError
from ringrift.work.launch.process import FromChild, ToChild
from ringrift.workload.api import Artifact, Kind, Scalar

_Send = Callable[[FromChild], None]


class WorkerContext:
    """:class:`ringrift.workload.api.JobContext` over the node's blob folder and the pipe to the node."""

    def __init__(self, folder: Folder, send: _Send, should_stop: Callable[[], bool], message: ToChild) -> None:
        self._folder, self._send, self.should_stop = folder, send, should_stop
        self.traceparent, self._resume = message.traceparent, message.resume
        self._done = 0.0

    def open_input(self, blob: str) -> Path:
        return self._folder.open(blob)

    def publish(self, kind: Kind, data: bytes, meta: Mapping[str, Scalar]) -> Artifact:
        return Artifact(kind=kind, blob=self._folder.put(data), size=len(data), meta=dict(meta))

    def heartbeat(self, done: float, **metrics: float) -> None:
        self._done = done
        self._send(FromChild(done=done, metrics=metrics))

    def checkpoint(self, data: bytes) -> None:
        self._send(FromChild(done=self._done, checkpoint=self._folder.put(data)))

    def resume(self) -> bytes | None:
        if self._resume is None:
            return None
        try:
            return self._folder.open(self._resume).read_bytes()
        except TransferError:  # the checkpoint stayed on a node that is gone: start over
            return None
