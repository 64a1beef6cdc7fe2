"""Scratch: a real JobContext over a plain folder, to run a workload without a node."""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ringrift.kernel.errors import Corrupt, NoRoute
from ringrift.kernel.ids import check_blob
from ringrift.workload.api import KINDS, Artifact, Kind, Scalar


@dataclass(frozen=True, slots=True)
class Beat:
    """One heartbeat of the job."""

    done: float
    metrics: Mapping[str, float]


class Killed(BaseException):
    """Raised into a job by ``kill_after``; not an ``Exception``, so that no workload catches it by accident."""


class Scratch:
    """Runs one attempt of a job in *folder*: a file per blob, named by its hash.

    The checkpoint is stored in the file *checkpoint* if one is named, else in memory; ``again`` passes it on.
    Without *durable* it does not wait for the disk: for blobs that need not survive a power cut.
    """

    def __init__(self, folder: Path, *, checkpoint: Path | None = None, durable: bool = True) -> None:
        self.beats: list[Beat] = []
        self.traceparent = ""
        self._folder, self._file, self._durable = folder, checkpoint, durable
        self._data: bytes | None = None
        self._checkpoints = 0
        self._beats_max: int | None = None
        self._checkpoints_max: int | None = None

    def again(self) -> "Scratch":
        """The context of the next attempt: same blobs, same checkpoint, no beats, no stop request."""
        context = Scratch(self._folder, checkpoint=self._file, durable=self._durable)
        context._data = self._data
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
        _write(self._folder / blob, data, self._durable)
        return Artifact(kind=kind, blob=blob, size=len(data), meta=dict(meta))

    def heartbeat(self, done: float, **metrics: float) -> None:
        self.beats.append(Beat(done, metrics))

    def should_stop(self) -> bool:
        return self._beats_max is not None and len(self.beats) >= self._beats_max

    def checkpoint(self, data: bytes) -> None:
        if self._file is None:
            self._data = data
        else:
            _write(self._file, data, self._durable)
        self._checkpoints += 1
        if self._checkpoints == self._checkpoints_max:
            raise Killed(f"after {self._checkpoints} checkpoints")

    def resume(self) -> bytes | None:
        if self._file is None:
            return self._data
        return self._file.read_bytes() if self._file.is_file() else None


def _write(path: Path, data: bytes, durable: bool) -> None:
    """Put *data* at *path*, whole or not at all; if *durable*, it survives a power cut once this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        _sync(path.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
