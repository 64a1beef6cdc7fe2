"""Output of jobs: what workers print, in files by job and attempt that keep its beginning and its end.

    <folder>/jobs/<last 2 of name>/<name>.<attempt>.log             its beginning, up to half of the limit
    <folder>/jobs/<last 2 of name>/<name>.<attempt>.<offset>.log    the two newest parts, named by their first byte

A name is that of a job; what a worker prints between two jobs is under the name of its node, see :func:`worker_name`.
Names begin with a time, so their ends spread the files.  Parts that were removed are gaps between offsets.
"""

import asyncio
import logging
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ringrift.kernel.folders import make_folder
from ringrift.kernel.settings import LogSettings
from ringrift.threads import Threads

_WAITING_BYTES_MAX = 4 * 1024 * 1024  # output that may wait for the disk; further output is dropped
_FLUSH_SECONDS_MAX = 1.0
_PRUNES_PER_LIMIT = 16  # how often old files are looked for while as much is written as may stay
_DROPPED = b"\n--- %d bytes were dropped: the disk was too slow ---\n"
_BLOCK_BYTES = 4096  # what the smallest file takes on a disk
_MARK_BYTES_MAX = 120
_MARK = re.compile(rb"\x1ejob ([^\x1e]{1,100})\x1e\n")
_PARTIAL_MARK = re.compile(rb"\x1e(j(o(b( [^\x1e]{0,100}\x1e?)?)?)?)?\Z")
_FILE = re.compile(r"(?P<name>[^.]+)\.(?P<attempt>\d+)(?:\.(?P<start>\d+))?\.log")
log = logging.getLogger(__name__)


def worker_name(node: str) -> str:
    """The name under which the output of the workers of *node* between two jobs is written, as attempt 0."""
    return f"worker-{node}"


def job_mark(job: str, attempt: int) -> bytes:
    """What a worker prints before and after a job, so that its output can be told from that of others."""
    return b"\x1ejob %s.%d\x1e\n" % (job.encode(), attempt)


class _Part(NamedTuple):
    start: int
    path: Path


class OutputFiles:
    """Writes the output of the workers of one process in a thread: a caller never waits for the disk.

    What comes while the thread writes is written together: a job that prints much is not slower for it.
    """

    def __init__(self, settings: LogSettings) -> None:
        self._folder, self._job_max = Path(settings.folder) / "jobs", settings.job_bytes_max
        self._all_max, self._written = settings.jobs_bytes_max, settings.jobs_bytes_max  # the first write prunes
        self._threads, self._waiting = Threads(1, "output"), 0
        self._pending, self._dropped = dict[str, bytearray](), Counter[str]()
        self._writing: asyncio.Future[None] | None = None

    def write(self, name: str, data: bytes) -> None:
        """Append *data* to the output *name*, ``<job>.<attempt>``, some time soon; it is dropped if too much waits."""
        if self._waiting + len(data) > _WAITING_BYTES_MAX:
            self._dropped[name] += len(data)
            return
        dropped = self._dropped.pop(name, 0)
        self._pending.setdefault(name, bytearray()).extend((_DROPPED % dropped if dropped else b"") + data)
        self._waiting += len(data)
        self._begin_writing()

    async def flush(self) -> None:
        """Wait until what was written so far is in its files, or for a second."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_SECONDS_MAX):
                while self._writing is not None:
                    await asyncio.wait((self._writing,))
                    await asyncio.sleep(0)  # for what is done after it

    def _begin_writing(self, _: object = None) -> None:
        """Begin to write what waits, unless a write is under way; its end begins the next."""
        self._writing = None if self._writing is None or self._writing.done() else self._writing
        if self._writing is None and self._pending:
            pending, self._pending, self._waiting = self._pending, {}, 0
            self._writing = self._threads.run(self._write_all, pending)
            self._writing.add_done_callback(self._begin_writing)

    def _write_all(self, pending: Mapping[str, bytes]) -> None:
        """Runs in the thread, as all below.  A disk that is full or away loses output, and no job."""
        for name, data in pending.items():
            try:
                self._append(name, data)
            except OSError as error:
                log.warning("output of %s was lost: %s", name, error)
        self._written += sum(map(len, pending.values()))
        if self._written * _PRUNES_PER_LIMIT >= self._all_max:
            self._written = 0
            self._prune()

    def _append(self, name: str, data: bytes) -> None:
        """Append *data*; a part that is full is followed by another, and of those before the first and the last stay.

        A job that was given back by one worker and then claimed by another is the same attempt: its output goes on.
        """
        job, _, attempt = name.rpartition(".")
        folder = self._folder / job[-2:]
        make_folder(folder)
        parts = _parts(self._folder, job).get(int(attempt)) or [_Part(0, folder / f"{name}.log")]
        while data:
            start, path = parts[-1]
            size = path.stat().st_size if path.exists() else 0
            if (room := self._job_max // (4 if start else 2) - size) <= 0:
                for part in parts[1:-1]:
                    part.path.unlink(missing_ok=True)
                parts = [*parts[:1], *parts[1:][-1:], _Part(start + size, folder / f"{name}.{start + size}.log")]
                continue
            with path.open("ab") as file:
                file.write(data[:room])
            data = data[room:]

    def _prune(self) -> None:
        """Remove the files that were written longest ago, until all together are within their limit."""
        files = []
        for path in self._folder.glob("*/*.log"):
            with suppress(FileNotFoundError):
                status = path.stat()
                files.append((status.st_mtime_ns, max(status.st_size, _BLOCK_BYTES), path))
        excess = sum(size for _, size, _ in files) - self._all_max
        for _, size, path in sorted(files):
            if excess <= 0:
                break
            path.unlink(missing_ok=True)
            excess -= size


class OutputSplitter:
    """Sorts the output of one worker by the jobs that printed it, which the worker's marks tell apart.

    Without *files* it only takes out the marks.
    """

    def __init__(self, files: OutputFiles | None, node: str) -> None:
        self._files, self._between = files, f"{worker_name(node)}.0"
        self._name, self._rest, self._output = self._between, b"", b""
        self.expected = ""  # the output that the next mark may begin: what a job prints cannot name another

    def feed(self, data: bytes) -> bytes:
        """Write *data*, but for the beginning of a mark that may still come; what is written, without marks."""
        data, self._output, begin = self._rest + data, b"", 0
        for mark in _MARK.finditer(data):
            name = mark[1].decode(errors="replace")
            if name not in (self._name, self.expected):
                continue
            self._write(data[begin : mark.start()])
            self._name, begin = self._between if name == self._name else name, mark.end()
        partial = _PARTIAL_MARK.search(data, max(begin, len(data) - _MARK_BYTES_MAX))
        end = partial.start() if partial else len(data)
        self._write(data[begin:end])
        self._rest = data[end:]
        return self._output

    def end(self) -> None:
        """The worker has ended: what looked like the beginning of a mark is output too."""
        self._write(self._rest)
        self._rest = b""

    async def flush(self) -> None:
        """Wait a moment until what the worker has printed is written."""
        self.end()
        if self._files is not None:
            await self._files.flush()

    def _write(self, data: bytes) -> None:
        self._output += data
        if self._files is not None and data:
            self._files.write(self._name, data)


# -- reading -----------------------------------------------------------------------------------------------------------


class _OutputPiece(NamedTuple):
    """A piece of an output: bytes that are missing before it, where it ends, and its bytes."""

    missing: int
    end: int
    data: bytes


def attempts(folder: str | Path, name: str) -> list[int]:
    """The attempts at the job *name* whose output is here, in order."""
    return sorted(_parts(Path(folder) / "jobs", name))


def read_output(folder: str | Path, name: str, attempt: int, position: int = 0) -> Iterator[_OutputPiece]:
    """The output of *attempt* at the job *name* from byte *position* on."""
    for part in _parts(Path(folder) / "jobs", name).get(attempt, []):
        with suppress(FileNotFoundError), part.path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if part.start + size > position:
                file.seek(max(position - part.start, 0))
                data, missing = file.read(size), max(part.start - position, 0)
                position = max(position, part.start) + len(data)
                yield _OutputPiece(missing, position, data)


def _parts(folder: Path, name: str) -> dict[int, list[_Part]]:
    """The parts of every attempt at the job *name*, by attempt and in order."""
    parts: dict[int, list[_Part]] = {}
    with suppress(OSError):  # nothing was printed yet, or nothing of this name ever
        for path in (folder / name[-2:]).iterdir():
            if (match := _FILE.fullmatch(path.name)) and match["name"] == name:
                parts.setdefault(int(match["attempt"]), []).append(_Part(int(match["start"] or 0), path))
    return {attempt: sorted(rows) for attempt, rows in parts.items()}
