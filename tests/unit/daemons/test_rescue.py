"""Rescue takes back leases that stood still for their time on its own clock, and ends pauses that lasted theirs."""

from pathlib import Path

import pytest

from ringrift.cluster.leadership import Roles
from ringrift.daemons.rescue import rescue
from ringrift.events.work import Buried, Rescued
from ringrift.jobs import Play
from ringrift.kernel.errors import NotLeader
from ringrift.kernel.watch import Watch
from ringrift.store.ports import Held, Lease, Wanted
from ringrift.work.desk import Fault
from unit.work.world import LEASE_SECONDS, World, play


def job(seed: int = 0) -> Play:
    """A batch of games to play."""
    return Play(variant="hex8_2p", model="m", games=10, seed=seed)


class Rescuer:
    """The daemon with the watches of one life of its node."""

    def __init__(self, world: World, roles: Roles) -> None:
        self.world, self.roles = world, roles
        self.leases, self.pauses = Watch(), Watch()

    async def look(self, *, after: float = 0.0) -> list[str]:
        """Look once, *after* so many seconds; the states of all jobs then."""
        await self.act(after=after)
        return [row.state for row in await self.world.jobs()]

    async def act(self, *, after: float = 0.0) -> None:
        """Look once, *after* so many seconds."""
        world = self.world
        world.clock.seconds += after
        await rescue(
            store=world.store, desk=world.desk(), scribe=world.scribe, roles=self.roles, clock=world.clock,
            lease_watch=self.leases, pause_watch=self.pauses,
        )  # fmt: skip


async def renew(world: World, lease: Lease) -> None:
    """Say that *lease* is alive."""
    await world.desk("there").renew([Held(job=lease.job, fence=lease.fence)])


def test_a_lease_is_taken_back_after_its_full_time(tmp_path: Path) -> None:
    """Not a moment before; then the job waits to be tried again, and one event says so."""

    async def story(world: World) -> None:
        [lease] = await world.claim(job(), node="there")
        rescuer = Rescuer(world, await world.roles())

        assert await rescuer.look() == ["claimed"]
        assert await rescuer.look(after=LEASE_SECONDS - 0.1) == ["claimed"]
        assert await rescuer.look(after=0.1) == ["ready"]
        assert await world.told(Rescued, Buried) == [Rescued(jobs=(lease.job,))]
        [row] = await world.jobs()
        assert (row.error, row.pause, row.attempts) == ("the lease was not renewed", 1.0, 1)

    play(tmp_path, story)


def test_a_renewed_lease_has_its_full_time_again(tmp_path: Path) -> None:
    """A holder that renews is left alone for as long as it does."""

    async def story(world: World) -> None:
        [lease] = await world.claim(job(), node="there")
        rescuer = Rescuer(world, await world.roles())
        await rescuer.look()

        for _ in range(5):
            world.clock.seconds += LEASE_SECONDS - 1.0
            await renew(world, lease)
            assert await rescuer.look() == ["claimed"]
        assert await rescuer.look(after=LEASE_SECONDS) == ["ready"]

    play(tmp_path, story)


def test_after_a_restart_every_lease_has_a_fresh_time(tmp_path: Path) -> None:
    """A new life of the rescuer knows nothing of the silence before it."""

    async def story(world: World) -> None:
        await world.claim(job(), node="there")
        roles = await world.roles()
        await Rescuer(world, roles).look()
        restarted = Rescuer(world, roles)

        assert await restarted.look(after=LEASE_SECONDS) == ["claimed"]
        assert await restarted.look(after=LEASE_SECONDS - 0.1) == ["claimed"]
        assert await restarted.look(after=0.1) == ["ready"]

    play(tmp_path, story)


def test_a_pause_ends_after_its_seconds(tmp_path: Path) -> None:
    """A job that may be tried again is claimed only when its pause has lasted, on the rescuer's clock."""

    async def story(world: World) -> None:
        [lease] = await world.claim(job())
        await world.desk().fail([Fault(lease=lease, error="no")])
        rescuer = Rescuer(world, await world.roles())

        await rescuer.look()
        await rescuer.look(after=0.9)
        assert await world.desk().claim({"play"}, 1) == []
        await rescuer.look(after=0.1)
        [again] = await world.desk().claim({"play"}, 1)
        assert (again.job, again.attempts) == (lease.job, 2)

    play(tmp_path, story)


def test_a_lease_that_runs_out_for_the_last_time_is_buried(tmp_path: Path) -> None:
    """Tries are counted however they end."""

    async def story(world: World) -> None:
        await world.desk().ask([job()])
        rescuer = Rescuer(world, await world.roles())

        for _ in range(3):
            await world.desk("there").claim({"play"}, 1)
            await rescuer.look()
            await rescuer.look(after=LEASE_SECONDS)
            await rescuer.look()
            states = await rescuer.look(after=5.0)

        assert states == ["dead"]
        [said] = await world.told(Buried)
        assert (said.attempts, said.error) == (3, "the lease was not renewed")

    play(tmp_path, story)


def test_a_rescuer_whose_term_is_over_takes_nothing_back(tmp_path: Path) -> None:
    """Another holds the role: nothing of its transaction happens, and the lease is alive."""

    async def story(world: World) -> None:
        await world.claim(job(), node="there")
        rescuer = Rescuer(world, await world.roles())
        await rescuer.look()
        async with world.store.begin() as tx:
            await tx.drop(None)
        await world.roles("another")

        with pytest.raises(NotLeader):
            await rescuer.look(after=LEASE_SECONDS)

        assert [row.state for row in await world.jobs()] == ["claimed"]
        assert await world.told(Rescued, Buried) == []

    play(tmp_path, story)


def test_thousands_of_leases_that_end_together_are_all_taken_back(tmp_path: Path) -> None:
    """When a whole fleet vanishes, every job comes back, in as many looks as that needs."""

    async def story(world: World) -> None:
        async with world.store.begin() as tx:
            await tx.enqueue([
                Wanted(id=f"{seed:024}", kind="play", variant="hex8_2p", key=f"play:{seed}", body=b"{}")
                for seed in range(2_500)
            ])  # fmt: skip
            await tx.claim({"play"}, "there", LEASE_SECONDS, 2_500)
        rescuer = Rescuer(world, await world.roles())
        await rescuer.act()

        await rescuer.act(after=LEASE_SECONDS)
        for _ in range(5):
            await rescuer.act()

        async with world.store.read() as view:
            assert await view.tally() == {("play", "ready"): 2_500}

    play(tmp_path, story)
