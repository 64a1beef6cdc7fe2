"""Who only begins to look counts a node as here when its beat moves, and waits no longer than one may be silent."""

import asyncio
from pathlib import Path

import pytest

from ringrift.cli.heard import Heard, look
from ringrift.cluster.roster import NodeRecord
from ringrift.daemons.watch import LOST
from ringrift.kernel.errors import NodeAway, UnknownName
from ringrift.store.ports import Put
from unit.supervision.watched import loop_clock
from unit.work.world import World, play

BEAT_SECONDS = 5.0


def record(id: str, beat: int = 0, *, gone: bool = False) -> NodeRecord:
    """What a node says."""
    return NodeRecord(id=id, profile="full", address=id, beat=beat, gone=gone)


def ids(found: Heard) -> tuple[list[str], list[str]]:
    """Who is here, and who is silent."""
    return [node.id for node in found.here], [node.id for node in found.silent]


def seen(folder: Path, *, beating: tuple[str, ...], lost: dict[str, int] | None = None) -> tuple[Heard, float]:
    """What somebody finds who looks at a, b and c, of which some beat, and after how long; d has left."""

    async def story(world: World) -> tuple[Heard, float]:
        clock = loop_clock()
        for node in (record("a"), record("b"), record("c"), record("d", gone=True)):
            await world.roster.say(node)
        async with world.store.begin() as tx:
            await tx.put([Put(kind=LOST, id=id, body=str(beat).encode()) for id, beat in (lost or {}).items()])

        async def beat() -> None:
            for number in range(1, 10):
                await asyncio.sleep(BEAT_SECONDS)
                for id in beating:
                    await world.roster.say(record(id, number))

        task, begun = asyncio.get_running_loop().create_task(beat()), clock.tick()
        found = await look(world.store, clock, BEAT_SECONDS)
        task.cancel()
        return found, clock.tick() - begun

    return play(folder, story, simulated=True)


def test_a_node_is_here_when_its_beat_moves(tmp_path: Path) -> None:
    """As soon as everybody was heard there is nothing to wait for."""
    found, seconds = seen(tmp_path, beating=("a", "b", "c"))

    assert ids(found) == (["a", "b", "c"], [])
    assert [node.beat for node in found.here] == [1, 1, 1]
    assert found.gone == ("d",)
    assert BEAT_SECONDS <= seconds < BEAT_SECONDS + 1.0


def test_one_that_stays_silent_is_waited_for_as_long_as_it_may(tmp_path: Path) -> None:
    """Then it is silent, and the others are here."""
    found, seconds = seen(tmp_path, beating=("a", "c"))

    assert ids(found) == (["a", "c"], ["b"])
    assert 3 * BEAT_SECONDS <= seconds < 3 * BEAT_SECONDS + 1.0


@pytest.mark.parametrize(("beat", "waits"), [(0, False), (-5, True)])
def test_one_that_is_known_to_be_lost_is_not_waited_for(tmp_path: Path, beat: int, waits: bool) -> None:
    """Unless it has beaten since it was written down as lost."""
    found, seconds = seen(tmp_path, beating=("a", "c"), lost={"b": beat})

    assert ids(found) == (["a", "c"], ["b"])
    assert (seconds > 2 * BEAT_SECONDS) == waits


def test_nobody_is_found_at_once(tmp_path: Path) -> None:
    """Where no node ever was, or all have left."""

    async def story(world: World) -> Heard:
        await world.roster.say(record("d", gone=True))
        return await look(world.store, world.clock, BEAT_SECONDS)

    assert ids(play(tmp_path, story)) == ([], [])


@pytest.mark.parametrize(("node", "wrong"), [("gone", NodeAway), ("nobody", UnknownName)])
def test_one_that_cannot_be_shown_is_said(node: str, wrong: type[Exception]) -> None:
    """One that left is away, one that never was is unknown; the others can be asked for alone."""
    found = Heard(here=(record("a"),), silent=(record("b"),), gone=("gone",))

    with pytest.raises(wrong):
        found.only(node)
    assert ids(found.only("a")) == (["a"], [])
    assert ids(found.only("b")) == ([], ["b"])
    assert found.only(None) == found
