"""Back up the store and all files to a folder or a bucket, while the loop runs; only what is new is sent."""

from random import SystemRandom
from typing import Any

from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.cli.disk_usage import size_text
from ringrift.cli.formats import duration, table, timestamp
from ringrift.cli.progress import Progress
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import InputError
from ringrift.kernel.exit_codes import ExitCode
from ringrift.sync.backup import OnProgress, back_up
from ringrift.sync.backup_notes import KIND, Backup, read_backup
from ringrift.sync.places import Place, open_place
from ringrift.sync.shaper import Shaper

_LISTED = 100


def _arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("place", nargs="?", metavar="DEST", help="folder or s3://BUCKET/PREFIX (default: the setting backup.place)")
    add("--keep", type=int, metavar="N", help="how many backups stay there (default: the setting backup.keep)")
    add("--list", action="store_true", help="only list the backups that are there")


def _open(context: Context) -> Place:
    address = context.options.place or context.settings.backup.place
    if not address:
        raise InputError("name a place:  ringrift backup FOLDER  or  s3://BUCKET/PREFIX, or set backup.place")
    return open_place(address)


def shown(title: str, clock: Clock) -> tuple[Progress, OnProgress]:
    """A bar with *title*, and what advances it as far as bytes were copied."""
    bar = Progress(title, 0, clock)

    def advance(done: int, total: int) -> None:
        bar.total = total
        bar.update(done)

    return bar, advance


async def _question(context: Context) -> Output:
    """Exit code 1 if a file could not be copied."""
    options, clock, start = context.options, context.clock, context.clock.tick()
    place = _open(context)
    if options.list:
        return await _list(place)
    keep = context.settings.backup.keep if options.keep is None else options.keep
    if keep < 1:
        raise InputError("--keep must be at least 1")
    bar, advance = shown("backup", clock)
    parts: dict[str, Any] = {"clock": clock, "rng": SystemRandom(), "envelopes": context.envelopes()}
    parts["shaper"] = Shaper(context.settings.bandwidth, clock)
    backup, sent = await back_up(context.store, context.settings.store, place, keep=keep, on_progress=advance, **parts)
    bar.end()
    seconds = clock.tick() - start
    size, new = size_text(backup.store_bytes), size_text(sent)
    text = (
        f"backup {backup.id} at {place.address}: {backup.files:,} files and the store ({size}), of which {new} are new"
    )
    text += f"; it took {duration(seconds)}\ncheck it:  ringrift restore {place.address} --drill"
    if backup.missing_count:
        names = ", ".join(name[:12] for name in backup.missing[:5])
        text += f"\nINCOMPLETE: {backup.missing_count} files could not be read from any node: {names}"
        text += "\nstart or mount what holds them (ringrift status), and back up again"
    value = {"backup": backup, "sent_bytes": sent, "seconds": seconds}
    return Output(value=value, text=text, code=ExitCode.FAILED if backup.missing_count else 0)


async def _list(place: Place) -> Output:
    names = (await place.notes(KIND))[-_LISTED:]
    backups: list[Backup] = [await read_backup(place, name) for name in names]
    rows = [
        (row.id, timestamp(row.time), row.epoch, f"{row.files:,}", size_text(row.store_bytes), row.missing_count or "—")
        for row in backups
    ]
    head = ("backup", "time", "epoch", "files", "store", "missing")
    return Output(value=backups, text=table(head, rows, f"no backup at {place.address}"))


COMMAND = Command(arguments=_arguments, question=_question)
