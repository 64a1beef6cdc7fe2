"""Context: what a job in a worker process is offered."""

from collections.abc import Callable, Mapping
from pathlib import Path

from ringrift.blobs.folder import Folder
from ringrift.kernel.errors import TransferError
from ringrift.work.launch.process import Said
from ringrift.workload.api import Artifact, Kind, Scalar


class Context:
    """:class:`ringrift.workload.api.JobContext` over the node's blob folder and the pipe to the node."""

    def __init__(
        self, folder: Folder, say: Callable[[Said], None], stopping: Callable[[], bool], resume: str | None,
        traceparent: str,
    ) -> None:  # fmt: skip
        self._folder, self._say, self._stopping, self._resume = folder, say, stopping, resume
        self.traceparent = traceparent
        self._done = 0.0

    def open_input(self, blob: str) -> Path:
        return self._folder.open(blob)

    def publish(self, kind: Kind, data: bytes, meta: Mapping[str, Scalar]) -> Artifact:
        return Artifact(kind=kind, blob=self._folder.put(data), size=len(data), meta=dict(meta))

    def heartbeat(self, done: float, **metrics: float) -> None:
        self._done = done
        self._say(Said(done=done, metrics=metrics))

    def should_stop(self) -> bool:
        return self._stopping()

    def checkpoint(self, data: bytes) -> None:
        self._say(Said(done=self._done, checkpoint=self._folder.put(data)))

    def resume(self) -> bytes | None:
        if self._resume is None:
            return None
        try:
            return self._folder.open(self._resume).read_bytes()
        except TransferError:  # the checkpoint stayed on a node that is gone: start over
            return None
