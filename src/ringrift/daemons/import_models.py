"""Imports the models that are put into the watched folder of its node, and nominates each as a candidate once."""

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from ringrift.blobs.ports import Blobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import InputError
from ringrift.kernel.settings import Policy, Settings
from ringrift.kernel.value import changed
from ringrift.pipeline import inbox
from ringrift.pipeline.inbox import INBOX, InboxFile
from ringrift.pipeline.line import LINES
from ringrift.pipeline.operator import Actor
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.threads import to_its_end

_FILES_MAX = 1000  #: Files of the folder that are looked at; the others wait until some are removed.
_UNFINISHED = (".part", ".tmp", ".partial", ".crdownload")
_Stamp = tuple[object, ...]  #: Of a file: another one shows that it has changed.


class _Folder:
    """What one node has seen in its folder: a file is read once it has stopped growing, and again if it changes."""

    def __init__(self) -> None:
        self._seen: dict[str, _Stamp] = {}
        self._settled: dict[str, _Stamp] = {}

    def settled(self, stamps: dict[str, _Stamp]) -> list[str]:
        """Those files that are as they were at the last look, and were not returned as they are now before."""
        new = [name for name, stamp in stamps.items() if self._seen.get(name) == stamp != self._settled.get(name)]
        self._seen = stamps
        self._settled = {name: stamp for name, stamp in self._settled.items() if name in stamps}
        self._settled |= {name: stamps[name] for name in new}
        return sorted(new)


def _files(folder: str) -> dict[str, _Stamp] | None:
    """Size and time of every finished file in *folder* and in its folders, by its path there; None without a folder."""
    root = Path(folder)
    if not root.is_dir():
        return None
    folders = [path for path in _entries(root) if path.is_dir()]
    result: dict[str, _Stamp] = {}
    for path in (path for place in (root, *folders) for path in _entries(place)):
        with suppress(FileNotFoundError):  # it was removed meanwhile
            if len(result) < _FILES_MAX and path.is_file() and path.suffix not in _UNFINISHED:
                status = path.stat()
                result[str(path.relative_to(root))] = (status.st_size, status.st_mtime_ns)
    return result


def _entries(place: Path) -> list[Path]:
    """The visible entries of *place*."""
    return sorted(place / entry.name for entry in os.scandir(place) if not entry.name.startswith("."))


async def import_models(
    *, settings: Settings, policy: Policy, store: Store, blobs: Blobs, envelopes: EnvelopeFactory, clock: Clock,
    memory: _Folder,
) -> None:  # fmt: skip
    """Look at the folder once, and bring what was found before a step further."""
    folder = settings.imports.folder
    if not folder:
        return
    async with store.read() as view:
        variants, entries = tuple(await LINES.scan(view)), await INBOX.all(view, "node", envelopes.node)
    if not variants:
        return  # no line is open yet that a file could be for
    actor, files = Actor(envelopes=envelopes, now=clock.now()), await to_its_end(None, _files, folder)
    if files is None:
        return  # not made yet, or its disk is not mounted
    # A file that was for no line is looked at again when another line is opened.
    for name in memory.settled({name: (*stamp, variants) for name, stamp in files.items()}):
        await _take_in(Path(folder) / name, name, variants, store, blobs, actor)
    for entry in (entry for entry in entries if entry.state in inbox.OPEN):
        async with store.begin() as tx:
            await inbox.follow_up(tx, entry, policy=policy, actor=actor)
    if any(entry.state == inbox.REFUSED and entry.name not in files for entry in entries):
        async with store.begin() as tx:
            await inbox.forget_refused(tx, envelopes.node, files, envelopes)


async def _take_in(path: Path, name: str, variants: Collection[str], store: Store, blobs: Blobs, actor: Actor) -> None:
    """Take in one file of the folder; what is no model is reported and left alone."""
    entry = InboxFile(variant="", file=name, name=name, node=actor.envelopes.node)
    try:
        variant = inbox.variant_of(name, variants)
        content = await to_its_end(None, inbox.read_model, path)
    except InputError as error:
        async with store.begin() as tx:
            await inbox.refuse(tx, entry, str(error), actor.envelopes)
        return
    [blob] = await blobs.put([content])
    async with store.begin() as tx:
        await inbox.take_in(tx, changed(entry, variant=variant, file=blob), actor)


_SECONDS = "imports.every_seconds"
SPEC = Daemon(name="import_models", run=import_models, memory=_Folder, every=_SECONDS, category="evaluation")
