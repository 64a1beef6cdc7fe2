"""A new observer counts a node as present when its beat moves, and waits no longer than a node may be silent."""

import asyncio
from pathlib import Path

import pytest

from ringrift.cli.presence import Presence, observe
from ringrift.cluster.liveness import LOST_NODES
from ringrift.cluster.roster import NodeRecord
from ringrift.kernel.errors import NodeAway, UnknownName
from unit.supervision.watched import loop_clock
from unit.work.world import World, play

BEAT_SECONDS = 5.0


def record(id: str, beat: int = 0, *, gone: bool = False) -> NodeRecord:
    """The record of a node."""
    return NodeRecord(id=id, profile="full", address=id, beat=beat, gone=gone)


def ids(presence: Presence) -> tuple[list[str], list[str]]:
    """The present and the silent nodes."""
    return [node.id for node in presence.present], [node.id for node in presence.silent]


def observed(folder: Path, *, beating: tuple[str, ...], lost: dict[str, int] | None = None) -> tuple[Presence, float]:
    """The presence of a, b and c, of which some beat, and the seconds it took; d has left."""

    async def story(world: World) -> tuple[Presence, float]:
        clock = loop_clock()
        for node in (record("a"), record("b"), record("c"), record("d", gone=True)):
            await world.roster.put(node)
        async with world.store.begin() as tx:
            await LOST_NODES.put_at(tx, lost or {})

        async def beat() -> None:
            for number in range(1, 10):
                await asyncio.sleep(BEAT_SECONDS)
                for id in beating:
                    await world.roster.put(record(id, number))

        task, begun = asyncio.get_running_loop().create_task(beat()), clock.tick()
        presence = await observe(world.store, clock, BEAT_SECONDS)
        task.cancel()
        return presence, clock.tick() - begun

    return play(folder, story, simulated=True)


def test_a_node_is_present_when_its_beat_moves(tmp_path: Path) -> None:
    """Once every beat has moved there is nothing to wait for."""
    presence, seconds = observed(tmp_path, beating=("a", "b", "c"))

    assert ids(presence) == (["a", "b", "c"], [])
    assert [node.beat for node in presence.present] == [1, 1, 1]
    assert presence.departed == ("d",)
    assert BEAT_SECONDS <= seconds < BEAT_SECONDS + 1.0


def test_one_that_stays_silent_is_waited_for_as_long_as_it_may(tmp_path: Path) -> None:
    """Then it is silent, and the others are here."""
    presence, seconds = observed(tmp_path, beating=("a", "c"))

    assert ids(presence) == (["a", "c"], ["b"])
    assert 3 * BEAT_SECONDS <= seconds < 3 * BEAT_SECONDS + 1.0


@pytest.mark.parametrize(("beat", "waits"), [(0, False), (-5, True)])
def test_one_that_is_known_to_be_lost_is_not_waited_for(tmp_path: Path, beat: int, waits: bool) -> None:
    """Unless it has beaten since it was written down as lost."""
    presence, seconds = observed(tmp_path, beating=("a", "c"), lost={"b": beat})

    assert ids(presence) == (["a", "c"], ["b"])
    assert (seconds > 2 * BEAT_SECONDS) == waits


def test_an_empty_cluster_is_observed_at_once(tmp_path: Path) -> None:
    """Where no node ever was, or all have left."""

    async def story(world: World) -> Presence:
        await world.roster.put(record("d", gone=True))
        return await observe(world.store, world.clock, BEAT_SECONDS)

    assert ids(play(tmp_path, story)) == ([], [])


@pytest.mark.parametrize(("node", "error"), [("gone", NodeAway), ("never", UnknownName)])
def test_one_node_can_be_looked_at_alone(node: str, error: type[Exception]) -> None:
    """One that left is away, one that never was is unknown; the others can be asked for alone."""
    presence = Presence(present=(record("a"),), silent=(record("b"),), departed=("gone",))

    with pytest.raises(error):
        presence.only(node)
    assert ids(presence.only("a")) == (["a"], [])
    assert ids(presence.only("b")) == ([], ["b"])
    assert presence.only(None) == presence
