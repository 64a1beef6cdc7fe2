"""Points the canonical links at the champions: ``models/canonical_<variant>`` and the same with ``.pth``.

A link is replaced in one step, and only by one to a file that is here and has the hash in its name.  So a reader always
opens a whole champion: the current one, or the one before while this node has not got the new one yet.
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
from ringrift.pipeline.line import LINES
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.threads import to_its_end

_LOOK_SECONDS = 5.0  #: Between looks without a wake-up: a node may get a champion's file at any time.
log = logging.getLogger(__name__)


async def link_champions(
    *, store: Store, router: Router, blobs: Blobs, node_id: str, alive: Callable[[], None]
) -> None:
    """Look at once, whenever a champion has changed, and now and then: a node that was away catches up."""
    moved = asyncio.Event()

    async def wake(event: Event, envelope: Envelope) -> None:
        moved.set()

    events = (model.Promoted, model.RolledBack, model.Distributed)
    subscription = router.subscribe(events, wake, name=f"link_champions:{node_id}")
    try:
        while True:
            moved.clear()
            await _update_links(store, blobs, node_id)
            alive()
            with suppress(TimeoutError):
                await asyncio.wait_for(moved.wait(), _LOOK_SECONDS)
    finally:
        await router.unsubscribe(subscription)


async def _update_links(store: Store, blobs: Blobs, node_id: str) -> list[str]:
    """Point every stale link at its champion, if its file is here; return the variants whose links were moved."""
    if not isinstance(blobs, FolderBlobs):
        return []  # without files there is nothing to link to
    async with store.read() as view:
        champions = {line.variant: line.champion for line in await LINES.all(view) if line.champion is not None}
    folder, models = blobs.folder, _models_folder(blobs.folder.root, node_id)
    return [
        variant
        for variant, champion in champions.items()
        if await to_its_end(None, _point_at, folder, models, variant, champion, node_id)
    ]


def _models_folder(blobs: Path, node_id: str) -> Path:
    """Where links lie: beside the blob folder, which several nodes on one machine share by a folder for each."""
    return (blobs.parent if blobs.name == node_id else blobs).parent / "models"


def _names(variant: str) -> tuple[str, str]:
    return f"canonical_{variant}", f"canonical_{variant}.pth"


def _point_at(folder: Folder, models: Path, variant: str, blob: str, node_id: str) -> bool:
    """Point the links of *variant* at *blob*, if it is whole; whether any was moved."""
    stale = [name for name in _names(variant) if not _points_at(models / name, blob)]
    if not stale or not _is_whole(folder.path(blob), blob):
        return False
    models.mkdir(parents=True, exist_ok=True)
    target = os.path.relpath(folder.path(blob), models)
    for name in stale:
        _replace(models / name, target, models / f".{name}.{node_id}")
    return True


def _points_at(link: Path, blob: str) -> bool:
    """Whether *link* leads to a file that is there and named *blob*, of whichever node."""
    return link.is_symlink() and Path(os.readlink(link)).name == blob and link.exists()


def _is_whole(path: Path, blob: str) -> bool:
    """Whether the file is there and is what its name says; a damaged one is left to the daemon sweep."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == blob
    except FileNotFoundError:
        return False


def _replace(link: Path, target: str, beside: Path) -> None:
    """Make *link* lead to *target* in one step, made *beside* it first."""
    if link.exists() and not link.is_symlink():
        backup = link.with_name(f"{link.name}.kept")
        log.warning("%s is not a link: keeping it as %s", link, backup.name)
        with suppress(FileExistsError):
            os.link(link, backup)
    with suppress(FileNotFoundError):
        os.unlink(beside)  # left by a process of this node that ended here
    os.symlink(target, beside)
    failpoint("link_champions.before_link")
    os.replace(beside, link)
    failpoint("link_champions.after_link")


SPEC = Daemon(name="link_champions", run=link_champions, serve=True, after=("elect",), category="sync")
