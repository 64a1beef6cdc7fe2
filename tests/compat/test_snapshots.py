"""The documented snapshots: kept and given back, so many and no more, and never a damaged one."""

import asyncio
from typing import Any

import msgspec
import pytest

from compat.ears import Ears, home, on_a_loop
from ringrift.cluster.alerts import Open, apply
from ringrift.kernel.errors import InvalidPayload, UnknownName
from ringrift.store import snapshot
from ringrift.store.ports import Put
from ringrift_compat.ambient import ambient
from ringrift_compat.events import get_router
from ringrift_compat.snapshots import (
    CorruptSnapshot,
    SnapshotCoordinator,
    StatePersistable,
    StateSnapshot,
    get_snapshot_coordinator,
)
from waiting import wait_until

__all__ = ["home"]


class Counter:
    """A part with a state."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state: dict[str, Any] = {"n": 0}

    def get_state(self) -> dict[str, Any]:
        if "broken" in self.state:
            raise OSError("cannot say")
        return self.state

    def restore_state(self, state: dict[str, Any]) -> None:
        if state["n"] < 0:
            raise ValueError("not mine")
        self.state = state


async def damage(name: str, number: int, body: bytes | None = None) -> None:
    """Change what is stored of a snapshot, behind its back."""
    async with ambient.node().store.begin() as tx:
        [found] = (await tx.get(snapshot.KIND, [f"{name}#{number}"])).values()
        kept = msgspec.msgpack.decode(found, type=snapshot.Snapshot)
        other = msgspec.structs.replace(kept, state=msgspec.msgpack.encode({"n": 666}))
        damaged = msgspec.msgpack.encode(other) if body is None else body
        await tx.put([Put(kind=snapshot.KIND, id=f"{name}#{number}", body=damaged, index={"of": name})])


async def raised(trouble: Open) -> None:
    """Write an alert down, as a node does that hears of it."""
    async with ambient.node().store.begin() as tx:
        await apply(tx, [trouble], 1.0)


def taken(counts: range, keep: int = 10) -> tuple[SnapshotCoordinator, Counter]:
    """One part that had each of these counts when it was asked."""
    snapshots, counter = SnapshotCoordinator(keep=keep), Counter("counter")
    snapshots.register(counter)
    for counter.state["n"] in counts:
        snapshots.snapshot_all()
    return snapshots, counter


def test_states_come_back_after_a_restart() -> None:
    """Everybody gets its own last state, also from a node that was opened anew."""
    snapshots = get_snapshot_coordinator()
    first, second = Counter("first"), Counter("second")
    assert isinstance(first, StatePersistable)
    assert [snapshots.register(one) for one in (first, second)] == ["first", "second"]
    first.state, second.state = {"n": 1, "names": ["a"]}, {"n": 2}
    found = snapshots.snapshot_all()
    first.state, second.state = {"n": 8}, {"n": 9}
    ambient.shutdown()

    again = get_snapshot_coordinator()
    assert again is not snapshots
    for one in (first, second, Counter("third")):
        again.register(one)
    assert again.restore_all() == {"first": True, "second": True, "third": False}
    assert (first.state, second.state) == ({"n": 1, "names": ["a"]}, {"n": 2})
    assert (found["first"].verify(), found.errors, again.latest("first")) == (True, {}, found["first"])
    assert again.latest("third") is None


def test_the_last_ones_are_kept() -> None:
    """The oldest goes when there are too many; numbers go on."""
    snapshots, _ = taken(range(5), keep=3)

    kept = snapshots.list_snapshots("counter")
    assert [(one.number, one.state["n"]) for one in kept] == [(3, 2), (4, 3), (5, 4)]
    assert [one.timestamp for one in kept] == sorted(one.timestamp for one in kept)


@pytest.mark.parametrize("body", [None, b"", b"\x81\xa1x"])
def test_a_damaged_one_is_refused_and_the_one_before_is_used(body: bytes | None) -> None:
    """Whatever happened to it: it raises when asked for, it is never given to anybody, and an alert tells of it."""
    snapshots, counter = taken(range(3))
    ears = Ears()
    get_router().subscribe("alert.raised", ears.plain)
    ambient.call(damage("counter", 3, body))

    with pytest.raises(CorruptSnapshot, match="counter#3"):
        snapshots.latest("counter")
    found = snapshots.restore_all()
    assert (found, counter.state) == ({"counter": True}, {"n": 1})
    assert isinstance(found.errors["counter"], CorruptSnapshot)
    assert [one.number for one in snapshots.list_snapshots("counter")] == [1, 2]
    [told] = asyncio.run(ears.until(1))
    assert (told.payload["kind"], told.payload["subject"]) == ("snapshot", "counter")
    assert snapshots.snapshot_all()["counter"].number == 4


@on_a_loop
async def test_the_alert_ends_with_the_next_whole_one() -> None:
    """Once there is a whole snapshot again, what was told of the damaged one is over."""
    snapshots, _ = await asyncio.to_thread(taken, range(2))
    ears, trouble = Ears(), Open(kind="snapshot", subject="counter", level="severe")
    get_router().subscribe("alert.cleared", ears.plain)
    snapshots.snapshot_all()
    await ambient.post(raised(trouble))
    snapshots.snapshot_all()

    [told] = await ears.until(1)
    assert (told.payload["kind"], told.payload["subject"]) == ("snapshot", "counter")


def test_nothing_whole_restores_nothing() -> None:
    """Without a whole snapshot the part keeps what it has, and nobody says that it was restored."""
    snapshots, counter = taken(range(1))
    ambient.call(damage("counter", 1))
    counter.state = {"n": 5}

    assert snapshots.restore_all() == {"counter": False}
    assert (snapshots.restore("counter"), counter.state) == (None, {"n": 5})
    with pytest.raises(UnknownName):
        snapshots.restore("nobody")


def test_who_fails_spoils_nothing() -> None:
    """Whoever cannot say its state, or cannot take it back, stands in the errors; the others are served."""
    snapshots = SnapshotCoordinator()
    good, mute, odd, picky = (Counter(name) for name in ("good", "mute", "odd", "picky"))
    for one in (good, mute, odd, picky):
        snapshots.register(one)
    mute.state["broken"], odd.state["n"], picky.state["n"] = True, object(), -1
    found = snapshots.snapshot_all()
    back = snapshots.restore_all()

    assert list(found) == ["good", "picky"]
    assert {name: type(wrong) for name, wrong in found.errors.items()} == {"mute": OSError, "odd": InvalidPayload}
    assert back == {"good": True, "mute": False, "odd": False, "picky": False}
    assert isinstance(back.errors["picky"], ValueError)
    assert (snapshots.unregister("picky"), snapshots.unregister("picky")) == (True, False)
    with pytest.raises(TypeError, match="get_state"):
        snapshots.register(object())  # type: ignore[arg-type]  # that is the point


@on_a_loop
async def test_it_runs_every_so_often() -> None:
    """Started on a loop it takes a snapshot each time round; both calls may be awaited as well."""
    snapshots, counter = SnapshotCoordinator(interval=0.01), Counter("counter")
    snapshots.register(counter)
    await snapshots.start()
    await wait_until(lambda: snapshots.cycle_count >= 3)
    counter.state = {"broken": True}
    await wait_until(lambda: snapshots.error_count >= 1)
    assert not snapshots.last_error.startswith("InvalidPayload")
    await snapshots.stop()
    counter.state = {"n": 1}
    await snapshots.snapshot_all()
    counter.state = {"n": 2}

    assert await snapshots.restore_all() == {"counter": True}
    assert counter.state == {"n": 1}
    assert len(snapshots.list_snapshots("counter")) >= 4


def test_a_snapshot_knows_whether_it_was_changed() -> None:
    """Its checksum is that of its name, number, time and state."""
    snapshots, _ = taken(range(1))
    found = snapshots.latest("counter")
    assert found is not None

    assert found.verify()
    assert found.snapshot_id == "counter#1"
    assert not StateSnapshot("counter", 1, found.timestamp, {"n": 1}, found.checksum).verify()
