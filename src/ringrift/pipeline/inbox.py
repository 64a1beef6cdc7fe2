"""Inbox: model files that a person or a program puts into a watched folder, from the file to the candidate.

    importing ─▶ (Import job) waiting ─▶ (the line has time) nominated ─▶ verified and matched like every candidate
        └──────▶ refused: reported once and left alone

A file counts by its content: the same bytes under another name, or seen by another node, are the same file.
"""

from collections.abc import Collection
from pathlib import Path

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events import alert
from ringrift.jobs import Import, JobFilter
from ringrift.kernel.errors import InputError, printable
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import Value, changed
from ringrift.pipeline import operator
from ringrift.pipeline.models import resolve
from ringrift.pipeline.operator import Actor
from ringrift.store.ports import Tx
from ringrift.store.records import Records
from ringrift.sync import ledger
from ringrift.work.desk import select

_MODEL_BYTES_MAX = 512 * 1024 * 1024
_IMPORTING, _WAITING, _NOMINATED, REFUSED = "importing", "waiting", "nominated", "refused"
OPEN = (_IMPORTING, _WAITING)  #: States in which something is still to be done.
_ALERT, _ERROR_CHARACTERS_MAX = "import", 500


class InboxFile(Value):
    """A file of a watched folder, by its content."""

    variant: str
    file: str  #: The blob with its bytes; for one that could not be read, its path.
    name: str  #: Its path in the folder.
    node: str  #: The node that watches it.
    state: str = _IMPORTING
    model: str = ""
    error: str = ""

    @property
    def id(self) -> str:
        return f"{self.variant}:{self.file}"


INBOX = Records("inbox_file", InboxFile, id="id", index=("node", "state"), limit=10_000)


def read_model(path: Path) -> bytes:
    """The content of the file *path*.  Raises InputError unless it is a file of a size that a model can have."""
    try:
        if not path.is_file():
            raise InputError(f"file not found: {path}")
        if not 0 < path.stat().st_size <= _MODEL_BYTES_MAX:
            raise InputError(f"{path} has {path.stat().st_size} bytes; a model has 1 … {_MODEL_BYTES_MAX}")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def variant_of(name: str, variants: Collection[str]) -> str:
    """The one of *variants* that the file *name* is for, by its folder's name or its own.  Raises InputError."""
    parent = Path(name).parent.name
    matches = [parent] if parent in variants else [variant for variant in variants if variant in Path(name).name]
    if len(matches) != 1:
        open_lines = ", ".join(sorted(variants)) or "none is open"
        raise InputError(f"{name} names no single variant; put it into a folder named after one ({open_lines})")
    return matches[0]


async def take_in(tx: Tx, entry: InboxFile, actor: Actor) -> None:
    """Ask for the import of a file whose bytes its node holds; one that was taken in before changes nothing."""
    if await INBOX.get(tx, entry.id) is not None:
        return
    model = await operator.imported_from(tx, entry.variant, entry.file)
    if model is None:
        await tx.put([ledger.holding(entry.file, entry.node)])
        await operator.import_model(tx, entry.variant, entry.file, actor=actor)
    await INBOX.put(tx, [changed(entry, state=_WAITING, model=model) if model else entry])


async def refuse(tx: Tx, entry: InboxFile, error: str, envelopes: EnvelopeFactory) -> None:
    """Record that *entry* is no model and report it, once."""
    before = await INBOX.get(tx, entry.id)
    if before is not None and before.state == REFUSED:
        return
    error = printable(error, _ERROR_CHARACTERS_MAX)
    await INBOX.put(tx, [changed(entry, state=REFUSED, error=error)])
    report = alert.Raised(kind=_ALERT, subject=f"{entry.node}/{entry.name}", level="warning", detail=error)
    await tx.append([envelopes.make(report, source="import_models")])


async def forget_refused(tx: Tx, node: str, names: Collection[str], envelopes: EnvelopeFactory) -> None:
    """Forget the refused files of *node* that are not among *names* any more, and clear their alerts."""
    over = [e for e in await INBOX.all(tx, "node", node) if e.state == REFUSED and e.name not in names]
    await INBOX.delete(tx, [entry.id for entry in over])
    cleared = [alert.Cleared(kind=_ALERT, subject=f"{node}/{name}") for name in sorted({e.name for e in over})]
    await tx.append([envelopes.make(event, source="import_models") for event in cleared])


async def follow_up(tx: Tx, entry: InboxFile, *, policy: Policy, actor: Actor) -> None:
    """Bring *entry* to its next state, if what that waits for has happened."""
    if entry.state == _IMPORTING:
        model = await operator.imported_from(tx, entry.variant, entry.file)
        if model is None:
            job = JobFilter(variant=entry.variant, key=Import(variant=entry.variant, file=entry.file).key)
            if not await select(tx, job):
                dead = await select(tx, job, ("dead",))
                error = dead[-1].error if dead else None
                await refuse(tx, entry, error or "the import was cancelled", actor.envelopes)
            return
        entry = changed(entry, state=_WAITING, model=model)
        await INBOX.put(tx, [entry])
    match = await resolve(tx, entry.model, entry.variant)
    if match.record is None:
        _, step = await operator.nominate(tx, match, policy=policy, actor=actor)
        if step is None:
            return  # the line has no time for it now
    await INBOX.put(tx, [changed(entry, state=_NOMINATED)])
