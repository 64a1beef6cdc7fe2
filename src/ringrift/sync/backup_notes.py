"""Notes of backups: what a place says about each of its backups, and how their names and lists are read."""

from collections.abc import Iterable, Sequence

import msgspec

from ringrift.kernel.errors import InputError
from ringrift.kernel.ids import is_blob
from ringrift.kernel.value import Value
from ringrift.sync.places import Place

KIND, RESTORES = "backups", "restores"  #: Notes of a place: its backups, and the epochs that were begun from them.
_NAMES_PER_LIST = 16_384  # 1 MiB of them


class Backup(Value):
    """The note of one backup."""

    id: str
    time: float
    store: str
    epoch: int
    position: int  #: Of the last event in it.
    pieces: tuple[str, ...]  #: Blobs that are the file of the store, in order.
    store_bytes: int
    digest: str  #: SHA-256 of that file.
    lists: tuple[str, ...]  #: Blobs that list the names of its files, one in a line.
    files: int
    missing: tuple[str, ...] = ()  #: The first of those files that no node could send: they are not in it.
    missing_count: int = 0
    release: str = ""


async def newest_epoch(place: Place) -> int:
    """The highest epoch that a backup at *place* has, or that was begun from one."""
    backups = [read_id(name)[0] for name in await place.notes(KIND)]
    return max([0, *backups, *(int(name) for name in await place.notes(RESTORES) if name.isdecimal())])


def note_name(backup: Backup) -> str:
    """The name of its note, in which its epoch can be read: names sort by epoch, then by time."""
    return f"{backup.epoch:08d}-{backup.id}.json"


def read_id(name: str) -> tuple[int, str]:
    """Epoch and id of a backup, by the name of its note; epoch 0 for what is no such name."""
    epoch, _, id = name.removesuffix(".json").partition("-")
    return (int(epoch), id) if epoch.isdecimal() and id else (0, name)


async def read_backup(place: Place, name: str) -> Backup:
    """The backup whose note is *name*.  Raises InputError, UnknownName."""
    try:
        return msgspec.json.decode(await place.read_note(KIND, name), type=Backup)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"the note {name} at {place.address} is damaged ({error}): use another backup") from error


async def read_lists(place: Place, backup: Backup) -> list[str]:
    """The names of all files of *backup*.  Raises InputError, NoRoute, Corrupt."""
    names = list[str]()
    for blob in backup.lists:
        data = b"".join([chunk async for chunk in place.read(blob)])
        names += data.decode("ascii", errors="replace").split()
    if len(names) != backup.files or not all(map(is_blob, names)):
        raise InputError(f"the lists of backup {backup.id} at {place.address} are damaged: use another backup")
    return names


def split_names(names: Sequence[str]) -> Iterable[bytes]:
    """The lists of *names* that a backup has."""
    for at in range(0, len(names), _NAMES_PER_LIST):
        yield "".join(f"{name}\n" for name in names[at : at + _NAMES_PER_LIST]).encode()
