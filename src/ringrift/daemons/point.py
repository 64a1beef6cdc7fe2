"""Points the canonical links at the champions: ``models/canonical_<variant>`` and the same with ``.pth``.

A link is replaced in one step, and only by one to a file that is here and is what its name says.  So whoever opens it
gets a whole champion: the one of now, or the one before while this node has not got the new one yet.
"""

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ringrift.blobs.folder import Folder, FolderBlobs
from ringrift.blobs.ports import Blobs
from ringrift.bus.router import Router
from ringrift.events import model
from ringrift.events.base import Envelope, Event
from ringrift.kernel.failpoint import failpoint
from ringrift.pipeline.records import lines
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.threads import to_its_end

LOOK_SECONDS = 5.0
"""Between looks that nothing calls for: a node may get a champion's file at any time."""
MODELS = "models"
SUFFIXES = ("", ".pth")
log = logging.getLogger(__name__)


async def point(*, store: Store, router: Router, blobs: Blobs, node_id: str, alive: Callable[[], None]) -> None:
    """Look at once, whenever a pointer has moved, and now and then: a node that was away catches up."""
    moved = asyncio.Event()

    async def wake(event: Event, envelope: Envelope) -> None:
        moved.set()

    heard = router.subscribe({model.Promoted, model.RolledBack, model.Distributed}, wake, name=f"point:{node_id}")
    try:
        while True:
            moved.clear()
            await look(store, blobs, node_id)
            alive()
            with suppress(TimeoutError):
                await asyncio.wait_for(moved.wait(), LOOK_SECONDS)
    finally:
        await router.unsubscribe(heard)


async def look(store: Store, blobs: Blobs, node_id: str) -> list[str]:
    """Point every link that is not at its champion there, if its file is here; the variants whose links were moved."""
    if not isinstance(blobs, FolderBlobs):
        return []  # without files there is nothing to link to
    async with store.read() as view:
        champions = {line.variant: line.champion for line in await lines(view) if line.champion is not None}
    folder, models = blobs.folder, models_folder(blobs.folder.root, node_id)
    return [
        variant
        for variant, champion in champions.items()
        if await to_its_end(None, point_at, folder, models, variant, champion, node_id)
    ]


def models_folder(blobs: Path, node_id: str) -> Path:
    """Where links lie: beside the blob folder, which several nodes on one machine share by a folder for each."""
    shared = blobs.parent if blobs.name == node_id else blobs
    return shared.parent / MODELS


def names(variant: str) -> tuple[str, ...]:
    """The names of the links of *variant*."""
    return tuple(f"canonical_{variant}{suffix}" for suffix in SUFFIXES)


def point_at(folder: Folder, models: Path, variant: str, blob: str, node_id: str) -> bool:
    """Point the links of *variant* at *blob*, if it is whole; whether any was moved."""
    stale = [name for name in names(variant) if not points_at(models / name, blob)]
    if not stale or not _is_whole(folder.path(blob), blob):
        return False
    models.mkdir(parents=True, exist_ok=True)
    target = os.path.relpath(folder.path(blob), models)
    for name in stale:
        _replace(models / name, target, models / f".{name}.{node_id}")
    return True


def points_at(link: Path, blob: str) -> bool:
    """Whether *link* leads to a file that is there and named *blob*, of whichever node."""
    return link.is_symlink() and Path(os.readlink(link)).name == blob and link.exists()


def _is_whole(path: Path, blob: str) -> bool:
    """Whether the file is there and is what its name says; a damaged one is left to who sweeps."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == blob
    except FileNotFoundError:
        return False


def _replace(link: Path, target: str, beside: Path) -> None:
    """Make *link* lead to *target* in one step, made *beside* it first."""
    if link.exists() and not link.is_symlink():
        kept = link.with_name(f"{link.name}.kept")
        log.warning("%s is no link of ours: it is kept as %s", link, kept.name)
        with suppress(FileExistsError):
            os.link(link, kept)
    with suppress(FileNotFoundError):
        os.unlink(beside)  # left by a life of this node that ended here
    os.symlink(target, beside)
    failpoint("point.before_link")
    os.replace(beside, link)
    failpoint("point.after_link")


SPEC = Daemon(name="point", run=point, serve=True, after=("elect",), category="sync")
