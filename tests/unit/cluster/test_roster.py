"""A node is present while its beat moves, on the observer's own clock."""

from pathlib import Path

from ringrift.cluster.activity import Activity
from ringrift.cluster.daemon_summary import DaemonSummary
from ringrift.cluster.roster import NODES, SILENT_BEATS, NodeRecord, Roster
from ringrift.kernel.health import Health, Status
from ringrift.store.ports import Put
from ringrift.supervision.status import DaemonStatus
from unit.work.world import World, play

PATIENCE = SILENT_BEATS * 5.0


async def names(roster: Roster) -> list[str]:
    """The ids of those that are present."""
    return [node.id for node in await roster.present()]


def test_a_node_is_present_for_three_beats_after_its_last(tmp_path: Path) -> None:
    """At first sight it counts; silent for three beats it does not; with the next beat it is back."""

    async def story(world: World) -> None:
        await world.beat("a")
        seen = [await names(world.roster)]
        for step in (PATIENCE - 0.1, 0.1, 100.0):
            world.clock.seconds += step
            seen.append(await names(world.roster))
        await world.beat("a")
        seen.append(await names(world.roster))

        assert seen == [["a"], ["a"], [], [], ["a"]]

    play(tmp_path, story)


def test_a_beating_node_stays_and_a_silent_one_goes(tmp_path: Path) -> None:
    """Nodes are watched apart, and every node that ever sent a beat is remembered."""

    async def story(world: World) -> None:
        await world.beat("a")
        await world.beat("b", profile="ephemeral", ephemeral=True)
        await names(world.roster)
        for _ in range(4):
            world.clock.seconds += 5.0
            await world.beat("a")
            present = await names(world.roster)

        assert present == ["a"]
        everyone = await world.roster.all_nodes()
        assert [(node.id, node.ephemeral) for node in everyone] == [("a", False), ("b", True)]

    play(tmp_path, story)


def test_a_new_observer_counts_every_node_at_first(tmp_path: Path) -> None:
    """A new observer cannot know which nodes are silent: it waits for three beats first."""

    async def story(world: World) -> None:
        await world.beat("a")
        await names(world.roster)
        world.clock.seconds += 100.0
        fresh = Roster(world.store, world.clock, 5.0)

        assert await names(world.roster) == []
        assert await names(fresh) == ["a"]
        world.clock.seconds += PATIENCE
        assert await names(fresh) == []

    play(tmp_path, story)


def test_a_node_that_deregisters_is_gone_at_once(tmp_path: Path) -> None:
    """Its silence is not waited for."""

    async def story(world: World) -> None:
        await world.beat("a")
        await world.roster.put(NodeRecord(id="a", profile="full", address="x", beat=1, gone=True))

        assert await names(world.roster) == []
        assert [node.gone for node in await world.roster.all_nodes()] == [True]

    play(tmp_path, story)


def test_a_beat_that_goes_back_is_a_beat(tmp_path: Path) -> None:
    """A machine that was restarted counts from 0; any change is a beat."""

    async def story(world: World) -> None:
        await world.roster.put(NodeRecord(id="a", profile="full", address="x", beat=900))
        await names(world.roster)
        world.clock.seconds += PATIENCE
        await world.roster.put(NodeRecord(id="a", profile="full", address="x", beat=3))

        assert await names(world.roster) == ["a"]

    play(tmp_path, story)


def test_a_status_of_another_version_does_not_hide_the_other_nodes(tmp_path: Path) -> None:
    """A heartbeat with a status that this version does not have reads as unknown, and every node stays listed."""

    async def story(world: World) -> None:
        strange = DaemonStatus(name="x", health=Health(part="x", status=Status.DEGRADED))
        activity = Activity(daemons=DaemonSummary(statuses=(strange,)))
        await world.roster.put(NodeRecord(id="a", profile="full", address="", beat=1, activity=activity))
        await world.beat("b")
        async with world.store.begin() as tx:
            body = (await tx.get(NODES.kind, ["a"]))["a"]
            changed = body.replace(b'"status":2', b'"status":9')
            assert changed != body
            await tx.put([Put(kind=NODES.kind, id="a", body=changed)])

        nodes = {node.id: node for node in await world.roster.all_nodes()}

        assert set(nodes) == {"a", "b"}
        [daemon] = nodes["a"].activity.daemons.statuses
        assert daemon.health.status is Status.UNKNOWN

    play(tmp_path, story)
