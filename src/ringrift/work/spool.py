"""The spool of a worker: results that a coordinator has not acknowledged yet, each in a file, over restarts and kills.

A file gets its name when it is whole and on the disk, and goes when the coordinator has the result.  The files that a
result names are in the blob folder beside it and must stay there as long.
"""

import errno
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from ringrift.kernel.errors import NoRoom
from ringrift.kernel.folders import make_folder
from ringrift.kernel.value import Value
from ringrift.store.ports import Renewal
from ringrift.threads import to_its_end
from ringrift.work.durations import JobRun
from ringrift.workload.api import JobResult

_SUFFIX, _PART, _BAD = ".result", ".part", ".bad"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_RESULTS_MAX = 10_000  # results that may wait
log = logging.getLogger(__name__)


class SpooledResult(Value):
    """A result with all that delivers it.  Without a *lease* it was played on an island."""

    epoch: str  #: Of the process that made it.
    number: int
    kind: str
    variant: str
    body: bytes  #: The job.
    result: JobResult
    lease: Renewal | None = None
    context: str = ""
    run: JobRun | None = None

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(output.size for output in self.result.outputs)

    @property
    def blobs(self) -> tuple[str, ...]:
        return tuple(output.blob for output in self.result.outputs)

    @property
    def key(self) -> str:
        return f"{self.epoch}:{self.number}"


class Spool:
    """The results in *folder*, oldest first.  It accepts what is done; only new work waits while it is full."""

    def __init__(self, folder: Path, bytes_max: int) -> None:
        self._folder, self._bytes_max = folder, bytes_max
        self._results: dict[int, SpooledResult] = {}
        self._number = 0

    @property
    def results(self) -> Sequence[SpooledResult]:
        """What waits, oldest first."""
        return tuple(self._results.values())

    @property
    def is_full(self) -> bool:
        size = sum(row.size for row in self._results.values())
        return size >= self._bytes_max or len(self._results) >= _RESULTS_MAX

    def find(self, lease: Renewal) -> SpooledResult | None:
        """The result that was made under *lease*, if it waits."""
        for row in self._results.values():
            if row.lease is not None and (row.lease.job, row.lease.fence) == (lease.job, lease.fence):
                return row
        return None

    async def open(self) -> None:
        """Read what earlier processes have left."""
        self._results = await to_its_end(None, self._load)
        self._number = max(self._results, default=0)

    def _load(self) -> dict[int, SpooledResult]:
        make_folder(self._folder)
        results = dict[int, SpooledResult]()
        for path in sorted(self._folder.iterdir()):
            if path.suffix == _PART:
                path.unlink()  # its writer ended before it was whole
            elif path.suffix == _SUFFIX:
                try:
                    row = msgspec.msgpack.decode(path.read_bytes(), type=SpooledResult)
                    results[row.number] = row
                except msgspec.DecodeError as error:
                    log.error("%s cannot be read and is set aside: %s", path, error)
                    path.replace(path.with_suffix(_BAD))
        return dict(sorted(results.items()))

    async def put(self, result: SpooledResult) -> SpooledResult:
        """Store *result* under the next number; returns when it is on the disk.  Raises NoRoom."""
        self._number += 1
        result = msgspec.structs.replace(result, number=self._number)
        try:
            await to_its_end(None, self._write, result)
        finally:  # who is cancelled meanwhile has spooled it all the same
            if self._path(result.number).exists():
                self._results[result.number] = result
        return result

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012d}{_SUFFIX}"

    def _write(self, result: SpooledResult) -> None:
        path = self._path(result.number)
        part = path.with_suffix(_PART)
        try:
            with part.open("wb") as file:
                file.write(msgspec.msgpack.encode(result))
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
            self._flush_folder()
        except OSError as error:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            if error.errno in _NO_ROOM:
                raise NoRoom(str(self._folder)) from error
            raise

    def _flush_folder(self) -> None:
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    async def remove(self, result: SpooledResult) -> None:
        """Forget *result*: the coordinator has it, or will never take it."""
        self._results.pop(result.number, None)
        # A file that a power cut brings back is delivered again, and counts once all the same.
        await to_its_end(None, partial(self._path(result.number).unlink, missing_ok=True))
