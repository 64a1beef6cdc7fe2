"""The standby: when a holder of the lock counts as hung, what is told about it, and what lies where."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster import alerts
from ringrift.cluster.standby import HolderWatch, _progress_of, _ProgressWatch, end_alerts, require_own_place
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import CopiedStore
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import ClusterSettings, StoreSettings
from ringrift.kernel.value import changed
from ringrift.store.open import find_coordinator, only_coordinator, open_store
from ringrift.store.ports import RoleRow, Store
from ringrift.store.sqlite.files import lock_holder

CLUSTER = ClusterSettings(grace_seconds=60.0, role_seconds=15.0)


class HandClock:
    """A clock whose ticks a test sets."""

    ticks = 0.0

    def now(self) -> float:
        return 1_800_000_000.0 + self.ticks

    def tick(self) -> float:
        return self.ticks


def async_test(story: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run *story* on a loop of its own."""

    @wraps(story)
    def test(**parts: Any) -> None:
        asyncio.run(story(**parts))

    return test


def test_a_holder_that_moved_once_is_hung_after_the_time_of_a_role() -> None:
    """And goes on as soon as it moves; one that never moved has the grace of a start."""
    watch = _ProgressWatch(CLUSTER)
    looks = [(0.0, 5), (10.0, 6), (24.0, 6), (26.0, 6), (27.0, 7), (41.0, 7)]
    never = _ProgressWatch(CLUSTER)

    assert [watch.is_stalled(1, progress, tick) for tick, progress in looks] == [
        False,
        False,
        False,
        True,
        False,
        False,
    ]
    assert [never.is_stalled(1, 5, tick) for tick in (0.0, 59.0, 61.0)] == [False, False, True]


def test_another_process_is_another_holder() -> None:
    """It gets the grace of a start, though the one before it had moved."""
    watch = _ProgressWatch(CLUSTER)
    looks = [(1, 0.0, 5), (1, 1.0, 6), (2, 10.0, 6), (2, 40.0, 6)]

    assert [watch.is_stalled(pid, progress, tick) for pid, tick, progress in looks] == [False] * 4


def test_progress_changes_with_every_renewal_and_term_of_nodes_alone() -> None:
    """A program that renews its own role is no sign of life of the coordinator."""
    row = RoleRow(role="pipeline", holder="a", term=3, renewals=7, seconds=15.0)
    own = RoleRow(role="program.x", holder="p", term=1, renewals=1, seconds=15.0)

    def moved(*rows: RoleRow) -> bool:
        return _progress_of([row, own]) != _progress_of(rows)

    assert moved(changed(row, renewals=8), own)
    assert moved(changed(row, term=4), own)
    assert not moved(row, changed(own, renewals=2))


class World:
    """A store, a clock that is set by hand, and a holder that is there or not."""

    def __init__(self, store: Store) -> None:
        self.store, self.clock, self.lines, self.killed = store, HandClock(), list[str](), list[int]()
        self.holder: tuple[str, int] | None = ("a (process 11)", 11)
        self.envelopes = EnvelopeFactory("a", self.clock, Ids(self.clock, Random(1)))
        self.error: OSError | None = None

    def watch(self, *, kill_hung: bool) -> HolderWatch:
        return HolderWatch(
            self.store,
            (StoreSettings(), CLUSTER),
            self.clock,
            self.envelopes,
            kill_hung=kill_hung,
            report=self.lines.append,
            find=lambda: self.holder,
            kill=self._kill,
        )

    def _kill(self, pid: int) -> None:
        if self.error is not None:
            raise self.error
        self.killed.append(pid)

    async def look(self, watch: HolderWatch, *ticks: float) -> None:
        for self.clock.ticks in ticks:
            await watch.look()

    async def open(self) -> list[str]:
        async with self.store.read() as view:
            return [f"{row.kind} {row.subject}" for row in await alerts.open_alerts(view)]

    async def events(self) -> list[str]:
        async with self.store.read() as view:
            return [row.name for row in await view.read(0, 100)]


def with_world(story: Callable[[World], Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(story)
    def test(tmp_path: Path) -> None:
        async def run() -> None:
            async with open_store(StoreSettings(path=str(tmp_path / "store.db")), SystemClock()) as store:
                await story(World(store))

        asyncio.run(run())

    del test.__wrapped__  # type: ignore[attr-defined] # pytest reads its parameters
    return test


@with_world
async def test_a_hung_holder_is_told_once_and_its_end_too(world: World) -> None:
    """However often it is looked at: one line, one alert, and when it goes on one more line and no alert."""
    watch = world.watch(kill_hung=False)
    await world.look(watch, 0.0, 61.0, 62.0, 70.0)
    assert await world.open() == ["coordinator_hung a (process 11)"]
    assert len(world.lines) == 1
    assert "end process 11, or use --kill-hung" in world.lines[0]
    async with world.store.begin() as tx:
        await tx.hold_role("pipeline", "a", 15.0, None)
    await world.look(watch, 71.0)

    assert await world.open() == []
    assert world.lines[1:] == ["the coordinator works again: a (process 11)"]
    assert await world.events() == ["alert.raised", "alert.cleared"]
    assert world.killed == []


@with_world
async def test_a_holder_that_is_killed_is_left_to_the_next_coordinator_to_tell(world: World) -> None:
    """The standby writes nothing before it has the lock: neither the alert nor its end."""
    watch = world.watch(kill_hung=True)
    await world.look(watch, 0.0, 61.0)
    assert (world.killed, await world.events()) == ([11], [])

    await end_alerts(world.store, watch.killed, world.envelopes)

    assert await world.events() == ["alert.raised", "alert.cleared"]


@with_world
async def test_if_another_standby_was_faster_the_kill_is_still_told(world: World) -> None:
    """By the standby that killed, once the new holder works; and it would kill that one too."""
    watch = world.watch(kill_hung=True)
    await world.look(watch, 0.0, 61.0)
    world.holder = ("a (process 12)", 12)
    await world.look(watch, 62.0)
    assert await world.events() == ["alert.raised", "alert.cleared"]
    assert watch.killed == []

    await world.look(watch, 130.0)

    assert world.killed == [11, 12]


@with_world
async def test_a_holder_that_cannot_be_killed_is_an_alert(world: World) -> None:
    """With the reason; as for one that may not be killed."""
    world.error = PermissionError(1, "Operation not permitted")
    await world.look(world.watch(kill_hung=True), 0.0, 61.0)

    assert await world.open() == ["coordinator_hung a (process 11)"]
    assert "cannot kill process 11: Operation not permitted: end it yourself" in world.lines


@with_world
async def test_the_next_coordinator_ends_the_alerts_about_those_before_it(world: World) -> None:
    """Whoever ended them: it has their lock."""
    await world.look(world.watch(kill_hung=False), 0.0, 61.0)
    await end_alerts(world.store, (), world.envelopes)

    assert await world.events() == ["alert.raised", "alert.cleared"]


@async_test
async def test_a_store_that_was_copied_is_refused_until_it_is_adopted(tmp_path: Path) -> None:
    """One that was renamed is not; the first one stays valid."""
    first, second = (StoreSettings(path=str(tmp_path / name / "store.db")) for name in ("first", "second"))
    async with open_store(first, SystemClock()) as store:
        await require_own_place(store, first)
    (tmp_path / "first").rename(tmp_path / "renamed")
    first = StoreSettings(path=str(tmp_path / "renamed" / "store.db"))
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "store.db").write_bytes((tmp_path / "renamed" / "store.db").read_bytes())
    async with open_store(second, SystemClock()) as store:
        with pytest.raises(CopiedStore, match="ringrift coordinator --adopt"):
            await require_own_place(store, second)
        await require_own_place(store, second, adopt=True)
        await require_own_place(store, second)
    async with open_store(first, SystemClock()) as store:
        await require_own_place(store, first)


def test_the_holder_of_a_lock_is_the_process_that_has_it(tmp_path: Path) -> None:
    """None if it is free, also while its file says who had it last."""
    settings = StoreSettings(path=str(tmp_path / "store.db"))
    assert find_coordinator(settings) is None
    program = "import sys; from ringrift.store.sqlite.files import only_one; from pathlib import Path\n"
    program += "with only_one(Path(sys.argv[1]), 'b'): print('held', flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", program, str(tmp_path / "coordinator.lock")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert find_coordinator(settings) == (f"b (process {process.pid})", process.pid)
    assert find_coordinator(settings) is None
    with only_coordinator(settings, "c"):
        assert find_coordinator(settings) == (f"c (process {os.getpid()})", os.getpid())


def test_a_lock_of_another_file_with_the_same_number_is_not_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another disk a file may have the same number: its holder must not be killed."""
    lock = tmp_path / "lock"
    lock.write_text("b (process 1)")
    text = f"1: FLOCK  ADVISORY  WRITE {os.getpid()} 08:99:{lock.stat().st_ino} 0 EOF\n"
    read = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda self: text if str(self) == "/proc/locks" else read(self))

    assert lock_holder(lock) is None
    with lock.open():
        assert lock_holder(lock) == ("b (process 1)", os.getpid())
