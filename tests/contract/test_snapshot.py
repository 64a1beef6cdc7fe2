"""Snapshots of parts in every store: numbered, so many kept, and whatever is not what was written is told apart."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from contract.engines import Engine
from ringrift.store import snapshot
from ringrift.store.ports import Put, Record, Store
from ringrift.store.snapshot import Damaged, Snapshot


async def take(store: Store, name: str, state: bytes, keep: int = 10) -> Snapshot:
    """Write a snapshot down."""
    async with store.begin() as tx:
        return await snapshot.take(tx, name, state, 1.5, keep)


async def history(store: Store, name: str) -> Sequence[Snapshot | Damaged]:
    """The snapshots of *name*."""
    async with store.read() as view:
        return await snapshot.history(view, name)


def test_the_last_of_each_part_are_kept(engine: Engine) -> None:
    """Each part has its own numbers, which go on whatever is forgotten; a name that begins like another is another."""

    async def story(store: Store) -> list[list[tuple[int, bytes]]]:
        for number in range(12):
            await take(store, "part", bytes([number]), keep=3)
        await take(store, "part#1", b"other")
        found = [await history(store, name) for name in ("part", "part#1", "none")]
        return [[(one.number, one.state) for one in part if isinstance(one, Snapshot)] for part in found]

    assert engine.run(story) == [[(10, b"\x09"), (11, b"\x0a"), (12, b"\x0b")], [(1, b"other")], []]


def test_writers_at_once_get_numbers_of_their_own(engine: Engine) -> None:
    """No snapshot is written over by another."""

    async def story(store: Store) -> list[int]:
        taken = await asyncio.gather(*(take(store, "part", b"x", keep=100) for _ in range(20)))
        assert [one.id for one in taken] == [f"part#{one.number}" for one in taken]
        return sorted(one.number for one in await history(store, "part"))

    assert engine.run(story) == list(range(1, 21))


def test_a_damaged_one_stays_in_its_place(engine: Engine) -> None:
    """The history shows it as damaged, between those that are whole, and the next one has the next number."""

    async def story(store: Store) -> list[tuple[type, int]]:
        for _ in range(3):
            await take(store, "part", b"x")
        async with store.begin() as tx:
            await tx.put([Put(kind=snapshot.KIND, id="part#2", body=b"\xff", index={"of": "part"})])
        await take(store, "part", b"x")
        return [(type(one), one.number) for one in await history(store, "part")]

    assert engine.run(story) == [(Snapshot, 1), (Damaged, 0), (Snapshot, 3), (Snapshot, 4)]


@pytest.mark.parametrize("field", ["name", "number", "time", "state", "checksum"])
def test_every_field_is_covered_by_the_checksum(field: str) -> None:
    """Whichever of them is changed: it is damaged, and says which one."""
    whole = snapshot.made("part", 3, 1.5, b"state")
    others = {"name": "other", "number": 4, "time": 1.6, "state": b"State", "checksum": "0" * 64}
    changed = msgspec.structs.replace(whole, **{field: others[field]})

    assert snapshot.read("part", _record(whole)) == whole
    with pytest.raises(Damaged, match="part#3"):
        snapshot.read("part", _record(changed))
    with pytest.raises(Damaged):
        snapshot.read("other", _record(whole))


def _record(one: Snapshot) -> Record:
    return Record(kind=snapshot.KIND, id="part#3", body=msgspec.msgpack.encode(one))
