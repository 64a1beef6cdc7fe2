"""In a running cluster nodes show what they do, and trouble with one is raised and cleared by itself."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from ringrift.cluster.alerts import closed_alerts, open_alerts
from ringrift.cluster.roster import KIND, NodeRecord
from ringrift.events import cluster
from ringrift.sim.loop import SimLoop, run
from ringrift.sim.world import World
from ringrift.store.ports import Reads

SECONDS_MAX, LOOK_SECONDS = 60.0, 0.5


async def watched(world: World, question: Callable[[Reads], Awaitable[bool]], what: str) -> None:
    """Wait in virtual time until *question* holds of the store."""
    end = world.loop.time() + SECONDS_MAX
    while not await world.ask(question):
        assert world.loop.time() < end, f"{what} did not happen"
        await asyncio.sleep(LOOK_SECONDS)  # of virtual time


async def busy(view: Reads) -> bool:
    """Whether some node says in its record that it does a job."""
    found = [msgspec.json.decode(one.body, type=NodeRecord) for one in await view.scan(KIND, "", 10)]
    return any(node.doing.jobs and node.doing.daemons for node in found)


async def raised(view: Reads) -> bool:
    """Whether it is an open alert that n3 was lost."""
    return "node_lost:n3" in [one.id for one in await open_alerts(view)]


async def cleared(view: Reads) -> bool:
    """Whether that is over."""
    return "node_lost:n3" in [one.id for one in await closed_alerts(view)]


def test_a_cluster_shows_what_it_does_and_what_is_wrong() -> None:
    """A node's jobs stand in its record; one that is killed is an alert until it is back; roles are told once each."""

    async def story(loop: SimLoop) -> list[cluster.RoleTaken]:
        world = World(loop, 5)
        try:
            await world.boot()
            await watched(world, busy, "working")
            world.kill("n3")
            await watched(world, raised, "missing a node")
            world.start("n3")
            await watched(world, cleared, "having it back")
            names = [cluster.RoleTaken.name()]
            told = await world.ask(lambda view: view.read(0, 1000, names))
            return [msgspec.json.decode(one.body, type=cluster.RoleTaken) for one in told]
        finally:
            world.disk.close()

    taken = run(5, story)

    assert len({(one.role, one.term) for one in taken}) == len(taken)
