"""Several processes on one file: they share it without harm, and die without consequence."""

import asyncio
import os
import resource
import signal
from collections.abc import Sequence
from contextlib import suppress

import pytest

from contract.engines import Engine, append, claim, enqueue, job, logged, new_job, settle
from contract.stage import Stage
from ringrift.kernel.errors import Busy, NotLeader
from ringrift.kernel.settings import StoreSettings
from ringrift.store.open import only_coordinator
from ringrift.store.ports import Failure, Store
from wait import wait_until

BUSY_SECONDS = 0.2


def test_another_process_wakes_us(on_file: Engine, stage: Stage) -> None:
    """A waiter is woken when another process appends an event, and does not have to wait for its next poll."""

    async def story(store: Store) -> int:
        actor = stage.enter("append", on_file.path, "p", 1)
        await asyncio.to_thread(actor.read_line)
        waiting = asyncio.create_task(store.wait(0, 600.0))
        actor.go()
        await asyncio.to_thread(actor.read_line)
        async with asyncio.timeout(10.0):
            return await waiting

    assert on_file.run(story) == 1


def test_two_processes_never_claim_one_job(on_file: Engine, stage: Stage) -> None:
    """Four processes that claim as fast as they can get two hundred jobs between them, each job once."""
    ids = [str(number) for number in range(200)]

    async def ask(store: Store) -> None:
        await enqueue(store, *(new_job(id) for id in ids))

    on_file.run(ask)
    actors = [stage.enter("claim", on_file.path, f"node-{number}") for number in range(4)]
    assert [actor.read_line() for actor in actors] == ["ready"] * 4
    for actor in actors:
        actor.go()
    claims = [actor.rest() for actor in actors]

    assert [reported.pop() for reported in claims] == ["end"] * 4
    assert sorted((id for reported in claims for id in reported), key=int) == ids


def test_a_reader_sees_no_gap_while_other_processes_append(on_file: Engine, stage: Stage) -> None:
    """While several processes append, a poll sees every position once and in order."""

    async def story(store: Store) -> tuple[list[int], list[int]]:
        actors = [stage.enter("append", on_file.path, f"p{number}", 40) for number in range(3)]
        for actor in actors:
            await asyncio.to_thread(actor.read_line)
        for actor in actors:
            actor.go()
        positions: list[int] = []

        async def poll() -> bool:
            async with store.read() as view:
                positions.extend(e.position for e in await view.read(positions[-1] if positions else 0, 7))
            return len(positions) >= 120

        await wait_until(poll, 15)
        reported = [await asyncio.to_thread(actor.rest) for actor in actors]
        return positions, sorted(int(line) for lines in reported for line in lines[:-1])

    positions, acknowledged = on_file.run(story)

    assert positions == acknowledged


def test_a_waiter_sees_positions_of_other_processes(on_file: Engine, stage: Stage) -> None:
    """A position that another process appended is known here when the wait is over, at the latest."""

    async def story(store: Store) -> tuple[int, int]:
        actor = stage.enter("append", on_file.path, "p", 1)
        await asyncio.to_thread(actor.read_line)
        actor.go()
        position = int(await asyncio.to_thread(actor.read_line))
        return await store.wait(0, 0.01), position

    result, position = on_file.run(story)

    assert result == position


def test_acknowledged_events_survive_sigkill(on_file: Engine, stage: Stage) -> None:
    """Killed while it appends, a process leaves at least every event that was acknowledged to it."""
    actor = stage.enter("append", on_file.path, "p", 100_000)
    actor.read_line()
    actor.go()
    acknowledged = [int(actor.read_line()) for _ in range(50)]
    actor.kill()
    acknowledged += [int(line) for line in actor.rest()[:-1]]

    async def look(store: Store) -> list[int]:
        async with store.read() as view:
            return [e.position for e in await view.read(0, 100_000)]

    assert set(acknowledged) <= set(on_file.run(look))


@pytest.mark.parametrize(("failpoint", "left"), [("store.before_commit", []), ("store.after_commit", ["last-words"])])
def test_a_transaction_happens_at_its_commit(on_file: Engine, stage: Stage, failpoint: str, left: list[str]) -> None:
    """A process that dies before COMMIT leaves nothing of its transaction, and after it everything."""
    actor = stage.enter("die", on_file.path, failpoint)

    assert (actor.rest(), actor.process.returncode) == ([], 137)
    assert on_file.run(logged) == left


def test_a_stopped_holder_is_fenced_off_when_it_wakes(on_file: Engine, stage: Stage) -> None:
    """A process that was stopped while its lease passed on can change nothing when it continues."""

    async def story(store: Store) -> tuple[list[str], str, list[str], int]:
        await enqueue(store, new_job("a"))
        sleeper = stage.enter("doze", on_file.path, "sleeper")
        id, fence = (await asyncio.to_thread(sleeper.read_line)).split()
        os.kill(sleeper.pid, signal.SIGSTOP)
        async with store.begin() as tx:
            await tx.fail([Failure(job=id, fence=int(fence), error="not renewed", pause=0.0, renewals=0)])
        [lease] = await claim(store, "second")
        os.kill(sleeper.pid, signal.SIGCONT)
        sleeper.go()
        reported = await asyncio.to_thread(sleeper.rest)
        row = await job(store, "a")
        return reported, row.state, await logged(store), row.fence - lease.fence

    assert on_file.run(story) == (["LeaseLost", "LeaseLost", "ended"], "claimed", [], 0)


def test_a_writer_waits_for_another_process(on_file: Engine, stage: Stage) -> None:
    """While another process writes, a transaction here waits off the loop, and continues once that one is done."""

    async def story(store: Store) -> tuple[bool, list[str]]:
        await append(store, "a")
        other = stage.enter("hold", on_file.path)
        assert await asyncio.to_thread(other.read_line) == "held"
        writing = asyncio.create_task(append(store, "b"))
        reading = await logged(store)
        waits = not writing.done() and reading == ["a"]
        other.go()
        await writing
        return waits, await logged(store)

    assert on_file.run(story) == (True, ["a", "b"])


@pytest.mark.parametrize("times", [1, 2])
def test_a_transaction_cancelled_while_another_process_writes_harms_no_other(
    on_file: Engine, stage: Stage, times: int
) -> None:
    """A transaction that is cancelled, even twice, while another process writes does not affect the ones after it."""

    async def story(store: Store) -> list[str]:
        await append(store, "a")
        other = stage.enter("hold", on_file.path)
        assert await asyncio.to_thread(other.read_line) == "held"
        writing = asyncio.create_task(append(store, "cancelled"))
        await logged(store)
        for _ in range(times):
            writing.cancel()
            await settle()
        other.go()
        assert await asyncio.to_thread(other.read_line) == "freed"
        await asyncio.wait((writing,))
        await append(store, "b")
        await append(store, "c")
        return await logged(store)

    assert on_file.run(story) == ["a", "b", "c"]


def test_a_cancelled_transaction_releases_the_write_lock(on_file: Engine, stage: Stage) -> None:
    """A transaction that is cancelled just as it gets the write lock does not keep it."""

    async def story(store: Store) -> str:
        second = stage.enter("append", on_file.path, "p", 1)
        assert await asyncio.to_thread(second.read_line) == "ready"
        first = stage.enter("hold", on_file.path)
        assert await asyncio.to_thread(first.read_line) == "held"
        writing = asyncio.create_task(append(store, "cancelled"))
        await logged(store)
        writing.cancel()
        first.go()
        await asyncio.wait((writing,))
        second.go()
        return await asyncio.to_thread(second.read_line)

    assert on_file.run(story) == "1"


def test_several_processes_can_create_the_store_together(on_file: Engine, stage: Stage) -> None:
    """Several processes that open a store that does not exist yet all get it, made once."""
    actors = [stage.enter("make", on_file.path) for _ in range(4)]
    assert [actor.read_line() for actor in actors] == ["ready"] * 4
    for actor in actors:
        actor.go()
    for actor in actors:
        assert actor.read_line() == "ready"
        actor.go()

    assert [actor.rest() for actor in actors] == [["end"]] * 4
    assert [actor.process.returncode for actor in actors] == [0] * 4
    assert on_file.run(logged) == []


def _lead(engine: Engine) -> Sequence[str]:
    with only_coordinator(StoreSettings(path=str(engine.path)), "here"):
        return ["led"]


def test_a_second_coordinator_is_refused_with_the_name_of_the_first(on_file: Engine, stage: Stage) -> None:
    """While one process coordinates, another one is refused with the name and the process id of the first."""
    first = stage.enter("lead", on_file.path, "node-1")
    assert first.read_line() == "held"

    with pytest.raises(NotLeader) as refused:
        _lead(on_file)
    second = stage.enter("lead", on_file.path, "node-2")

    assert refused.value.role == "coordinator"
    assert refused.value.holder == f"node-1 (process {first.pid})"
    holder = f"node-1 (process {first.pid})"
    advice = "wait until that process ends, or stop it"
    assert second.rest() == [f"NotLeader role 'coordinator' is held by {holder}: {advice}"]


def test_a_killed_coordinator_is_replaced_at_once(on_file: Engine, stage: Stage) -> None:
    """The kernel frees the lock of a coordinator that dies, so that the next one need not wait."""
    first = stage.enter("lead", on_file.path, "node-1")
    assert first.read_line() == "held"

    first.kill()

    assert _lead(on_file) == ["led"]


def test_one_process_cannot_coordinate_twice(on_file: Engine) -> None:
    """A second coordinator of the same store in one process is refused, and accepted once the first has ended."""
    with only_coordinator(StoreSettings(path=str(on_file.path)), "node-1"), pytest.raises(NotLeader) as refused:
        _lead(on_file)

    assert refused.value.holder.startswith("node-1 ")
    assert _lead(on_file) == ["led"]


def test_a_process_that_was_stopped_in_a_transaction_is_waited_for(
    on_file: Engine, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others learn that the store is busy, not broken; when it continues, its own transaction has no effect."""
    monkeypatch.setenv("BUSY_SECONDS_MAX", str(BUSY_SECONDS))

    async def story(store: Store) -> tuple[list[str], list[str]]:
        sleeper = stage.enter("nap", on_file.path)
        await asyncio.to_thread(sleeper.read_line)
        for id in ("refused", "refused-again"):
            with pytest.raises(Busy):
                await append(store, id)
        assert await logged(store) == []  # reading goes on meanwhile
        os.kill(sleeper.pid, signal.SIGCONT)
        reported = await asyncio.to_thread(sleeper.rest)
        await append(store, "later")
        return reported, await logged(store)

    result = on_file.run(story, busy_seconds_max=BUSY_SECONDS)

    assert result == (["Overdue", "awake"], ["after-the-nap", "later"])


def test_without_a_descriptor_left_the_store_is_busy(on_file: Engine) -> None:
    """A read that needs one more file than the process may open is refused for the moment; the next one succeeds."""

    async def story(store: Store) -> list[str]:
        await append(store, "a")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(int(number) for number in os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest - 2, hard))
        fillers = []
        try:
            with suppress(OSError):
                while True:
                    fillers.append(os.open("/dev/null", os.O_RDONLY))
            with pytest.raises(Busy):
                await logged(store)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for filler in fillers:
                os.close(filler)
        await append(store, "b")
        return await logged(store)

    assert on_file.run(story) == ["a", "b"]
