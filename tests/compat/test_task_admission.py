"""Admission on a real store: however many race for slots, no limit is passed, and a dead process frees its slot."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from contract.engines import ManualClock, run
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.work import TaskChanged
from ringrift.kernel.errors import IdConflict, LimitReached, TooLarge, UnknownName
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import StoreSettings
from ringrift.store.open import open_store
from ringrift.store.ports import TASKS_RETAINED, Store
from ringrift.work import processes
from ringrift.work.limits import VERDICTS
from ringrift.work.tasks import HostTick, Limit, Task, end_tasks, running_tasks
from ringrift_compat.tasks.task_admission import Admission, _recent_starts, last_tasks, load_totals
from ringrift_compat.tasks.task_limits import _METADATA_BYTES_MAX, TaskLimits

HOST = processes.this_host()
FAST = TaskLimits(
    spawns_per_minute_max=1000, selfplay_spawns_per_minute_max=1000, burst_max=1000, selfplay_burst_max=1000
)
RACERS, TRIES = 4, 16
SEEDS = count(1)


def task(id: str, type: str = "training", **changes: Any) -> Task:
    """A task on node n whose process cannot be inspected."""
    return Task(**{"id": id, "type": type, "node": "n", "beat_at": HostTick(host=HOST, tick=0.0)} | changes)


def admission(store: Store, clock: ManualClock, host: str = HOST) -> Admission:
    """The admission of a program on *host*."""
    return Admission(store, clock, host, EnvelopeFactory("n", clock, Ids(clock, Random(next(SEEDS)))))


def run_scenario(path: Path, scenario: Callable[[Admission, Store, ManualClock], Awaitable[None]]) -> None:
    """Run *scenario* with an admission on a store in *path* and a clock that stands still."""

    async def opened() -> None:
        clock = ManualClock()
        async with open_store(StoreSettings(path=str(path / "store.db")), clock) as store:
            await scenario(admission(store, clock), store, clock)

    run(opened())


async def names(store: Store) -> list[str]:
    """The ids of all running tasks."""
    async with store.read() as view:
        return [task.id for task in await running_tasks(view)]


async def ended_as(store: Store, id: str) -> list[Task]:
    """The ended tasks that had this id."""
    async with store.read() as view:
        return [task for task in await last_tasks(view) if task.id == id and task.ended is not None]


def test_check_and_start_are_one_step(tmp_path: Path) -> None:
    """Two tasks that a check allowed cannot both get the only slot: the second is refused, and one task runs."""

    async def scenario(tasks: Admission, store: Store, clock: ManualClock) -> None:
        assert (await tasks.check(task("a"))).allowed
        assert (await tasks.check(task("b"))).allowed
        await tasks.admit(task("a"))
        with pytest.raises(LimitReached, match="training on node n: 1 of 1") as refused:
            await tasks.admit(task("b"))

        assert (refused.value.value, refused.value.limit) == (1, 1)
        assert await names(store) == ["a"]

    run_scenario(tmp_path, scenario)


def test_a_refusal_uses_up_nothing(tmp_path: Path) -> None:
    """A hundred refusals and a hundred checks count for no rate: the next slot goes to the first request."""

    async def scenario(tasks: Admission, store: Store, clock: ManualClock) -> None:
        await tasks.admit(task("a"))
        for number in range(100):
            assert not (await tasks.check(task(f"b{number}"))).allowed
            with pytest.raises(LimitReached):
                await tasks.admit(task(f"b{number}"))

        async with store.read() as view:
            assert len(await _recent_starts(view, tasks.here)) == 1
            assert (await load_totals(view)).refused == 100
        assert (await tasks.admit(task("s", "sync"))).state == "running"

    run_scenario(tmp_path, scenario)


def test_a_refusal_is_recorded_until_there_is_a_slot(tmp_path: Path) -> None:
    """The refusal shown by ``ringrift why`` has rule, value, limit and since when; it goes when the wait is over."""

    async def scenario(tasks: Admission, store: Store, clock: ManualClock) -> None:
        await tasks.admit(task("a"))
        for _ in range(2):
            with pytest.raises(LimitReached):
                await tasks.admit(task("b", variant="hex8_2p"))
            clock.seconds += 5.0

        async with store.read() as view:
            [verdict] = await VERDICTS.all(view, "variant", "hex8_2p")
        assert (verdict.gate, verdict.allowed, verdict.value, verdict.limit) == ("task.training", False, 1, 1)
        assert verdict.since == clock.now() - 10.0
        await tasks.finish("a", "completed")
        await tasks.admit(task("b", variant="hex8_2p"))
        async with store.read() as view:
            assert await VERDICTS.all(view, "variant", "hex8_2p") == []

    run_scenario(tmp_path, scenario)


def test_rates_end_with_time(tmp_path: Path) -> None:
    """Selfplay may start five tasks at once; a second later there is room again, also for another program."""

    async def scenario(tasks: Admission, store: Store, clock: ManualClock) -> None:
        for number in range(5):
            await tasks.admit(task(f"a{number}", "selfplay"))
        other = admission(store, clock)
        with pytest.raises(LimitReached, match="starts of selfplay"):
            await other.admit(task("b", "selfplay"))

        clock.seconds += 1.0
        assert (await other.admit(task("b", "selfplay"))).fence == 6

    run_scenario(tmp_path, scenario)


def test_a_dead_process_frees_its_slot(tmp_path: Path) -> None:
    """The next request gets the slot in the same step, and the task of the dead process is orphaned."""

    child = subprocess.Popen(["sleep", "60"])

    async def scenario(tasks: Admission, store: Store, clock: ManualClock) -> None:
        await tasks.admit(task("a", pid=child.pid, process=processes.find(child.pid)))
        clock.seconds += 1e6
        with pytest.raises(LimitReached):
            await tasks.admit(task("b"))
        child.kill()
        child.wait()

        assert (await tasks.check(task("b"))).allowed
        await tasks.admit(task("b"))
        [over] = await ended_as(store, "a")
        assert (over.state, over.reason) == ("orphaned", f"its process {child.pid} is gone")
        assert await names(store) == ["b"]

    run_scenario(tmp_path, scenario)


def test_a_task_without_beats_is_swept(tmp_path: Path) -> None:
    """If its process cannot be inspected, beats keep a task; without them it is swept, and cannot end a later one."""

    async def scenario(tasks: Admission, store: Store, clock: ManualClock) -> None:
        first = await tasks.admit(task("a"))
        clock.seconds += 299.0
        assert await tasks.beat(["a"], {"epoch": 1}) == ["a"]
        clock.seconds += 299.0
        assert await tasks.sweep() == []
        clock.seconds += 1.0
        assert [orphan.id for orphan in await tasks.sweep()] == ["a"]

        again = await tasks.admit(task("a"))
        assert await tasks.finish("a", "completed", fences={"a": first.fence}) is None
        assert await tasks.beat(["a"], fences={"a": first.fence}) == []
        over = await tasks.finish("a", "failed", "it broke", metadata={"loss": 1.0}, fences={"a": again.fence})
        assert over is not None
        assert (over.reason, over.metadata) == ("it broke", {"loss": 1.0})
        assert await tasks.finish("a", "completed") is None
        big = {"what": "x" * (_METADATA_BYTES_MAX // 2)}
        await tasks.admit(task("b", metadata=big))
        with pytest.raises(TooLarge):
            await tasks.beat(["b"], {"more": big})
        last = await tasks.finish("b", "failed", metadata={"more": big})
        assert last is not None
        assert last.metadata == {"more": big}
        async with store.read() as view:
            assert (await load_totals(view)).ends == {"orphaned": 1, "failed": 2}

    run_scenario(tmp_path, scenario)


def test_beats_of_another_host_are_observed(tmp_path: Path) -> None:
    """Its ticks mean nothing here: only an observer that saw them unchanged for their time may take its slot."""

    async def scenario(tasks: Admission, store: Store, clock: ManualClock) -> None:
        await admission(store, clock, "elsewhere").admit(task("a", beat_at=HostTick(host="elsewhere", tick=0.0)))
        clock.seconds += 1000.0
        assert await tasks.sweep() == []
        clock.seconds += 299.0
        await admission(store, clock, "elsewhere").beat(["a"])
        assert await tasks.sweep() == []
        clock.seconds += 299.0
        assert await tasks.sweep() == []
        clock.seconds += 1.0

        assert [orphan.id for orphan in await tasks.sweep()] == ["a"]

    run_scenario(tmp_path, scenario)


def test_an_id_is_one_task_at_a_time(tmp_path: Path) -> None:
    """While it runs no other task may have its id; an end has a defined word; limits and state are shared."""

    async def scenario(tasks: Admission, store: Store, clock: ManualClock) -> None:
        await tasks.admit(task("a", "sync"))
        with pytest.raises(IdConflict):
            await tasks.admit(task("a", "sync"))
        with pytest.raises(UnknownName):
            await tasks.finish("a", "exploded")
        with pytest.raises(UnknownName):
            await tasks.set_state("asleep")
        await tasks.set_state("paused", "a test")

        other = admission(store, clock)
        assert "paused: a test" in (await other.check(task("b", "sync"))).rule
        await other.set_state("running")
        table = TaskLimits().table | {"sync": Limit(node_max=1, cluster_max=1)}
        await other.set_limits(TaskLimits(table=table))
        with pytest.raises(LimitReached):
            await tasks.admit(task("b", "sync"))

    run_scenario(tmp_path, scenario)


def test_ended_tasks_are_kept_up_to_a_limit(tmp_path: Path) -> None:
    """The last thousand are kept, the newest among them; earlier ones are only counted."""

    async def scenario(tasks: Admission, store: Store, clock: ManualClock) -> None:
        await tasks.set_limits(FAST)
        for number in range(TASKS_RETAINED + 5):
            await tasks.admit(task(f"t{number}", "sync", metadata={"number": number}))
            await tasks.finish(f"t{number}", "completed")
            clock.seconds += 1.0

        async with store.read() as view:
            last = await last_tasks(view)
            assert (await load_totals(view)).ends == {"completed": TASKS_RETAINED + 5}
            bodies = [row.body for row in await view.last_tasks(TASKS_RETAINED + 5)]
        assert [ended.id for ended in (last[0], last[-1])] == ["t5", f"t{TASKS_RETAINED + 4}"]
        assert len(last) == TASKS_RETAINED
        assert [bool(body) for body in bodies[:6]] == [False] * 5 + [True]
        assert await ended_as(store, "t4") == []
        assert len(await ended_as(store, "t5")) == 1

    run_scenario(tmp_path, scenario)


def test_an_end_counts_once(tmp_path: Path) -> None:
    """Two that end the same task at once free one place and publish one event."""

    async def scenario(tasks: Admission, store: Store, clock: ManualClock) -> None:
        admitted = await tasks.admit(task("a", "sync"))
        gone = msgspec.structs.replace(admitted, state="orphaned", reason="its process 7 is gone")
        envelopes = EnvelopeFactory("m", clock, Ids(clock, Random(8)))
        async with store.begin() as tx:
            assert [task.id for task in await end_tasks(tx, envelopes, [gone], 1.0)] == ["a"]
        async with store.begin() as tx:
            assert await end_tasks(tx, envelopes, [gone], 2.0) == []
            assert (await load_totals(tx)).ends == {"orphaned": 1}
            states = [
                msgspec.json.decode(envelope.body)["state"] for envelope in await tx.read(0, 10, [TaskChanged.name()])
            ]
            assert states == ["running", "orphaned"]
        assert await tasks.finish("a", "completed") is None

    run_scenario(tmp_path, scenario)


def test_a_waiting_task_gets_the_next_slot(tmp_path: Path) -> None:
    """It starts as soon as a slot is free, and is refused when there was none in time."""

    async def scenario(tasks: Admission, store: Store, clock: ManualClock) -> None:
        await tasks.admit(task("a"))
        waiting = asyncio.ensure_future(tasks.wait_admit(task("b"), 60.0))
        with pytest.raises(LimitReached):
            await tasks.wait_admit(task("c"), 0.0)
        await tasks.finish("a", "completed")

        assert (await waiting).id == "b"

    run_scenario(tmp_path, scenario)


def test_concurrent_tasks_never_pass_a_limit(tmp_path: Path) -> None:
    """A hundred tasks that race in one program for thirty-two slots get exactly these, whatever the checks answered."""

    async def scenario(tasks: Admission, store: Store, clock: ManualClock) -> None:
        await tasks.set_limits(FAST)

        async def race(number: int) -> bool:
            assert (await tasks.check(task(f"t{number}", "selfplay"))).allowed or number > 31
            try:
                await tasks.admit(task(f"t{number}", "selfplay"))
            except LimitReached:
                return False
            return True

        won = await asyncio.gather(*(race(number) for number in range(100)))
        assert sum(won) == len(await names(store)) == 32

    run_scenario(tmp_path, scenario)


RACER = """
import asyncio, sys
from random import Random
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.kernel.ids import Ids
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import LimitReached
from ringrift.kernel.settings import StoreSettings
from ringrift.store.open import open_store
from ringrift.work import processes
from ringrift.work.tasks import HostTick, Task
from ringrift_compat.tasks.task_admission import Admission
import os
path, racer, tries = sys.argv[1], sys.argv[2], int(sys.argv[3])
async def race(tasks, process, type, number):
    id, beat_at = f"{type}-{racer}-{number}", HostTick(host=process.host, tick=0.0)
    task = Task(id=id, type=type, node="n", process=process, pid=process.pid, beat_at=beat_at)
    try:
        return [(await tasks.admit(task)).id]
    except LimitReached:
        return []
async def main():
    process, clock = processes.find(os.getpid()), SystemClock()
    async with open_store(StoreSettings(path=path), clock) as store:
        tasks = Admission(store, clock, process.host, EnvelopeFactory("n", clock, Ids(clock, Random(int(racer)))))
        print("ready", flush=True)
        sys.stdin.readline()
        races = [race(tasks, process, type, n) for n in range(tries) for type in ("training", "selfplay")]
        print(*(id for ids in await asyncio.gather(*races) for id in ids), flush=True)
        sys.stdin.readline()
asyncio.run(main())
"""


def test_processes_that_race_never_pass_a_limit(tmp_path: Path) -> None:
    """Four programs get one training and thirty-two selfplays between them.

    The slots of those that are killed are free for the next task.
    """

    async def scenario(tasks: Admission, store: Store, clock: ManualClock) -> None:
        await tasks.set_limits(FAST)

    run_scenario(tmp_path, scenario)
    argv = [sys.executable, "-c", RACER, str(tmp_path / "store.db")]
    pipes = {"text": True, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    racers = [subprocess.Popen([*argv, str(number), str(TRIES)], **pipes) for number in range(RACERS)]
    try:
        assert [_line(racer) for racer in racers] == ["ready"] * RACERS
        for racer in racers:
            _go(racer)
        ids = [id for racer in racers for id in _line(racer).split()]

        assert sorted(id.partition("-")[0] for id in ids) == ["selfplay"] * 32 + ["training"]
        assert len(set(ids)) == 33
    finally:
        for racer in racers:
            with racer:
                racer.kill()

    async def after() -> None:
        clock = ManualClock()
        async with open_store(StoreSettings(path=str(tmp_path / "store.db")), clock) as store:
            assert len(await names(store)) == 33
            await admission(store, clock).admit(task("next"))
            assert await names(store) == ["next"]

    run(after())


def _line(racer: "subprocess.Popen[str]") -> str:
    assert racer.stdout is not None
    return racer.stdout.readline().strip()


def _go(racer: "subprocess.Popen[str]") -> None:
    assert racer.stdin is not None
    racer.stdin.write("\n")
    racer.stdin.flush()
