"""The documented snapshots: stored and restored, up to a limit, and never a damaged one."""

import asyncio
from typing import Any

import msgspec
import pytest

from compat.subscribers import async_test, home
from ringrift.kernel.errors import InvalidPayload
from ringrift.store.ports import Put
from ringrift_compat.coordinators.snapshots import CorruptSnapshot, SnapshotCoordinator, StateSnapshot
from ringrift_compat.embedded_node import embedded
from wait import wait_until

__all__ = ["home"]


class Counter:
    """A part with a state."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state: dict[str, Any] = {"n": 0}

    def get_state(self) -> dict[str, Any]:
        if "broken" in self.state:
            raise OSError("no state")
        return self.state

    def restore_state(self, state: dict[str, Any]) -> None:
        if state["n"] < 0:
            raise ValueError("not mine")
        self.state = state


async def damage(name: str, number: int, body: bytes | None = None) -> None:
    """Change a stored snapshot directly in the store."""
    kind, id = SnapshotCoordinator()._kind(), f"{name}#{number}"
    async with embedded.node().store.begin() as tx:
        stored = msgspec.msgpack.decode((await tx.get(kind, [id]))[id])
        changed = msgspec.msgpack.encode(stored | {"state": {"n": 666}})
        await tx.put([Put(kind=kind, id=id, body=changed if body is None else body)])


def snapshot_of(counts: range, keep: int = 10) -> tuple[SnapshotCoordinator, Counter]:
    """Take one snapshot of a part for each of these counts."""
    snapshots, counter = SnapshotCoordinator(keep=keep), Counter("counter")
    snapshots.register(counter)
    for counter.state["n"] in counts:
        snapshots.snapshot_all()
    return snapshots, counter


def test_states_come_back_after_a_restart() -> None:
    """Each part gets its own last state, also from a node that was opened anew."""
    snapshots = SnapshotCoordinator()
    first, second = Counter("first"), Counter("second")
    assert [snapshots.register(part) for part in (first, second)] == ["first", "second"]
    first.state, second.state = {"n": 1, "names": ["a"]}, {"n": 2}
    result = snapshots.snapshot_all()
    first.state, second.state = {"n": 8}, {"n": 9}
    embedded.shutdown()

    again = SnapshotCoordinator()
    for part in (first, second, Counter("third")):
        again.register(part)
    assert again.restore_all() == {"first": True, "second": True, "third": False}
    assert (first.state, second.state) == ({"n": 1, "names": ["a"]}, {"n": 2})
    assert (result["first"].verify(), result.errors, again.list_snapshots("first")) == (True, {}, [result["first"]])
    assert again.list_snapshots("third") == []


def test_the_newest_snapshots_are_kept() -> None:
    """The oldest goes when there are too many; numbers go on."""
    snapshots, _ = snapshot_of(range(5), keep=3)

    stored = snapshots.list_snapshots("counter")
    assert [(snapshot.number, snapshot.state["n"]) for snapshot in stored] == [(3, 2), (4, 3), (5, 4)]
    assert [snapshot.timestamp for snapshot in stored] == sorted(snapshot.timestamp for snapshot in stored)


@pytest.mark.parametrize("body", [None, b"", b"\x81\xa1x"])
def test_a_damaged_snapshot_is_refused_and_the_one_before_is_used(body: bytes | None) -> None:
    """Whatever the damage, it is never restored, and the errors name it."""
    snapshots, counter = snapshot_of(range(3))
    embedded.call(damage("counter", 3, body))

    result = snapshots.restore_all()
    assert (result, counter.state) == ({"counter": True}, {"n": 1})
    assert isinstance(result.errors["counter"], CorruptSnapshot)
    assert [snapshot.number for snapshot in snapshots.list_snapshots("counter")] == [1, 2]
    assert snapshots.snapshot_all()["counter"].number == 4


def test_without_a_whole_snapshot_nothing_is_restored() -> None:
    """The part keeps its state, and the result does not list it as restored."""
    snapshots, counter = snapshot_of(range(1))
    embedded.call(damage("counter", 1))
    counter.state = {"n": 5}

    assert snapshots.restore_all() == {"counter": False}
    assert counter.state == {"n": 5}


def test_a_failing_part_does_not_affect_the_others() -> None:
    """A part that cannot return or restore its state is in the errors; the others are served."""
    snapshots = SnapshotCoordinator()
    good, mute, odd, picky = (Counter(name) for name in ("good", "mute", "odd", "picky"))
    for part in (good, mute, odd, picky):
        snapshots.register(part)
    mute.state["broken"], odd.state["n"], picky.state["n"] = True, object(), -1
    result = snapshots.snapshot_all()
    back = snapshots.restore_all()

    assert list(result) == ["good", "picky"]
    assert {name: type(error) for name, error in result.errors.items()} == {"mute": OSError, "odd": InvalidPayload}
    assert back == {"good": True, "mute": False, "odd": False, "picky": False}
    assert isinstance(back.errors["picky"], ValueError)
    with pytest.raises(TypeError, match="get_state"):
        snapshots.register(object())  # type: ignore[arg-type]  # that is the point


@async_test
async def test_snapshots_are_taken_periodically() -> None:
    """Started on a loop it takes a snapshot in each cycle; the calls block, so they run in a thread."""
    snapshots, counter = SnapshotCoordinator(interval=0.01), Counter("counter")
    snapshots.register(counter)
    await snapshots.start()
    await wait_until(lambda: snapshots.cycle_count >= 3)
    assert (snapshots.error_count, bool(snapshots.health_check())) == (0, True)
    counter.state = {"broken": True}
    await wait_until(lambda: snapshots.error_count >= 1)
    assert not snapshots.last_error.startswith("InvalidPayload")
    await snapshots.stop()
    counter.state = {"n": 1}
    await asyncio.to_thread(snapshots.snapshot_all)
    counter.state = {"n": 2}

    assert await asyncio.to_thread(snapshots.restore_all) == {"counter": True}
    assert counter.state == {"n": 1}
    assert len(snapshots.list_snapshots("counter")) >= 4


def test_a_snapshot_detects_changes() -> None:
    """Its checksum is that of its name, number, time and state."""
    snapshots, _ = snapshot_of(range(1))
    [result] = snapshots.list_snapshots("counter")

    assert result.verify()
    assert result.snapshot_id == "counter#1"
    assert not StateSnapshot("counter", 1, result.timestamp, {"n": 1}, result.checksum).verify()
