"""One fault at a time in a simulated cluster over the wire, each with the promise that it tries."""

import shutil
from collections.abc import Awaitable, Callable

import pytest

from ringrift.kernel.errors import NodeAway
from ringrift.sim import checks
from ringrift.sim.launch import WorkerBehaviour
from ringrift.sim.loop import SimLoop, run
from ringrift.sim.network import Link
from ringrift.sim.recorder import RecordingTx
from ringrift.sim.remote_scenario import _judge
from ringrift.sim.remote_world import _ISLAND, COORDINATOR, PROCESSES, RemoteWorld
from ringrift.sim.world import World
from wait import wait_until

TAKE_OVER_SECONDS_MAX = 3.0
LEASE_SECONDS = 3.0
PATIENCE_SECONDS = 60.0
Story = Callable[[RemoteWorld], Awaitable[None]]


def tell(story: Story, *, kill_hung: bool = False, seconds: float = 1.0) -> None:
    """Tell *story* in a cluster of its own, whose jobs take up to *seconds*; in the end every promise must hold."""

    async def main(loop: SimLoop) -> None:
        world = RemoteWorld(loop, 1)
        world.kill_hung, world.behaviour = kill_hung, WorkerBehaviour(seconds_max=seconds)
        try:
            await world.boot()
            await until_results(world, 1)
            await story(world)
            await until_results(world, 2)
            assert await _judge(world) == []
        finally:
            world.disk.unregister()
            shutil.rmtree(world.folder, ignore_errors=True)

    run(1, main)


async def until_results(world: RemoteWorld, count: int) -> None:
    """Wait until every worker had so many more results acknowledged."""
    before = world.results.copy()
    await world.until(
        lambda: all(world.results[name] >= before[name] + count for name in world.keys),
        PATIENCE_SECONDS,
        f"{count} more results of every worker",
    )


async def pass_by(world: World, seconds: float) -> None:
    """Let *seconds* of virtual time pass."""
    end = world.loop.time() + seconds
    await wait_until(lambda: world.loop.time() >= end, seconds + 1.0, step_seconds=0.1)


def islands(world: RemoteWorld, name: str) -> list[str]:
    """The batches that *name* handed in without a lease."""
    return [result for host, (result, _), _ in world.acked if host == name and result.startswith("island:")]


def test_a_standby_takes_over_from_one_that_was_killed() -> None:
    """Within three seconds it leads, and every worker goes on with it."""

    async def story(world: RemoteWorld) -> None:
        assert world.holder is not None
        first = world.holder[0]
        [second] = [name for name in PROCESSES if name != first]
        world.kill(first)
        killed_at = world.loop.time()
        await world.until(lambda: second in world.nodes, 10.0, "taking over")
        assert world.loop.time() - killed_at <= TAKE_OVER_SECONDS_MAX

    tell(story)


def test_a_coordinator_that_hangs_is_killed_before_its_standby_takes_over() -> None:
    """What the old one would have done when it goes on, it never does."""

    async def story(world: RemoteWorld) -> None:
        assert world.holder is not None
        first = world.holder[0]
        world.pause(first)
        await world.until(lambda: world.holder is not None and world.holder[0] != first, 15.0, "taking over")
        world.resume(first)
        assert any("kills it" in text for text in world.reports)

    tell(story, kill_hung=True)


def test_a_standby_that_may_not_kill_only_tells() -> None:
    """It waits for as long as the one that hangs has the lock, and that one goes on afterwards."""

    async def story(world: RemoteWorld) -> None:
        holder = world.holder
        assert holder is not None
        world.pause(holder[0])
        await pass_by(world, 15.0)
        assert world.holder == holder
        assert any("end process" in text for text in world.reports)
        world.resume(holder[0])

    tell(story)


def test_games_behind_their_fence_count_once_and_not_as_the_jobs() -> None:
    """A worker that was stopped for longer than its lease hands in what it played as a batch of its own."""

    async def story(world: RemoteWorld) -> None:
        for _ in range(12):  # until a pause falls between the end of a job and its result
            world.pause("w2")
            await pass_by(world, 3 * LEASE_SECONDS)
            world.resume("w2")
            await pass_by(world, 2.0)
            if islands(world, "w2"):
                break
        await world.until(lambda: bool(islands(world, "w2")), 10.0, "handing in what was played without a lease")

    tell(story, seconds=2.0)


def test_games_count_once_although_their_job_is_done_again() -> None:
    """They come in while their job waits to be done again, with the very same games."""

    async def story(world: RemoteWorld) -> None:
        for _ in range(12):  # until a pause falls between the end of a job and its result
            jobs = {job for job, _ in world.leased}
            for name in world.keys:
                world.pause(name)
            await pass_by(world, 3 * LEASE_SECONDS)
            world.resume("w2")
            await pass_by(world, 1.0)
            world.resume("w1")
            world.resume("w3")
            await pass_by(world, 2.0)
            if islands(world, "w2"):
                break
        assert islands(world, "w2")
        done = lambda: [job for _, (job, fence), _ in world.acked if job in jobs and fence > 1]  # noqa: E731 - short
        await world.until(lambda: bool(done()), PATIENCE_SECONDS, "doing the job again")

    tell(story)


def test_an_island_plays_on_and_everything_counts_when_it_is_back() -> None:
    """A worker that is cut off plays from its last champion, stores what it plays, and hands it in once."""

    async def story(world: RemoteWorld) -> None:
        await world.until(lambda: bool(world.workers[_ISLAND].spool), 10.0, "a spool")
        for process in PROCESSES:
            world.network.cut(_ISLAND, process)
        await pass_by(world, 15.0)
        played = len(world.workers[_ISLAND].spool.results)
        assert played >= 3
        world.network.heal(_ISLAND)
        await world.until(lambda: len(islands(world, _ISLAND)) >= played - 1, 20.0, "handing in what the island played")

    tell(story)


@pytest.mark.parametrize("is_island", [False, True])
def test_an_answer_that_is_lost_with_its_coordinator_is_asked_for_again(is_island: bool) -> None:
    """The next coordinator knows no number of the session; what was done is recognized, as what it was."""
    lost, again = list[tuple[str, int]](), list[tuple[str, int]]()

    async def story(world: RemoteWorld) -> None:
        acknowledge = world.acknowledge

        def lose(host: str, result: tuple[str, int], blobs: list[str]) -> None:
            if host == _ISLAND and blobs and not lost and result[0].startswith("island:") is is_island:
                lost.append(result)
                [leader] = world.nodes
                world.kill(leader)
                world.loop.call_later(1.0, world.start, leader)
                raise NodeAway("the answer")
            again.extend([result] if result in lost else [])
            acknowledge(host, result, blobs)

        world.acknowledge = lose  # type: ignore[method-assign]  # it records what was not lost
        if is_island:
            for process in PROCESSES:
                world.network.cut(_ISLAND, process)
            await pass_by(world, 15.0)
            world.network.heal(_ISLAND)
        await world.until(lambda: bool(again), PATIENCE_SECONDS, "asking again")

    tell(story)
    assert again == lost


def test_others_play_nothing_while_they_are_cut_off() -> None:
    """Only a worker that was told to be an island goes on beyond its leases."""

    async def story(world: RemoteWorld) -> None:
        for process in PROCESSES:
            world.network.cut("w2", process)
        await pass_by(world, 15.0)
        assert len(world.workers["w2"].spool.results) <= 1
        world.network.heal("w2")

    tell(story)


@pytest.mark.parametrize("power", [False, True], ids=["", "and the power of the coordinator fails"])
def test_a_worker_may_vanish_as_soon_as_its_result_is_acknowledged(power: bool) -> None:
    """Its disk is gone before it learns of the acknowledgement; the result and its files are at the coordinator."""
    lost = list[tuple[str, int]]()

    async def story(world: RemoteWorld) -> None:
        acknowledge = world.acknowledge

        def vanish(host: str, result: tuple[str, int], blobs: list[str]) -> None:
            acknowledge(host, result, blobs)
            if host == "w2" and blobs and not lost:
                lost.append(result)
                world.loop.call_soon(lambda: world.kill("w2", wipe=True))

        world.acknowledge = vanish  # type: ignore[method-assign]  # it still records
        await world.until(lambda: bool(lost) and "w2" not in world.workers, PATIENCE_SECONDS, "vanishing")
        if power:
            await world.cut_power()
        assert await world.query(lambda tx: _finished(tx)) >= set(lost)
        [files] = [blobs for host, result, blobs in world.acked if result == lost[0]]
        assert set(files) <= world.blobs[COORDINATOR.id].files.keys()
        world.start("w2")

    async def _finished(tx: RecordingTx) -> set[tuple[str, int]]:
        return set(tx.history("finished"))

    tell(story)
    assert lost


def test_what_is_asked_twice_is_done_once() -> None:
    """Half of all messages arrive twice, and a third never: each lease has one holder, each result counts once."""

    async def story(world: RemoteWorld) -> None:
        for name in world.keys:
            world.network.links[name] = Link(delay_seconds_max=0.2, loss=0.3, duplicates=0.5)
        await pass_by(world, 30.0)
        for name in world.keys:
            world.network.heal(name)
        assert checks.leases_have_one_holder(world.leased) == []

    tell(story)


def test_a_worker_that_leaves_gives_its_jobs_back_at_once() -> None:
    """Nothing waits for the end of a lease, and the others do its jobs."""

    async def story(world: RemoteWorld) -> None:
        await world.stop("w1")
        claimed = await world.query(lambda tx: tx.jobs(("claimed",), 100, holder="w1"))
        assert claimed == []
        world.start("w1")

    tell(story, seconds=3.0)
