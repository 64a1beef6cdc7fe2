"""Admission on a real store: however many race for places, no limit is passed, and who dies gives its place back."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from contract.engines import HandClock, run
from ringrift.kernel.errors import IdConflict, LimitReached, TooLarge, UnknownName
from ringrift.kernel.settings import StoreSettings
from ringrift.pipeline.records import verdicts_of
from ringrift.store.open import open_store
from ringrift.store.ports import Store
from ringrift.work import admission, processes
from ringrift.work.admission import ENDED_MAX, Admission, book_of, ended, running, spawns_of
from ringrift.work.tasks import METADATA_BYTES_MAX, Limit, Moment, Task, TaskLimits

HOST = processes.this_host()
FAST = TaskLimits(
    spawns_per_minute_max=1000, selfplay_spawns_per_minute_max=1000, burst_max=1000, selfplay_burst_max=1000
)
RACERS, TRIES = 4, 8


def task(id: str, type: str = "training", **changes: Any) -> Task:
    """A task on node n that nobody can look at."""
    return Task(**{"id": id, "type": type, "node": "n", "beaten": Moment(host=HOST, tick=0.0)} | changes)


def story(path: Path, tell: Callable[[Admission, Store, HandClock], Awaitable[None]]) -> None:
    """Run *tell* with an admission on a store in *path* and a clock that stands still."""

    async def opened() -> None:
        clock = HandClock()
        async with open_store(StoreSettings(path=str(path / "store.db")), clock) as store:
            await tell(Admission(store, clock, HOST), store, clock)

    run(opened())


async def names(store: Store) -> list[str]:
    """The ids of all tasks that run."""
    async with store.read() as view:
        return [one.id for one in await running(view)]


def test_check_and_take_are_one_step(tmp_path: Path) -> None:
    """Two who were both told yes do not both get the one place there is: the second is refused, and one task runs."""

    async def tell(tasks: Admission, store: Store, clock: HandClock) -> None:
        assert (await tasks.check(task("a"))).allowed
        assert (await tasks.check(task("b"))).allowed
        await tasks.admit(task("a"))
        with pytest.raises(LimitReached, match="training on node n: 1 of 1") as refused:
            await tasks.admit(task("b"))

        assert (refused.value.value, refused.value.limit) == (1, 1)
        assert await names(store) == ["a"]

    story(tmp_path, tell)


def test_who_is_refused_uses_up_nothing(tmp_path: Path) -> None:
    """A hundred refusals and a hundred checks count for no rate: the next place goes to the first who asks."""

    async def tell(tasks: Admission, store: Store, clock: HandClock) -> None:
        await tasks.admit(task("a"))
        for number in range(100):
            assert not (await tasks.check(task(f"b{number}"))).allowed
            with pytest.raises(LimitReached):
                await tasks.admit(task(f"b{number}"))

        async with store.read() as view:
            assert len(await spawns_of(view, tasks.here)) == 1
            assert (await book_of(view)).refused == 100
        assert (await tasks.admit(task("s", "sync"))).state == "running"

    story(tmp_path, tell)


def test_a_refusal_is_kept_until_there_is_a_place(tmp_path: Path) -> None:
    """What ``ringrift why`` reads says rule, value, limit and since when; it goes when the wait is over."""

    async def tell(tasks: Admission, store: Store, clock: HandClock) -> None:
        await tasks.admit(task("a"))
        for _ in range(2):
            with pytest.raises(LimitReached):
                await tasks.admit(task("b", variant="hex8_2p"))
            clock.seconds += 5.0

        async with store.read() as view:
            [verdict] = await verdicts_of(view, "hex8_2p")
        assert (verdict.gate, verdict.allowed, verdict.value, verdict.limit) == ("task.training", False, 1, 1)
        assert verdict.since == clock.now() - 10.0
        await tasks.finish("a", "completed")
        await tasks.admit(task("b", variant="hex8_2p"))
        async with store.read() as view:
            assert await verdicts_of(view, "hex8_2p") == []

    story(tmp_path, tell)


def test_rates_end_with_time(tmp_path: Path) -> None:
    """Five at once is all that selfplay may start; a second later there is room again, also for another program."""

    async def tell(tasks: Admission, store: Store, clock: HandClock) -> None:
        for number in range(5):
            await tasks.admit(task(f"a{number}", "selfplay"))
        other = Admission(store, clock, HOST)
        with pytest.raises(LimitReached, match="starts of selfplay"):
            await other.admit(task("b", "selfplay"))

        clock.seconds += 1.0
        assert (await other.admit(task("b", "selfplay"))).serial == 6

    story(tmp_path, tell)


def test_a_dead_process_gives_its_place_back(tmp_path: Path) -> None:
    """The next who asks gets it in the same step, and the task that nobody does is orphaned."""

    child = subprocess.Popen(["sleep", "60"])

    async def tell(tasks: Admission, store: Store, clock: HandClock) -> None:
        await tasks.admit(task("a", pid=child.pid, process=processes.find(child.pid)))
        clock.seconds += 1e6
        with pytest.raises(LimitReached):
            await tasks.admit(task("b"))
        child.kill()
        child.wait()

        assert (await tasks.check(task("b"))).allowed
        await tasks.admit(task("b"))
        over = await tasks.find("a")
        assert over is not None
        assert (over.state, over.reason) == ("orphaned", f"its process {child.pid} is gone")
        assert await names(store) == ["b"]

    story(tmp_path, tell)


def test_who_is_silent_too_long_is_swept(tmp_path: Path) -> None:
    """Where nobody can look at the process, beats keep a task; without them it goes, and cannot end a later one."""

    async def tell(tasks: Admission, store: Store, clock: HandClock) -> None:
        first = await tasks.admit(task("a"))
        clock.seconds += 299.0
        assert await tasks.beat(["a"], {"epoch": 1}) == ["a"]
        clock.seconds += 299.0
        assert await tasks.sweep() == []
        clock.seconds += 1.0
        assert [one.id for one in await tasks.sweep()] == ["a"]

        again = await tasks.admit(task("a"))
        assert await tasks.finish("a", "completed", serials={"a": first.serial}) is None
        assert await tasks.beat(["a"], serials={"a": first.serial}) == []
        over = await tasks.finish("a", "failed", "it broke", metadata={"loss": 1.0}, serials={"a": again.serial})
        assert over is not None
        assert (over.reason, over.metadata) == ("it broke", {"loss": 1.0})
        assert await tasks.finish("a", "completed") is None
        big = {"what": "x" * (METADATA_BYTES_MAX // 2)}
        await tasks.admit(task("b", metadata=big))
        with pytest.raises(TooLarge):
            await tasks.beat(["b"], {"more": big})
        last = await tasks.finish("b", "failed", metadata={"more": big})
        assert last is not None
        assert last.metadata == {"more": big}
        async with store.read() as view:
            assert (await book_of(view)).ends == {"orphaned": 1, "failed": 2}

    story(tmp_path, tell)


def test_beats_of_another_host_are_watched(tmp_path: Path) -> None:
    """Its ticks mean nothing here: only an observer who saw them stand still for their time may take its place."""

    async def tell(tasks: Admission, store: Store, clock: HandClock) -> None:
        await Admission(store, clock, "elsewhere").admit(task("a", beaten=Moment(host="elsewhere", tick=0.0)))
        clock.seconds += 1000.0
        assert await tasks.sweep() == []
        clock.seconds += 299.0
        await Admission(store, clock, "elsewhere").beat(["a"])
        assert await tasks.sweep() == []
        clock.seconds += 299.0
        assert await tasks.sweep() == []
        clock.seconds += 1.0

        assert [one.id for one in await tasks.sweep()] == ["a"]

    story(tmp_path, tell)


def test_an_id_is_one_task_at_a_time(tmp_path: Path) -> None:
    """While it runs no other one may have its id; an end has a known word; limits and state are everybody's."""

    async def tell(tasks: Admission, store: Store, clock: HandClock) -> None:
        await tasks.admit(task("a", "sync"))
        with pytest.raises(IdConflict):
            await tasks.admit(task("a", "sync"))
        with pytest.raises(UnknownName):
            await tasks.finish("a", "exploded")
        with pytest.raises(UnknownName):
            await tasks.be("asleep")
        await tasks.be("paused", "a test")

        other = Admission(store, clock, HOST)
        assert "paused: a test" in (await other.check(task("b", "sync"))).rule
        await other.be("running")
        table = TaskLimits().table | {"sync": Limit(node_max=1, cluster_max=1)}
        await other.limit(TaskLimits(table=table))
        with pytest.raises(LimitReached):
            await tasks.admit(task("b", "sync"))

    story(tmp_path, tell)


def test_what_ended_is_remembered_up_to_a_limit(tmp_path: Path) -> None:
    """The last thousand are there, the newest among them; those before are only counted."""

    async def tell(tasks: Admission, store: Store, clock: HandClock) -> None:
        async with store.begin() as tx:
            for number in range(ENDED_MAX + 5):
                one = task(f"t{number}", "sync", serial=number)
                await admission.end(tx, one, "completed", "", float(number))

        async with store.read() as view:
            last = await ended(view)
            assert (await book_of(view)).ended == ENDED_MAX + 5
        assert [one.id for one in (last[0], last[-1])] == ["t5", f"t{ENDED_MAX + 4}"]
        assert len(last) == ENDED_MAX
        assert await tasks.find("t4") is None
        assert await tasks.find("t5") is not None

    story(tmp_path, tell)


def test_who_waits_gets_the_next_place(tmp_path: Path) -> None:
    """It is taken as soon as it is free, and refused when there was none in time."""

    async def tell(tasks: Admission, store: Store, clock: HandClock) -> None:
        await tasks.admit(task("a"))
        waiting = asyncio.ensure_future(tasks.wait_admit(task("b"), 60.0))
        with pytest.raises(LimitReached):
            await tasks.wait_admit(task("c"), 0.0)
        await tasks.finish("a", "completed")

        assert (await waiting).id == "b"

    story(tmp_path, tell)


def test_many_at_once_never_pass_a_limit(tmp_path: Path) -> None:
    """A hundred who race in one program for thirty-two places get exactly these, whatever they were told before."""

    async def tell(tasks: Admission, store: Store, clock: HandClock) -> None:
        await tasks.limit(FAST)

        async def race(number: int) -> bool:
            assert (await tasks.check(task(f"t{number}", "selfplay"))).allowed or number > 31
            try:
                await tasks.admit(task(f"t{number}", "selfplay"))
            except LimitReached:
                return False
            return True

        won = await asyncio.gather(*(race(number) for number in range(100)))
        assert sum(won) == len(await names(store)) == 32

    story(tmp_path, tell)


RACER = """
import os, sys, threading
from ringrift_compat.ambient import ambient
from ringrift_compat.tasks import TaskCoordinator
from ringrift.kernel.errors import LimitReached
racer, tries = sys.argv[1], int(sys.argv[2])
coordinator, won = TaskCoordinator.get_instance(), []
coordinator.get_stats()
print("ready", flush=True)
sys.stdin.readline()
def race(thread):
    for number in range(tries):
        for type in ("training", "selfplay"):
            try:
                won.append(coordinator.register_task(f"{type}-{racer}-{thread}-{number}", type, "n", os.getpid()))
            except LimitReached:
                pass
threads = [threading.Thread(target=race, args=(number,)) for number in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(*won, flush=True)
sys.stdin.readline()
"""


def test_processes_and_threads_that_race_never_pass_a_limit(tmp_path: Path) -> None:
    """Four programs with four threads each get one training and thirty-two selfplays between them, and give them back.

    The places of those that are killed are free for the next who asks.
    """

    async def tell(tasks: Admission, store: Store, clock: HandClock) -> None:
        await tasks.limit(FAST)

    (tmp_path / "coordination").mkdir()
    story(tmp_path / "coordination", tell)
    (tmp_path / "coordination" / "store.db").rename(tmp_path / "coordination" / "coordinator.db")
    environ = os.environ | {"RINGRIFT_HOME": str(tmp_path)}
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(number), str(TRIES)], env=environ, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        for number in range(RACERS)
    ]  # fmt: skip
    try:
        said = [_line(racer) for racer in racers]
        assert said == ["ready"] * RACERS
        for racer in racers:
            _go(racer)
        won = [id for racer in racers for id in _line(racer).split()]

        assert sorted(id.partition("-")[0] for id in won) == ["selfplay"] * 32 + ["training"]
        assert len(set(won)) == 33
    finally:
        for racer in racers:
            with racer:
                racer.kill()

    async def after() -> None:
        path = tmp_path / "coordination" / "coordinator.db"
        clock = HandClock()
        async with open_store(StoreSettings(path=str(path)), clock) as store:
            assert len(await names(store)) == 33
            await Admission(store, clock, HOST).admit(task("next"))
            assert await names(store) == ["next"]

    run(after())


def _line(racer: "subprocess.Popen[str]") -> str:
    assert racer.stdout is not None
    return racer.stdout.readline().strip()


def _go(racer: "subprocess.Popen[str]") -> None:
    assert racer.stdin is not None
    racer.stdin.write("\n")
    racer.stdin.flush()
