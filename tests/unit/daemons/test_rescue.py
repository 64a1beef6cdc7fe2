"""Rescue takes back leases that stood still for their time on its own clock, and ends pauses that lasted theirs."""

from pathlib import Path

import pytest

from ringrift.cluster.leadership import Roles
from ringrift.daemons.rescue import rescue
from ringrift.events.work import Buried, Rescued
from ringrift.jobs import Play
from ringrift.kernel.errors import NotLeader
from ringrift.kernel.stall_detector import StallDetector
from ringrift.store.ports import JobRequest, Lease, Renewal
from ringrift.work.desk import Fault
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
