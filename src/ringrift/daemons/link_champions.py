"""Points the canonical links at the champions: ``models/canonical_<variant>`` and the same with ``.pth``.

A link is replaced in one step, and only by one to a file that is here and has the hash in its name.  So a reader always
opens a whole champion: the current one, or the one before while this node has not got the new one yet.  What is not
ours, a file or a link to somewhere else, is never replaced: an alert asks for another place for it.
"""

import asyncio
import hashlib
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ringrift.blobs.folder import Folder, FolderBlobs
from ringrift.blobs.ports import Blobs
from ringrift.bus.router import Router
from ringrift.cluster import alerts
from ringrift.cluster.roster import NodeRecord
from ringrift.events import alert, model
from ringrift.events.base import Envelope, Event
from ringrift.kernel.errors import TransferError
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.folders import make_folder
from ringrift.pipeline.line import LINES
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.threads import to_its_end

_LOOK_SECONDS = 5.0  #: Between looks without a wake-up: a node may get a champion's file at any time.
_ALERT = "canonical_link"
_SHELVED = re.compile(r"([0-9a-f]{2})/\1[0-9a-f]{62}")


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
            await _report_foreign(store, router, blobs, node_id)
            alive()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):  # asyncio.wait_for could swallow a cancellation
                    await moved.wait()
    finally:
        await router.unsubscribe(subscription)


async def link_now(store: Store, nodes: Sequence[NodeRecord]) -> None:
    """Do the same for each of *nodes* whose files are on this machine, once: none of them may run."""
    for node in nodes:
        blobs = FolderBlobs(node.address, node.id)
        if await to_its_end(None, blobs.folder.find_away) is None:
            await _update_links(store, blobs, node.id, beside=f"{node.id}.{os.getpid()}")


async def _update_links(store: Store, blobs: Blobs, node_id: str, *, beside: str = "") -> list[str]:
    """Point every stale link at its champion, if its file is here; return the variants whose links were moved.

    Links are made under names that end in *beside*, or the node's: two processes must not use the same.
    """
    if not isinstance(blobs, FolderBlobs):
        return []  # without files there is nothing to link to
    async with store.read() as view:
        champions = {line.variant: line.champion for line in await LINES.all(view) if line.champion is not None}
    folder, models = blobs.folder, _models_folder(blobs.folder.root, node_id)
    return [
        variant
        for variant, champion in champions.items()
        if await to_its_end(None, _point_at, folder, models, variant, champion, beside or node_id)
    ]


def _models_folder(blobs: Path, node_id: str) -> Path:
    """Where links lie: beside the blob folder, which several nodes on one machine share by a folder for each."""
    return (blobs.parent if blobs.name == node_id else blobs).parent / "models"


def _names(variant: str) -> tuple[str, str]:
    return f"canonical_{variant}", f"canonical_{variant}.pth"


def _point_at(folder: Folder, models: Path, variant: str, blob: str, beside: str) -> bool:
    """Point the links of *variant* at *blob*, if it is whole; whether any was moved."""
    names = [name for name in _names(variant) if not _is_foreign(models / name)]
    stale = [name for name in names if not _points_at(models / name, blob)]
    if stale and not folder.path(blob).exists():
        with suppress(TransferError):  # it is not here yet
            folder.open(blob)  # it may have arrived in a pack, together with others
    if not stale or not _is_whole(folder.path(blob), blob):
        return False
    make_folder(models)
    target = os.path.relpath(folder.path(blob), models)
    for name in stale:
        _replace(models / name, target, models / f".{name}.{beside}")
    return True


async def _report_foreign(store: Store, router: Router, blobs: Blobs, node_id: str) -> None:
    """Raise an alert for everything in the place of a link that is not ours, and clear those that are over."""
    if not isinstance(blobs, FolderBlobs):
        return
    models = _models_folder(blobs.folder.root, node_id)
    async with store.read() as view:
        names = [name for line in await LINES.all(view) if line.champion for name in _names(line.variant)]
        open_now = [row for row in await alerts.open_alerts(view) if row.kind == _ALERT]
    raised = {row.subject for row in open_now if row.subject.startswith(f"{node_id}/")}
    foreign = {f"{node_id}/{name}": models / name for name in names if _is_foreign(models / name)}
    for subject in foreign.keys() - raised:
        detail = f"{foreign[subject]} is not a link of RingRift and stays as it is: move it, and the champion is linked"
        await router.publish(alert.Raised(kind=_ALERT, subject=subject, detail=detail), source="link_champions")
    for subject in raised - foreign.keys():
        await router.publish(alert.Cleared(kind=_ALERT, subject=subject), source="link_champions")


def _is_foreign(link: Path) -> bool:
    """Whether *link* is there and was not made here: not a link to a blob on its shelf."""
    if not link.is_symlink():
        return link.exists()
    target = Path(os.readlink(link))
    return not _SHELVED.fullmatch(f"{target.parent.name}/{target.name}")


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
    with suppress(FileNotFoundError):
        os.unlink(beside)  # left by a process of this node that ended here
    os.symlink(target, beside)
    failpoint("link_champions.before_link")
    if link.is_symlink():
        os.replace(beside, link)
    else:
        os.unlink(beside)
        with suppress(FileExistsError):  # whatever has come there meanwhile stays, and is looked at again
            os.symlink(target, link)
    failpoint("link_champions.after_link")


SPEC = Daemon(name="link_champions", run=link_champions, serve=True, after=("elect",), category="sync")
