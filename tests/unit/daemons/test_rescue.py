"""Rescue takes back leases that stood still for their time on its own clock, and ends pauses that lasted theirs."""

import os
from pathlib import Path

import pytest

from ringrift.cluster.leadership import Roles
from ringrift.cluster.liveness import LOST_NODES
from ringrift.daemons.rescue import rescue
from ringrift.events.work import Buried, Rescued, RunStateChanged, TaskChanged
from ringrift.jobs import Play
from ringrift.kernel.errors import NotLeader
from ringrift.kernel.stall_detector import StallDetector
from ringrift.kernel.value import changed
from ringrift.store.ports import JobRequest, Lease, Renewal
from ringrift.work import processes
from ringrift.work.desk import Fault
from ringrift.work.limits import VERDICTS
from ringrift.work.processes import Process
from ringrift.work.run_states import set_run_state
from ringrift.work.tasks import HostTick, Task, running_tasks, task_change
from unit.work.world import LEASE_SECONDS, World, play


def job(seed: int = 0) -> Play:
    """A batch of games to play."""
    return Play(variant="hex8_2p", model="m", games=10, seed=seed)


class Rescuer:
    """The daemon with the observations of one run of its node."""

    def __init__(self, world: World, roles: Roles) -> None:
        self.world, self.roles = world, roles
        self.memory = StallDetector()

    async def tick_once(self, *, after: float = 0.0) -> list[str]:
        """Tick once, *after* so many seconds; return the states of all jobs then."""
        await self.act(after=after)
        return [row.state for row in await self.world.jobs()]

    async def act(self, *, after: float = 0.0) -> None:
        """Tick once, *after* so many seconds."""
        world = self.world
        world.clock.seconds += after
        await rescue(
            store=world.store,
            desk=world.desk(),
            envelopes=world.envelopes,
            roles=self.roles,
            clock=world.clock,
            memory=self.memory,
        )


async def renew(world: World, lease: Lease) -> None:
    """Renew *lease*."""
    await world.desk("there").renew([Renewal(job=lease.job, fence=lease.fence)])


def test_a_lease_is_revoked_after_its_full_time(tmp_path: Path) -> None:
    """It is not revoked before; then the job waits for its next attempt, and one event is published."""

    async def story(world: World) -> None:
        [lease] = await world.claim(job(), node="there")
        rescuer = Rescuer(world, await world.roles())

        assert await rescuer.tick_once() == ["claimed"]
        assert await rescuer.tick_once(after=LEASE_SECONDS - 0.1) == ["claimed"]
        assert await rescuer.tick_once(after=0.1) == ["ready"]
        assert await world.events(Rescued, Buried) == [Rescued(jobs=(lease.job,))]
        [row] = await world.jobs()
        assert (row.error, row.pause, row.attempts) == ("the lease was not renewed", 1.0, 1)

    play(tmp_path, story)


def test_a_renewed_lease_has_its_full_time_again(tmp_path: Path) -> None:
    """A holder that renews is left alone for as long as it does."""

    async def story(world: World) -> None:
        [lease] = await world.claim(job(), node="there")
        rescuer = Rescuer(world, await world.roles())
        await rescuer.tick_once()

        for _ in range(5):
            world.clock.seconds += LEASE_SECONDS - 1.0
            await renew(world, lease)
            assert await rescuer.tick_once() == ["claimed"]
        assert await rescuer.tick_once(after=LEASE_SECONDS) == ["ready"]

    play(tmp_path, story)


def test_after_a_restart_every_lease_has_a_fresh_time(tmp_path: Path) -> None:
    """A restarted rescuer has no observations of the silence before it."""

    async def story(world: World) -> None:
        await world.claim(job(), node="there")
        roles = await world.roles()
        await Rescuer(world, roles).tick_once()
        restarted = Rescuer(world, roles)

        assert await restarted.tick_once(after=LEASE_SECONDS) == ["claimed"]
        assert await restarted.tick_once(after=LEASE_SECONDS - 0.1) == ["claimed"]
        assert await restarted.tick_once(after=0.1) == ["ready"]

    play(tmp_path, story)


def test_a_pause_ends_after_its_seconds(tmp_path: Path) -> None:
    """A job that may be tried again is claimed only when its pause has lasted, on the rescuer's clock."""

    async def story(world: World) -> None:
        [lease] = await world.claim(job())
        await world.desk().fail([Fault(lease=lease, error="no")])
        rescuer = Rescuer(world, await world.roles())

        await rescuer.tick_once()
        await rescuer.tick_once(after=0.9)
        assert await world.desk().claim({"play"}, 1) == []
        await rescuer.tick_once(after=0.1)
        [again] = await world.desk().claim({"play"}, 1)
        assert (again.job, again.attempts) == (lease.job, 2)

    play(tmp_path, story)


def test_a_lease_that_runs_out_for_the_last_time_is_buried(tmp_path: Path) -> None:
    """Attempts are counted however they end."""

    async def story(world: World) -> None:
        await world.desk().enqueue([job()])
        rescuer = Rescuer(world, await world.roles())

        for _ in range(3):
            await world.desk("there").claim({"play"}, 1)
            await rescuer.tick_once()
            await rescuer.tick_once(after=LEASE_SECONDS)
            await rescuer.tick_once()
            states = await rescuer.tick_once(after=5.0)

        assert states == ["dead"]
        [verdict] = await world.events(Buried)
        assert (verdict.attempts, verdict.error) == (3, "the lease was not renewed")

    play(tmp_path, story)


def test_a_rescuer_with_an_expired_term_revokes_nothing(tmp_path: Path) -> None:
    """Another holds the role: nothing of its transaction happens, and the lease is alive."""

    async def story(world: World) -> None:
        await world.claim(job(), node="there")
        rescuer = Rescuer(world, await world.roles())
        await rescuer.tick_once()
        async with world.store.begin() as tx:
            await tx.release_roles(None)
        await world.roles("another")

        with pytest.raises(NotLeader):
            await rescuer.tick_once(after=LEASE_SECONDS)

        assert [row.state for row in await world.jobs()] == ["claimed"]
        assert await world.events(Rescued, Buried) == []

    play(tmp_path, story)


def test_thousands_of_leases_that_end_together_are_all_revoked(tmp_path: Path) -> None:
    """When a whole fleet vanishes, every job comes back, in as many ticks as that needs."""

    async def story(world: World) -> None:
        async with world.store.begin() as tx:
            await tx.enqueue(
                [
                    JobRequest(id=f"{seed:024}", kind="play", variant="hex8_2p", key=f"play:{seed}", body=b"{}")
                    for seed in range(2_500)
                ]
            )
            await tx.claim({"play"}, "there", LEASE_SECONDS, 2_500)
        rescuer = Rescuer(world, await world.roles())
        await rescuer.act()

        await rescuer.act(after=LEASE_SECONDS)
        for _ in range(5):
            await rescuer.act()

        async with world.store.read() as view:
            assert await view.count_jobs() == {("play", "ready"): 2_500}

    play(tmp_path, story)


def test_a_scope_runs_again_after_its_time(tmp_path: Path) -> None:
    """The end of a pause is an event, published once, so that whoever waits for it wakes up."""

    async def story(world: World) -> None:
        rescuer = Rescuer(world, await world.roles())
        async with world.store.begin() as tx:
            now = world.clock.now()
            await set_run_state(tx, world.envelopes, scope="cluster", state="paused", until=now + 60.0, now=now)
        for seconds in (0.0, 59.0, 1.0, 1.0):
            await rescuer.act(after=seconds)
        states = [(e.before, e.state) for e in await world.events(RunStateChanged) if isinstance(e, RunStateChanged)]
        assert states == [("running", "paused"), ("paused", "running")]

    play(tmp_path, story)


def test_a_task_of_a_dead_process_is_ended_once(tmp_path: Path) -> None:
    """Its place is free and its end is published, whoever sees it first; a task that lives is left alone."""

    async def story(world: World) -> None:
        host = processes.this_host()
        gone = Process(host=host, pid=os.getpid(), mark="another beginning")
        usual = {"type": "sync", "node": "here", "pid": 7, "beat_at": HostTick(host=host, tick=0.0)}
        await world.start_task(Task(id="dead", process=gone, **usual))
        await world.start_task(Task(id="alive", process=processes.find(os.getpid()), **usual))
        rescuer = Rescuer(world, await world.roles())
        await rescuer.act(after=1000.0)
        await rescuer.act(after=1000.0)
        ends = [(e.task, e.state, e.reason) for e in await world.events(TaskChanged) if isinstance(e, TaskChanged)]
        assert ends == [("dead", "orphaned", "its process 7 is gone")]
        async with world.store.read() as view:
            assert [task.id for task in await running_tasks(view)] == ["alive"]
        assert await world.events(Rescued) == []

    play(tmp_path, story)


def test_a_task_of_another_host_ends_when_its_beats_stop(tmp_path: Path) -> None:
    """Its process cannot be looked at from here: only beats that stood still for their time end it."""

    async def story(world: World) -> None:
        beat_at = HostTick(host="elsewhere", tick=0.0)
        far = await world.start_task(Task(id="far", type="sync", node="there", beat_at=beat_at))
        rescuer = Rescuer(world, await world.roles())
        await rescuer.act(after=1.0)
        await rescuer.act(after=200.0)
        async with world.store.begin() as tx:
            assert await tx.change_tasks([task_change(changed(far, beats=1))])
        await rescuer.act(after=1.0)
        await rescuer.act(after=299.0)
        assert await world.events(TaskChanged) == []
        await rescuer.act(after=1.0)
        [event] = await world.events(TaskChanged)
        assert isinstance(event, TaskChanged)
        assert event.state == "orphaned"

    play(tmp_path, story)


def test_refusals_of_a_lost_node_are_deleted(tmp_path: Path) -> None:
    """A node that claims nothing any more waits for nothing; those of other nodes stay."""

    async def story(world: World) -> None:
        rescuer = Rescuer(world, await world.roles())
        async with world.store.begin() as tx:
            await set_run_state(tx, world.envelopes, scope="cluster", state="paused", now=1.0)
        await world.desk().enqueue([job()])
        for node in ("here", "there"):
            await world.desk(node).claim({"play"}, 1)
        async with world.store.begin() as tx:
            await LOST_NODES.put_at(tx, {"there": 7})
        await rescuer.act()
        async with world.store.read() as view:
            assert list(await VERDICTS.scan(view)) == ["hex8_2p:claim.play:here"]

    play(tmp_path, story)
