"""Snapshot: the states that a part had, newest last, each with the hash of what was written; so many are kept."""

import hashlib
from collections.abc import Sequence

import msgspec

from ringrift.kernel.errors import StoreError
from ringrift.kernel.value import Value
from ringrift.store.ports import Put, Reads, Record, Tx

KIND = "snapshot"
KEPT_MAX = 1000
"""The most that anybody may ask to be kept of one part."""


class Snapshot(Value):
    """What a part was like at a moment."""

    name: str
    """Of the part."""
    number: int
    """Grows with each snapshot of the part."""
    time: float
    state: bytes
    checksum: str

    @property
    def id(self) -> str:
        """Its name in the store."""
        return f"{self.name}#{self.number}"


class Damaged(StoreError):
    """A snapshot is not what was written; *number* is 0 where not even that can be read."""

    def __init__(self, name: str, number: int, id: str) -> None:
        self.name, self.number, self.id = name, number, id
        super().__init__(f"snapshot {id} of {name!r} is damaged: its checksum does not match")


def made(name: str, number: int, time: float, state: bytes) -> Snapshot:
    """A snapshot with its checksum."""
    return Snapshot(name=name, number=number, time=time, state=state, checksum=checksum(name, number, time, state))


def checksum(name: str, number: int, time: float, state: bytes) -> str:
    """The hash of everything that a snapshot says."""
    return hashlib.sha256(msgspec.msgpack.encode((name, number, time, state))).hexdigest()


def read(name: str, record: Record) -> Snapshot:
    """The snapshot of *name* in *record*.  Raises Damaged unless it is what was written."""
    try:
        found = msgspec.msgpack.decode(record.body, type=Snapshot)
    except msgspec.MsgspecError as bad:
        raise Damaged(name, 0, record.id) from bad
    right = checksum(found.name, found.number, found.time, found.state)
    if found.name != name or found.checksum != right:
        raise Damaged(name, found.number, record.id)
    return found


async def take(tx: Tx, name: str, state: bytes, time: float, keep: int) -> Snapshot:
    """Write down that *name* is like *state*, and forget the oldest of its snapshots beyond *keep*."""
    assert 1 <= keep <= KEPT_MAX
    records = await _records(tx, name)
    taken = made(name, max((_number(record) for record in records), default=0) + 1, time, state)
    await tx.put([Put(kind=KIND, id=taken.id, body=msgspec.msgpack.encode(taken), index={"of": name})])
    await tx.delete(KIND, [record.id for record in records[: max(len(records) + 1 - keep, 0)]])
    return taken


async def history(view: Reads, name: str) -> Sequence[Snapshot | Damaged]:
    """Every snapshot of *name*, the oldest first, with those that are damaged in their places."""
    found: list[Snapshot | Damaged] = []
    for record in await _records(view, name):
        try:
            found.append(read(name, record))
        except Damaged as damaged:
            found.append(damaged)
    return found


async def _records(view: Reads, name: str) -> Sequence[Record]:
    return sorted(await view.find(KIND, "of", [name], KEPT_MAX + 1), key=_number)


def _number(record: Record) -> int:
    return int(record.id.rpartition("#")[2])
