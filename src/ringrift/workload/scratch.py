"""Scratch: a real JobContext over a plain folder, to run a workload without a node."""

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ringrift.kernel.errors import Corrupt, NoRoute
from ringrift.kernel.folders import make_folder
from ringrift.kernel.ids import check_blob
from ringrift.workload.api import KINDS, Artifact, Kind, Scalar


class Beat(NamedTuple):
    """One heartbeat of the job."""

    done: float
    metrics: Mapping[str, float]


class Killed(BaseException):
    """Raised into a job by ``kill_after``; not an ``Exception``, so that no workload catches it by accident."""


class Scratch:
    """Runs one attempt of a job in *folder*, a file per blob, named by its hash; ``again`` passes its checkpoint on."""

    def __init__(self, folder: Path) -> None:
        self.beats, self.traceparent, self._folder = list[Beat](), "", folder
        self._checkpoint: bytes | None = None
        self._checkpoints, self._checkpoints_max, self._beats_max = 0, 0, math.inf

    def again(self) -> "Scratch":
        """The context of the next attempt: same blobs, same checkpoint, no beats, no stop request."""
        context = Scratch(self._folder)
        context._checkpoint = self._checkpoint
        return context

    def stop_after(self, beats: int) -> "Scratch":
        """Ask the job to stop after *beats* heartbeats; 0 asks at once."""
        self._beats_max = beats
        return self

    def kill_after(self, checkpoints: int) -> "Scratch":
        """Raise Killed into the job right after its checkpoint number *checkpoints*."""
        self._checkpoints_max = checkpoints
        return self

    def open_input(self, blob: str) -> Path:
        """The file of *blob*.  Raises NoRoute if there is none, Corrupt if it does not hash to its name."""
        path = self._folder / check_blob(blob)
        if not path.is_file():
            raise NoRoute(blob, (str(self._folder),))
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != blob:
                raise Corrupt(blob, str(path))
        return path

    def publish(self, kind: Kind, data: bytes, meta: Mapping[str, Scalar]) -> Artifact:
        """Store *data* under its hash.  Raises ValueError for an unknown kind."""
        if kind not in KINDS:
            raise ValueError(f"unknown kind of artifact {kind!r}; known: {', '.join(KINDS)}")
        blob = hashlib.sha256(data).hexdigest()
        make_folder(self._folder)
        path = self._folder / blob
        path.touch(0o600)
        path.write_bytes(data)
        return Artifact(kind=kind, blob=blob, size=len(data), meta=dict(meta))

    def heartbeat(self, done: float, **metrics: float) -> None:
        self.beats.append(Beat(done, metrics))

    def should_stop(self) -> bool:
        return len(self.beats) >= self._beats_max

    def checkpoint(self, data: bytes) -> None:
        self._checkpoint = data
        self._checkpoints += 1
        if self._checkpoints == self._checkpoints_max:
            raise Killed(f"after {self._checkpoints} checkpoints")

    def resume(self) -> bytes | None:
        return self._checkpoint
