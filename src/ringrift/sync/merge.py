"""Merge SQLite databases from elsewhere into one of ours: by primary key, in a child, all or nothing.

A row whose key is new is inserted, one that is there with the same values changes nothing, and one with other values is
an error unless the target's are to stay.  Sources are opened as :mod:`ringrift.workload.foreign_db` does, checked
before they are read, and hashed before and after.  Everything is one transaction of the target: if the child is killed
at any moment, the target is as it was.  A target that does not exist is made beside, and gets its name at the end.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from ringrift.blobs.file_writer import flush_folder
from ringrift.child import Child
from ringrift.kernel.errors import ChildDied, InputError
from ringrift.sync.merge_child import MergeLine, MergeReport, MergeRequest
from ringrift.threads import to_its_end

_SECONDS_MAX = 3600.0
_LINE_BYTES_MAX = 4 * 1024 * 1024
_SOURCES_MAX = 1000
_BESIDE = ("", "-journal", "-wal", "-shm")


async def merge(
    target: Path,
    sources: Sequence[Path],
    *,
    checksums: Mapping[Path, str] | None = None,
    keep_target: bool = False,
    on_rows: Callable[[int], None] = lambda _: None,
    seconds_max: float = _SECONDS_MAX,
) -> MergeReport:
    """Merge *sources* into *target*, all or none; *on_rows* gets how many rows were read so far.

    *checksums*: by source the SHA-256 that it must have.  *keep_target*: a row that differs stays as the target has it.
    Raises InputError, and then the target is as it was.
    """
    if not 0 < len(sources) <= _SOURCES_MAX:
        raise InputError(f"merge takes 1 … {_SOURCES_MAX} databases, not {len(sources)}")
    for source in sources:
        if not await to_its_end(None, source.is_file):
            raise InputError(f"file not found: {source}")
    is_new = not await to_its_end(None, target.exists)
    place = target.with_name(f".{target.name}.{os.getpid()}.merge") if is_new else target
    pairs = tuple((str(source), (checksums or {}).get(source, "")) for source in sources)
    request = MergeRequest(target=str(place), sources=pairs, keep_target=keep_target)
    try:
        report = await _run(request, on_rows, seconds_max)
        if is_new:
            await to_its_end(None, _name_file, place, target)
    finally:
        if is_new:
            await to_its_end(None, _remove, place)
    return report


async def _run(request: MergeRequest, on_rows: Callable[[int], None], seconds_max: float) -> MergeReport:
    """The report of the child.  Raises InputError."""
    argv = [sys.executable, "-m", "ringrift.sync.merge_child"]
    child = await Child.start("the merge", argv, line_bytes_max=_LINE_BYTES_MAX)
    try:
        child.write_line(msgspec.json.encode(request))
        async with asyncio.timeout(seconds_max):
            while True:
                line = msgspec.json.decode(await child.read_line(), type=MergeLine)
                if line.report is not None:
                    return line.report
                if line.error:
                    raise InputError(f"nothing was merged: {line.error}")
                on_rows(line.rows)
    except TimeoutError as error:
        raise InputError(f"nothing was merged: it is not done after {seconds_max:g} s") from error
    except (ChildDied, ValueError, msgspec.DecodeError) as error:
        raise InputError(f"nothing was merged: {error}") from error
    finally:
        await child.end(0.0)


def _name_file(place: Path, target: Path) -> None:
    """Give the file its name, durably, if no other has it by now.  Raises InputError."""
    try:
        os.link(place, target)
    except FileExistsError as error:
        raise InputError(f"nothing was merged: {target} was made by another program meanwhile") from error
    flush_folder(target.parent)


def _remove(place: Path) -> None:
    for ending in _BESIDE:
        with suppress(FileNotFoundError):
            place.with_name(place.name + ending).unlink()
