"""Several processes on one file: they share it without harm, and die without consequence."""

import asyncio
import os
import signal
from collections.abc import Sequence

import pytest

from contract.engines import Engine, append, claim, enqueue, job, logged, settle, wanted
from contract.stage import Stage
from ringrift.kernel.errors import NotLeader
from ringrift.kernel.settings import StoreSettings
from ringrift.store.open import only_coordinator
from ringrift.store.ports import Failure, Store
from waiting import wait_until


def test_another_process_wakes_us(on_file: Engine, stage: Stage) -> None:
    """Who waits for events is woken when another process appends one, and does not have to wait for its next poll."""

    async def story(store: Store) -> int:
        actor = stage.enter("append", on_file.path, "p", 1)
        await asyncio.to_thread(actor.hear)
        waiting = asyncio.create_task(store.wait(0, 600.0))
        actor.go()
        await asyncio.to_thread(actor.hear)
        async with asyncio.timeout(10.0):
            return await waiting

    assert on_file.run(story) == 1


def test_two_processes_never_claim_one_job(on_file: Engine, stage: Stage) -> None:
    """Four processes that claim as fast as they can get two hundred jobs between them, each job once."""
    ids = [str(number) for number in range(200)]

    async def ask(store: Store) -> None:
        await enqueue(store, *(wanted(id) for id in ids))

    on_file.run(ask)
    actors = [stage.enter("claim", on_file.path, f"node-{number}") for number in range(4)]
    assert [actor.hear() for actor in actors] == ["ready"] * 4
    for actor in actors:
        actor.go()
    claims = [actor.rest() for actor in actors]

    assert [said.pop() for said in claims] == ["end"] * 4
    assert sorted((id for said in claims for id in said), key=int) == ids


def test_a_reader_sees_no_hole_behind_other_processes(on_file: Engine, stage: Stage) -> None:
    """While several processes append, one who polls sees every position once and in order."""

    async def story(store: Store) -> tuple[list[int], list[int]]:
        actors = [stage.enter("append", on_file.path, f"p{number}", 40) for number in range(3)]
        for actor in actors:
            await asyncio.to_thread(actor.hear)
        for actor in actors:
            actor.go()
        seen: list[int] = []

        async def poll() -> bool:
            async with store.read() as view:
                seen.extend(e.position for e in await view.read(seen[-1] if seen else 0, 7))
            return len(seen) >= 120

        await wait_until(poll, 15)
        said = [await asyncio.to_thread(actor.rest) for actor in actors]
        return seen, sorted(int(line) for lines in said for line in lines[:-1])

    seen, acknowledged = on_file.run(story)

    assert seen == acknowledged


def test_a_waiter_learns_of_other_processes(on_file: Engine, stage: Stage) -> None:
    """A position that another process appended is known here when the wait is over, at the latest."""

    async def story(store: Store) -> tuple[int, int]:
        actor = stage.enter("append", on_file.path, "p", 1)
        await asyncio.to_thread(actor.hear)
        actor.go()
        position = int(await asyncio.to_thread(actor.hear))
        return await store.wait(0, 0.01), position

    found, position = on_file.run(story)

    assert found == position


def test_what_was_acknowledged_survives_sigkill(on_file: Engine, stage: Stage) -> None:
    """Killed in the middle of appending, a process leaves at least all that it was told is there."""
    actor = stage.enter("append", on_file.path, "p", 100_000)
    actor.hear()
    actor.go()
    acknowledged = [int(actor.hear()) for _ in range(50)]
    actor.kill()
    acknowledged += [int(line) for line in actor.rest()[:-1]]

    async def look(store: Store) -> list[int]:
        async with store.read() as view:
            return [e.position for e in await view.read(0, 100_000)]

    assert set(acknowledged) <= set(on_file.run(look))


@pytest.mark.parametrize(("failpoint", "left"), [("store.before_commit", []), ("store.after_commit", ["last-words"])])
def test_commit_is_the_moment_in_which_it_happened(
    on_file: Engine, stage: Stage, failpoint: str, left: list[str]
) -> None:
    """A process that dies before COMMIT leaves nothing of its transaction, and after it everything."""
    actor = stage.enter("die", on_file.path, failpoint)

    assert (actor.rest(), actor.process.returncode) == ([], 137)
    assert on_file.run(logged) == left


def test_a_stopped_holder_is_fenced_off_when_it_wakes(on_file: Engine, stage: Stage) -> None:
    """A process that was stopped while its lease passed on can change nothing when it goes on."""

    async def story(store: Store) -> tuple[list[str], str, list[str], int]:
        await enqueue(store, wanted("a"))
        sleeper = stage.enter("doze", on_file.path, "sleeper")
        id, fence = (await asyncio.to_thread(sleeper.hear)).split()
        os.kill(sleeper.pid, signal.SIGSTOP)
        async with store.begin() as tx:
            await tx.fail([Failure(job=id, fence=int(fence), error="not renewed", pause=0.0, renewals=0)])
        [lease] = await claim(store, "second")
        os.kill(sleeper.pid, signal.SIGCONT)
        sleeper.go()
        said = await asyncio.to_thread(sleeper.rest)
        row = await job(store, "a")
        return said, row.state, await logged(store), row.fence - lease.fence

    assert on_file.run(story) == (["LeaseLost", "LeaseLost", "ended"], "claimed", [], 0)


def test_a_writer_waits_for_another_process(on_file: Engine, stage: Stage) -> None:
    """While another process writes, a transaction here waits off the loop, and goes on once that one is done."""

    async def story(store: Store) -> tuple[bool, list[str]]:
        await append(store, "a")
        other = stage.enter("hold", on_file.path)
        assert await asyncio.to_thread(other.hear) == "held"
        writing = asyncio.create_task(append(store, "b"))
        reading = await logged(store)
        waits = not writing.done() and reading == ["a"]
        other.go()
        await writing
        return waits, await logged(store)

    assert on_file.run(story) == (True, ["a", "b"])


@pytest.mark.parametrize("times", [1, 2])
def test_who_gives_up_waiting_for_another_process_leaves_the_store_whole(
    on_file: Engine, stage: Stage, times: int
) -> None:
    """A transaction that is cancelled, even twice, while another process writes does not spoil the ones after it."""

    async def story(store: Store) -> list[str]:
        await append(store, "a")
        other = stage.enter("hold", on_file.path)
        assert await asyncio.to_thread(other.hear) == "held"
        writing = asyncio.create_task(append(store, "given-up"))
        await logged(store)
        for _ in range(times):
            writing.cancel()
            await settle()
        other.go()
        assert await asyncio.to_thread(other.hear) == "freed"
        await asyncio.wait((writing,))
        await append(store, "b")
        await append(store, "c")
        return await logged(store)

    assert on_file.run(story) == ["a", "b", "c"]


def test_who_gives_up_holds_no_other_process_up(on_file: Engine, stage: Stage) -> None:
    """A transaction that was cancelled just as it got its turn among processes does not keep the lock."""

    async def story(store: Store) -> str:
        second = stage.enter("append", on_file.path, "p", 1)
        assert await asyncio.to_thread(second.hear) == "ready"
        first = stage.enter("hold", on_file.path)
        assert await asyncio.to_thread(first.hear) == "held"
        writing = asyncio.create_task(append(store, "given-up"))
        await logged(store)
        writing.cancel()
        first.go()
        await asyncio.wait((writing,))
        second.go()
        return await asyncio.to_thread(second.hear)

    assert on_file.run(story) == "1"


def test_processes_can_make_the_file_together(on_file: Engine, stage: Stage) -> None:
    """Several processes that open a store that is not there yet all get it, made once."""
    actors = [stage.enter("make", on_file.path) for _ in range(4)]
    assert [actor.hear() for actor in actors] == ["ready"] * 4
    for actor in actors:
        actor.go()
    for actor in actors:
        assert actor.hear() == "ready"
        actor.go()

    assert [actor.rest() for actor in actors] == [["end"]] * 4
    assert [actor.process.returncode for actor in actors] == [0] * 4
    assert on_file.run(logged) == []


def _lead(engine: Engine) -> Sequence[str]:
    with only_coordinator(StoreSettings(path=str(engine.path)), "here"):
        return ["led"]


def test_a_second_coordinator_is_told_who_the_first_is(on_file: Engine, stage: Stage) -> None:
    """While one process coordinates, another one is refused with the name and the number of the first."""
    first = stage.enter("lead", on_file.path, "node-1")
    assert first.hear() == "held"

    with pytest.raises(NotLeader) as refused:
        _lead(on_file)
    second = stage.enter("lead", on_file.path, "node-2")

    assert refused.value.role == "coordinator"
    assert refused.value.holder == f"node-1 (process {first.pid})"
    assert second.rest() == [f"NotLeader role 'coordinator' is held by node-1 (process {first.pid})"]


def test_a_killed_coordinator_is_replaced_at_once(on_file: Engine, stage: Stage) -> None:
    """The kernel frees the place of a coordinator that dies, so that the next one need not wait."""
    first = stage.enter("lead", on_file.path, "node-1")
    assert first.hear() == "held"

    first.kill()

    assert _lead(on_file) == ["led"]


def test_one_process_cannot_coordinate_twice(on_file: Engine) -> None:
    """A second coordinator of the same store in the same process is refused too, and free again afterwards."""
    with only_coordinator(StoreSettings(path=str(on_file.path)), "node-1"), pytest.raises(NotLeader) as refused:
        _lead(on_file)

    assert refused.value.holder.startswith("node-1 ")
    assert _lead(on_file) == ["led"]
