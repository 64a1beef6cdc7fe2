"""A node is starting, alive, suspect, lost or left, on its observer's clock; a start of either side gives grace."""

from pathlib import Path

import pytest

from ringrift.cluster.liveness import stored_states
from ringrift.cluster.roster import NODES, NodeRecord, NodeState, Roster, _judge, _Limits, _Sighting
from ringrift.daemons.rescue import rescue
from ringrift.daemons.watch import watch
from ringrift.events import node
from ringrift.events.base import Event, Unknown
from ringrift.events.work import Rescued
from ringrift.jobs import Play
from ringrift.kernel.settings import BusSettings, Policy
from ringrift.kernel.stall_detector import StallDetector
from ringrift.kernel.value import changed
from ringrift.store.ports import Renewal
from unit.work.world import LEASE_SECONDS, World, play

STARTING, ALIVE, SUSPECT, LOST, LEFT = NodeState
GRACE, BEAT = 120.0, 5.0
LIMITS = _Limits(beat_seconds=BEAT, grace_seconds=GRACE)
RECORD = NodeRecord(id="n", profile="full", address="", beat=7, boot="one")
SEEN = _Sighting(beat=7, boot="one", moved=1000.0, began=0.0, reported=True)


@pytest.mark.parametrize(
    ("silence", "doubted", "state"),
    [
        (9.9, False, ALIVE),
        (10.0, False, SUSPECT),
        (14.9, False, SUSPECT),
        (15.0, False, LOST),
        (9.9, True, ALIVE),
        (10.0, True, LOST),
    ],
)
def test_silence_makes_a_suspect_and_then_a_loss(silence: float, doubted: bool, state: NodeState) -> None:
    """Doubts of other nodes shorten a suspicion, and never begin one."""
    assert _judge(RECORD, SEEN, LIMITS, 1000.0 + silence, doubted=doubted) is state
    assert _judge(changed(RECORD, gone=True), SEEN, LIMITS, 1000.0 + silence, doubted=doubted) is LEFT


@pytest.mark.parametrize(
    ("seconds", "reported", "state"),
    [
        (0.0, False, STARTING),
        (119.0, False, STARTING),
        (129.9, False, STARTING),
        (130.0, False, SUSPECT),
        (135.0, False, LOST),
        (129.9, True, ALIVE),
        (130.0, True, SUSPECT),
    ],
)
def test_nothing_is_suspected_within_the_grace(seconds: float, reported: bool, state: NodeState) -> None:
    """Of a node that has not reported since nobody knows more than that it is starting."""
    sighting = _Sighting(beat=7, boot="one", moved=1000.0, began=1000.0, reported=reported)

    assert _judge(RECORD, sighting, LIMITS, 1000.0 + seconds) is state


def test_another_process_of_a_node_begins_its_grace_anew() -> None:
    """Its own report ends the start; a beat alone gives no new grace."""
    again = SEEN.after(changed(RECORD, boot="two", beat=1), 2000.0)
    beat = SEEN.after(changed(RECORD, beat=8), 2000.0)

    assert (again.began, again.moved, again.reported) == (2000.0, 2000.0, True)
    assert (beat.began, beat.moved) == (0.0, 2000.0)
    assert _judge(changed(RECORD, boot="two"), again, LIMITS, 2100.0) is ALIVE
    assert _judge(RECORD, beat, LIMITS, 2100.0) is LOST


class Watcher:
    """The daemons that watch nodes and leases, as one process of the coordinator has them."""

    def __init__(self, world: World, grace: float = GRACE) -> None:
        self.world, self.leases, self.readers = world, StallDetector(), StallDetector()
        self.roster = Roster(world.store, world.clock, BEAT, grace)

    async def look(self) -> dict[str, NodeState]:
        """Look once; the states that others read."""
        world, roles = self.world, await self.world.roles()
        shared = {"store": world.store, "roles": roles, "envelopes": world.envelopes, "clock": world.clock}
        await watch(**shared, roster=self.roster, policy=Policy(), bus_settings=BusSettings(), memory=self.readers)
        await rescue(**shared, desk=world.desk(), memory=self.leases)
        await roles.resign()
        async with world.store.read() as view:
            return await stored_states(view, await NODES.all(view))


async def published(world: World) -> list[Event | Unknown]:
    """What was published about nodes and leases."""
    return await world.events(node.Lost, node.Suspected, node.Recovered, Rescued)


def test_a_coordinator_that_was_started_again_waits_for_its_nodes(tmp_path: Path) -> None:
    """They are starting until they report; one that never does is suspected after the grace, and then lost."""

    async def story(world: World) -> None:
        await world.beat("a")
        await world.beat("b")
        watcher = Watcher(world)
        assert await watcher.look() == {"a": STARTING, "b": STARTING}

        world.clock.seconds += 60.0
        await world.beat("a")
        assert await watcher.look() == {"a": ALIVE, "b": STARTING}
        for state in (STARTING, SUSPECT, LOST):
            world.clock.seconds += {STARTING: 69.0, SUSPECT: 2.0, LOST: 5.0}[state]
            await world.beat("a")
            assert (await watcher.look())["b"] is state

        assert await published(world) == [node.Suspected(node="b", seconds=10.0), node.Lost(node="b", seconds=15.0)]
        assert (await Watcher(world).look())["b"] is LOST, "a new watcher knows what was published"

    play(tmp_path, story)


def test_a_suspect_that_others_do_not_reach_either_is_lost_at_once(tmp_path: Path) -> None:
    """After two missed heartbeats instead of three, and the event says so; one that beats is alive all the same."""

    async def story(world: World) -> None:
        watcher = Watcher(world, grace=0.0)
        watcher.roster.doubted = ("a", "b")
        for name in "abc":
            await world.beat(name)
        await watcher.look()
        world.clock.seconds += 10.0
        await world.beat("b")

        assert await watcher.look() == {"a": LOST, "b": ALIVE, "c": SUSPECT}
        assert await published(world) == [node.Lost(node="a", seconds=10.0), node.Suspected(node="c", seconds=10.0)]

    play(tmp_path, story)


def test_a_node_that_leaves_is_not_lost_and_one_that_is_rented_alarms_nobody(tmp_path: Path) -> None:
    """Its loss is an event with the reason why it is no alert."""

    async def story(world: World) -> None:
        watcher = Watcher(world, grace=0.0)
        await world.beat("a", ephemeral=True)
        await world.roster.put(NodeRecord(id="b", profile="full", address="b", beat=1, gone=True))
        await watcher.look()
        world.clock.seconds += 15.0

        assert await watcher.look() == {"a": LOST, "b": LEFT}
        assert await published(world) == [node.Lost(node="a", seconds=15.0, ephemeral=True)]

    play(tmp_path, story)


def test_a_fleet_that_is_back_within_30_seconds_has_lost_no_lease(tmp_path: Path) -> None:
    """The coordinator was away for an hour; then every node renews what it holds, the last one just in time."""

    async def story(world: World) -> None:
        names = [f"w{number}" for number in range(40)]
        leases = {}
        for number, name in enumerate(names):
            await world.beat(name)
            [leases[name]] = await world.claim(Play(variant="v_2p", model="m" * 64, games=1, seed=number), node=name)
        world.clock.seconds += 3600.0
        watcher = Watcher(world)
        await watcher.look()

        for name in names:
            world.clock.seconds += (LEASE_SECONDS - 0.5) / len(names)
            await world.beat(name)
            await world.desk(name).renew([Renewal(job=leases[name].job, fence=leases[name].fence)])
            states = await watcher.look()

        assert set(states.values()) == {ALIVE}
        assert await published(world) == []
        assert {row.holder for row in await world.jobs("claimed")} == set(names)
        world.clock.seconds += LEASE_SECONDS
        await watcher.look()
        assert len(await world.jobs("claimed")) == 0, "leases expire as ever"

    play(tmp_path, story)
