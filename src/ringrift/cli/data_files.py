"""Game files and datasets that come in and go out: ``ringrift data import``, ``export`` and ``validate``."""

import hashlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

from ringrift.blobs.folder import FolderBlobs
from ringrift.blobs.ports import CHUNK, Blobs
from ringrift.child import run_program
from ringrift.cli.command import EXIT_FAILED, Context, Output
from ringrift.cli.formats import short
from ringrift.cli.own_worker import do_jobs, local_node
from ringrift.cli.progress import Progress
from ringrift.events.data import Imported
from ringrift.jobs import STAGE, Ingest
from ringrift.kernel.errors import Corrupt, InputError, UnknownName, WorkError
from ringrift.kernel.value import changed
from ringrift.pipeline import foreign_games
from ringrift.pipeline.line import LINES, Line, require_line
from ringrift.pipeline.models import model_file
from ringrift.store.ports import Origin, Reads
from ringrift.sync import ledger
from ringrift.threads import to_its_end
from ringrift.workload.api import HasGameFiles
from ringrift.workload.foreign_db import find_journal
from ringrift.workload.npz import NpzReport, validate_npz
from ringrift.workload.registry import Registry

_FILE_BYTES_MAX = 4 * 1024**3
_SAMPLES_MAX, _SHOWN = 10_000, 8


async def import_games(context: Context) -> Output:
    """Read a file of games for a line; its new games count once.  Raises InputError, UnknownName, WorkError."""
    path, options = check_game_file(Path(context.options.node or "")), context.options
    async with context.store.read() as view:
        line = await _find_line(view, options.variant)
    require_game_files(Registry.load(context.settings.work.executables), line)
    node = local_node(await context.roster.all_nodes(), context.settings.node.id)
    if node is None:
        raise WorkError('no node has its files on this machine; start one with "ringrift run" or "ringrift node"')
    size = path.stat().st_size
    progress = Progress(f"reading {path.name}", 2 * size, context.clock)  # it is hashed, and then copied
    file = await store_file(FolderBlobs(node.address, node.id), path, size, progress.add)
    progress.end()
    job = await _take_turn(context, line.variant, file, node.id, size)
    result = await do_jobs(context, [job], partial(foreign_games.require_turn, job=job))
    events = [event for event in result.events if isinstance(event, Imported)]
    if not events:
        value = {"file": file, "variant": line.variant, "error": result.error}
        return Output(value=value, text=f"{path}: {result.error}", code=EXIT_FAILED)
    return _imported(path, file, events[0])


def check_game_file(path: Path) -> Path:
    """*path*, if it is a file that can be imported as it is.  Raises InputError."""
    try:
        if not path.is_file():
            raise InputError(f"file not found: {path}")
        if not 0 < (size := path.stat().st_size) <= _FILE_BYTES_MAX:
            raise InputError(f"{path} has {size} bytes; a file of games has 1 … {_FILE_BYTES_MAX}")
        if journal := find_journal(path):
            reason = f"a part of its games is still in {journal.name}"
            raise InputError(f"{path}: {reason}; close the program that writes it, or copy it with VACUUM INTO")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    return path


def require_game_files(registry: Registry, line: Line) -> None:
    """Raise InputError unless the workload of *line* reads files of games."""
    workload = registry.get(line.workload)
    if not (isinstance(workload, HasGameFiles) and workload.game_files):
        raise InputError(f"{line.variant}: the workload {line.workload} reads no files of games (no stage ingest)")


async def store_file(blobs: Blobs, path: Path, size: int, on_bytes: Callable[[int], None]) -> str:
    """Store the file *path* under its hash, which is returned.  Raises InputError if it changes meanwhile.

    *on_bytes* gets how many more bytes were hashed or copied; in the end that is twice *size*.
    """

    def digest() -> str:
        hasher = hashlib.sha256()
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                hasher.update(chunk)
                on_bytes(len(chunk))
        return hasher.hexdigest()

    async def chunks() -> AsyncIterator[bytes]:
        with path.open("rb") as file:
            while chunk := await to_its_end(None, file.read, CHUNK):
                yield chunk
                on_bytes(len(chunk))

    try:
        blob = await to_its_end(None, digest)
        if await blobs.renew([blob]):
            on_bytes(size)  # it is here already
        else:
            await blobs.write(blob, chunks())
    except Corrupt as error:
        raise InputError(f"{path} changed while it was read; import it when nothing writes to it") from error
    return blob


async def export_npz(context: Context) -> Output:
    """Write the samples of a dataset as ``.npz``, checked, whole or not at all.  Raises InputError, NoRoute."""
    options = context.options
    async with context.store.read() as view:
        origin = await _find_samples(view, options.node, options.variant)
        source = await model_file(view, origin.blob)
    target = Path(options.npz or f"{origin.variant}-{short(origin.blob)}.npz")
    beside = target.with_name(f".{os.getpid()}.{target.name.removesuffix('.npz')}.npz")
    words = [sys.executable, "-m", "ringrift.workload.npz", origin.workload, origin.variant, str(source), str(beside)]
    try:
        run = partial(run_program, words, lambda _: None, lambda: False, stop_seconds_max=0.0, clock=context.clock)
        code, errors = await to_its_end(None, run)
        if code:
            raise InputError(f"cannot export {short(origin.blob)}: {errors.splitlines()[-1] if errors else code}")
        report = await to_its_end(None, _publish_npz, beside, target)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}") from error
    finally:
        await to_its_end(None, partial(beside.unlink, missing_ok=True))
    value = {"samples": origin.blob, "variant": origin.variant, "file": str(target), "rows": report.rows}
    text = f"{short(origin.blob)} of {origin.variant}: {report.rows:,} samples written to {target}"
    return Output(value=value, text=text)


def _publish_npz(beside: Path, target: Path) -> NpzReport:
    """Give the file its name once it is sound and on the disk.  Raises InputError, OSError."""
    report = validate_npz(beside)
    if report.errors:
        raise InputError(f"the workload wrote a bad file: {report.errors[0]}")
    with beside.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(beside, target)
    return report


async def _find_samples(view: Reads, name: str | None, variant: str | None) -> Origin:
    """The samples whose hash begins with *name*, or the newest.  Raises UnknownName."""
    origins = await view.list_origins("samples", _SAMPLES_MAX, variant=variant)
    matches = [origin for origin in origins if origin.blob.startswith(name or "")]
    if not matches or (name and len({origin.blob for origin in matches}) > 1):
        raise UnknownName("dataset", name or "", [short(origin.blob) for origin in origins[:_SHOWN]])
    return matches[0]


def validate(context: Context) -> Output:
    """Check a ``.npz`` file, which needs no store.  Raises InputError."""
    path = Path(context.options.node)
    try:
        report = validate_npz(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    lines = [f"{path}: {f'{len(report.errors)} errors' if report.errors else f'sound, {report.rows:,} rows'}"]
    lines += [f"  {error}" for error in report.errors]
    lines += [f"  {name:<12} {entry.dtype} {list(entry.shape)}" for name, entry in report.arrays.items()]
    code = EXIT_FAILED if report.errors else 0
    return Output(value={"file": str(path), "report": report}, text="\n".join(lines), code=code)


async def _find_line(view: Reads, variant: str | None) -> Line:
    """The line that is named, or the only one.  Raises UnknownName, InputError."""
    if variant is not None:
        return await require_line(view, variant)
    lines = await LINES.all(view)
    if len(lines) != 1:
        names = ", ".join(line.variant for line in lines) or "none is open"
        raise InputError(f"name the variant:  ringrift data import FILE --variant NAME  ({names})")
    return lines[0]


async def _take_turn(context: Context, variant: str, file: str, node: str, size: int) -> Ingest:
    """The job for *file*, which *node* holds, once no other file is being read for its line.  Raises WorkError."""
    replay = not context.settings.imports.allow_pending
    job, is_list_lost = await foreign_games.take_turn(context.store, context.clock, variant, file, replay=replay)
    if is_list_lost:
        print("warning: the list of games that were imported before is lost: they may count again", file=sys.stderr)
    async with context.store.begin() as tx:
        await ledger.add(tx, [(file, node, size)])
    return changed(job, priority=STAGE)


def _imported(path: Path, file: str, event: Imported) -> Output:
    names = ("games", "repeated", "refused", "other", "pending")
    value: dict[str, Any] = {name: getattr(event, name) for name in names}
    value |= {"file": file, "variant": event.variant, "batches": event.batches, "errors": event.errors.splitlines()}
    count = f"{event.games:,} new games of {event.variant} in {len(event.batches)} batches"
    state = "not replayed yet: export replays them" if event.pending else "all replayed"
    lines = [f"{path}: {count}" + (f", {state}" if event.games else "")]
    others = {"were counted before": event.repeated, "were refused": event.refused, "are of other lines": event.other}
    lines += [f"  {number:,} games {rule}" for rule, number in others.items() if number]
    lines += [f"    {error}" for error in event.errors.splitlines()]
    return Output(value=value, text="\n".join(lines))
