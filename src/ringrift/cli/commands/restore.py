"""Restore a backup into an empty home, or rehearse it in a folder that is removed afterwards."""

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ringrift.blobs.folder import FolderBlobs
from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.cli.commands.backup import shown
from ringrift.cli.disk_usage import size_text
from ringrift.cli.formats import duration, timestamp
from ringrift.kernel.errors import RingriftError
from ringrift.kernel.exit_codes import ExitCode
from ringrift.kernel.ids import check_id
from ringrift.kernel.settings import StoreSettings
from ringrift.kernel.value import changed
from ringrift.pipeline.line import LINES, check, needed_blobs
from ringrift.pipeline.records import CHECKED
from ringrift.store.open import open_store
from ringrift.sync.places import open_place
from ringrift.sync.restore import Restoration, find_backup, restore


def _arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("place", metavar="SRC", help="folder or s3://BUCKET/PREFIX with backups")
    add("--backup", metavar="ID", help="this backup (ringrift backup SRC --list); default: the newest")
    add("--node", metavar="NAME", help="the node that gets the files (default: that of the settings, which will lead)")
    add("--drill", action="store_true", help="restore into a temporary folder, check everything, and remove it again")


def _prepare(context: Context) -> Output:
    """Exit code 1 if the restored home lacks something that a line needs."""
    if not context.options.drill:
        settings = context.settings
        return asyncio.run(_restore(context, settings.store, Path(settings.blobs.address())))
    home = Path(context.effective.home)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="drill-", dir=home))
    try:
        store = changed(context.settings.store, path=str(folder / "coordination" / "coordinator.db"))
        return asyncio.run(_restore(context, store, folder / "blobs"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _restore(context: Context, store: StoreSettings, blobs: Path) -> Output:
    options, clock, start = context.options, context.clock, context.clock.tick()
    place, node = open_place(options.place), check_id("--node", options.node or context.settings.node.id)
    backup = await find_backup(place, options.backup)
    bar, advance = shown("restore", clock)
    result = await restore(
        place,
        backup,
        store,
        blobs,
        clock=clock,
        envelopes=context.envelopes(),
        node=node,
        drill=options.drill,
        on_progress=advance,
    )
    bar.end()
    problems = await _problems(context, store, result)
    seconds = clock.tick() - start
    value = {"restoration": result, "problems": problems, "seconds": seconds}
    text = "\n".join(_lines(result, problems, seconds, is_drill=options.drill))
    return Output(value=value, text=text, code=ExitCode.FAILED if problems else 0)


async def _problems(context: Context, settings: StoreSettings, result: Restoration) -> list[str]:
    """What the restored home lacks: lines and evidence that cannot be read, and files that a line needs."""
    folder, problems = FolderBlobs(result.folder, result.node), list[str]()
    try:
        async with open_store(settings, context.clock, existing=True) as store, store.read() as view:
            problems += [str(error) for records in CHECKED for error in await records.find_damaged(view)]
            lines = await LINES.all(view)
    except RingriftError as error:
        return [str(error)]
    for line in lines:
        check(line)
        needed = needed_blobs(line)
        lacks = sorted(needed.keys() - await folder.have(needed))
        problems += [f"{line.variant}: {needed[blob]} {blob[:12]} is not in the backup" for blob in lacks]
    return problems


def _lines(result: Restoration, problems: Sequence[str], seconds: float, *, is_drill: bool) -> list[str]:
    backup = result.backup
    done = "drill: it can be restored" if is_drill else "restored"
    lines = [
        f"{done}: backup {backup.id} of {timestamp(backup.time)}, {backup.files:,} files, {size_text(result.bytes)}"
    ]
    lines[0] += f", all verified, in {duration(seconds)}"
    if backup.missing_count:
        lines.append(
            f"{backup.missing_count} files were missing when it was made: what needs them goes on without them"
        )
    lines += [f"LACKS {problem}" for problem in problems]
    if is_drill:
        return lines
    lines.append(
        f"node {result.node} has the files; epoch {result.epoch} begins: no lease, role or token of before counts"
    )
    lines.append("keys that were revoked after that time are valid again (ringrift nodes)")
    if not result.is_noted:
        lines.append("the place can only be read: do not restore this backup a second time elsewhere")
    lines.append('certificates and ringrift.toml are not in a backup: put yours here, then start with "ringrift run"')
    return lines


COMMAND = Command(arguments=_arguments, prepare=_prepare)
