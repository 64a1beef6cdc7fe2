"""Locks: one holder at a time with a growing fence, whether the rows are in the store, in files or in a Redis."""

import asyncio
import shutil
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from contract.engines import Engine, ManualClock, run, settle
from ringrift.environment import read_settings
from ringrift.kernel.errors import Busy, InvalidId, SettingsError
from ringrift.kernel.settings import ClusterSettings
from ringrift_compat.cluster.locks import Lock, LockEngine, _FileLocks, _RedisLocks, _StoreLocks, open_locks
from wait import until

SECONDS = 30.0
CONTENDERS, ROUNDS = 8, 5
Story = Callable[["Rig"], Awaitable[None]]


class Rig:
    """The engine of a test, opened as often as there are processes that use it, and a clock that the test moves."""

    def __init__(self, opens: Callable[[AsyncExitStack], Awaitable[LockEngine]]) -> None:
        self._opens, self._stack = opens, AsyncExitStack()
        self.clock = ManualClock()
        self.dead: set[str] = set()

    async def engine(self) -> LockEngine:
        """The engine as another process opens it."""
        engine = await self._opens(self._stack)
        self._stack.push_async_callback(engine.close)
        return engine

    async def lock(self, owner: str, name: str = "training") -> Lock:
        """The lock *name* as *owner* would take it."""
        return Lock(await self.engine(), name, owner, self.clock, seconds=SECONDS, has_died=self.dead.__contains__)

    def play(self, story: Story) -> None:
        """Run *story*."""

        async def play() -> None:
            async with self._stack:
                await story(self)

        run(play())


@pytest.fixture
def in_store(tmp_path: Path) -> Rig:
    """Rows in a store, one object for all holders, as in one process."""
    engine, opened = Engine(tmp_path / "home" / "store.db"), list[LockEngine]()

    async def opens(stack: AsyncExitStack) -> LockEngine:
        if not opened:
            opened.append(_StoreLocks(await stack.enter_async_context(engine.open())))
        return opened[0]

    return Rig(opens)


@pytest.fixture
def in_files(tmp_path: Path) -> Rig:
    """Rows in a folder."""

    async def opens(stack: AsyncExitStack) -> LockEngine:
        return _FileLocks(tmp_path / "locks")

    return Rig(opens)


def listens(path: Path) -> bool:
    """Whether a server accepts connections at this socket: its file is there a moment earlier."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    """A real Redis of this test's own, on a socket in its folder."""
    server = shutil.which("redis-server")
    if server is None:
        pytest.skip("no redis-server: install Debian's package redis-server to test the locks in a Redis")
    path = tmp_path / "redis.sock"
    line = [server, "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(tmp_path)]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    try:
        until(lambda: listens(path), 20.0)
        yield f"unix://{path}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def in_redis(redis_url: str) -> Rig:
    """Rows in a Redis, with a connection for each holder."""

    async def opens(stack: AsyncExitStack) -> LockEngine:
        return _RedisLocks(redis_url)

    return Rig(opens)


@pytest.fixture(params=["in_store", "in_files", "in_redis"])
def rig(request: pytest.FixtureRequest) -> Rig:
    """Every engine in turn."""
    rig: Rig = request.getfixturevalue(request.param)
    return rig


def test_a_lock_has_one_holder_at_a_time(rig: Rig) -> None:
    """A second one does not get it and learns who has it; after the release it does, with a higher fence."""

    async def story(rig: Rig) -> None:
        first, second = await rig.lock("a"), await rig.lock("b")
        assert await first.take()
        assert not await second.take()
        assert (second.holder, second.is_held, second.fence) == ("a", False, 0)
        fence = first.fence
        assert await first.release()
        assert not first.is_held
        assert await second.take()
        assert second.fence > fence > 0

    rig.play(story)


def test_locks_of_other_names_are_independent(rig: Rig) -> None:
    """Whoever holds one hinders no holder of another."""

    async def story(rig: Rig) -> None:
        assert await (await rig.lock("a")).take()
        assert await (await rig.lock("b", "training.hex8_2p")).take()

    rig.play(story)


def test_many_at_once_get_it_one_after_the_other(rig: Rig) -> None:
    """Of several that try at the same moment exactly one gets it, with a fence that no other had."""

    async def story(rig: Rig) -> None:
        locks = [await rig.lock(f"owner{number}") for number in range(CONTENDERS)]
        fences = []
        for _ in range(ROUNDS):
            taken = await asyncio.gather(*(lock.take() for lock in locks))
            [winner] = [lock for lock, is_ours in zip(locks, taken, strict=True) if is_ours]
            fences.append(winner.fence)
            assert await winner.release()
        assert fences == sorted(set(fences))

    rig.play(story)


def test_a_lock_that_is_renewed_is_never_taken_over(rig: Rig) -> None:
    """However long its holder has it."""

    async def story(rig: Rig) -> None:
        holder, other = await rig.lock("a"), await rig.lock("b")
        assert await holder.take()
        for _ in range(5):
            assert not await other.take()
            rig.clock.seconds += SECONDS / 2
            assert await holder.renew()
            assert holder.is_held

    rig.play(story)


def test_a_silent_holder_loses_it_to_one_that_has_watched_for_its_full_time(rig: Rig) -> None:
    """Not earlier, and the old holder stops relying on it before; its renewal and its release change nothing."""

    async def story(rig: Rig) -> None:
        holder, other = await rig.lock("a"), await rig.lock("b")
        assert await holder.take()
        rig.clock.seconds += SECONDS  # nobody has watched in this time
        assert not holder.is_held
        assert not await other.take()
        rig.clock.seconds += SECONDS - 1
        assert not await other.take()
        rig.clock.seconds += 1
        assert await other.take()
        assert other.fence > 1
        assert not await holder.renew()
        assert not await holder.release()
        assert await other.renew()

    rig.play(story)


def test_the_lock_of_a_dead_owner_is_free_at_once(rig: Rig) -> None:
    """If its process has certainly ended, no time has to pass."""

    async def story(rig: Rig) -> None:
        holder, other = await rig.lock("a"), await rig.lock("b")
        assert await holder.take()
        assert not await other.take()
        rig.dead.add("a")
        assert await other.take()
        assert other.fence > holder.fence

    rig.play(story)


def test_a_holder_that_asks_again_has_it_still(rig: Rig) -> None:
    """An owner whose answer was lost gets the lock, with a new fence."""

    async def story(rig: Rig) -> None:
        lost, again = await rig.lock("a"), await rig.lock("a")
        assert await lost.take()
        assert await again.take()
        assert again.fence > lost.fence

    rig.play(story)


def test_the_fence_grows_over_restarts(rig: Rig) -> None:
    """A fence that was given out once is never given out again, whoever opens the engine anew."""

    async def story(rig: Rig) -> None:
        fences = []
        for number in range(3):
            lock = await rig.lock(f"owner{number}")
            assert await lock.take()
            fences.append(lock.fence)
            assert await lock.release()
        assert fences == [1, 2, 3]

    rig.play(story)


def test_waiting_ends_with_the_lock_or_its_time(rig: Rig) -> None:
    """One that waits gets the lock when it is released, and gives up after its seconds."""

    async def story(rig: Rig) -> None:
        holder, other = await rig.lock("a"), await rig.lock("b")
        assert await holder.take()
        assert not await other.take_within(0.0)
        waiting = asyncio.create_task(other.take_within(SECONDS))
        await settle()
        assert await holder.release()
        assert await waiting

    rig.play(story)


def test_a_bad_name_is_refused(rig: Rig) -> None:
    """A name that could leave its folder is none."""

    async def story(rig: Rig) -> None:
        with pytest.raises(InvalidId):
            await rig.lock("a", "../../etc/passwd")

    rig.play(story)


def test_files_that_cannot_be_written_are_a_typed_error(tmp_path: Path) -> None:
    """The error names the folder, and nothing was taken."""
    place = tmp_path / "file"
    place.write_text("no folder")

    with pytest.raises(Busy, match=str(place)):
        run(_FileLocks(place).update("training", lambda row: row))


def test_a_redis_that_is_away_is_a_typed_error_without_its_password(tmp_path: Path) -> None:
    """The error names host and port only."""

    async def story() -> None:
        engine = _RedisLocks("redis://:secret@127.0.0.1:1/0")
        with pytest.raises(Busy) as error:
            await engine.update("training", lambda row: row)
        assert "127.0.0.1:1" in str(error.value)
        assert "secret" not in str(error.value)
        await engine.close()

    run(story())


def test_the_setting_chooses_the_engine(tmp_path: Path) -> None:
    """The store, files or a Redis by its URL; anything else is refused where settings are read."""
    store: object = None
    kinds = [type(open_locks(kind, store, tmp_path)) for kind in ("store", "file", "redis://h")]  # type: ignore[arg-type]  # only passed on

    assert kinds == [_StoreLocks, _FileLocks, _RedisLocks]
    with pytest.raises(SettingsError, match=r"cluster\.locks"):
        ClusterSettings(locks="zookeeper")


def test_the_password_of_a_redis_is_in_no_list_of_settings(tmp_path: Path) -> None:
    """Settings are stored with a run and printed: the address is there, its password is not."""
    url = "redis://me:s3cret:s3cret@cache.example:6379/0"
    read = read_settings({}, overrides={"cluster.locks": url}, home=str(tmp_path))

    assert read.settings.cluster.locks == url
    assert read.in_force()["cluster.locks"].value == "redis://me:(not shown)@cache.example:6379/0"
    assert "s3cret" not in str(read.in_force())


CRITICAL = """
import asyncio, sys
from pathlib import Path
from ringrift_compat.cluster.locks import _FileLocks, Lock, _RedisLocks
from ringrift.kernel.clock import SystemClock

async def main(kind, place, counter, name):
    engine = _FileLocks(Path(place)) if kind == "in_files" else _RedisLocks(place)
    for number in range(20):
        lock = Lock(engine, "counter", f"{name}.{number}", SystemClock())
        assert await lock.take_within(60)
        value = int(Path(counter).read_text())
        await asyncio.sleep(0.001)
        Path(counter).write_text(str(value + 1))
        assert await lock.release()
    await engine.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("kind", ["in_files", "in_redis"])
def test_processes_exclude_each_other(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Three processes count together under the lock, and no count is lost."""
    place = str(tmp_path / "locks") if kind == "in_files" else request.getfixturevalue("redis_url")
    counter = tmp_path / "counter"
    counter.write_text("0")
    line = [sys.executable, "-c", CRITICAL, kind, place, str(counter)]

    processes = [subprocess.Popen([*line, f"owner{number}"]) for number in range(3)]

    assert [process.wait(120) for process in processes] == [0, 0, 0]
    assert counter.read_text() == "60"
