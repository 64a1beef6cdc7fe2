"""The log of matches: every block ever played stays as it was first reported."""

from pathlib import Path

import msgspec

from ringrift.evaluation import blocks
from ringrift.events.evaluation import Block, BlocksPlayed
from ringrift.kernel.value import changed
from ringrift.pipeline.ratings import BLOCKS, MATCHES, record_blocks
from unit.work.world import World, play

PLAYED = BlocksPlayed(
    variant="hex8_3p",
    candidate="c",
    champion="m",
    node="a",
    settings="sims=16",
    seed=7,
    blocks=tuple(Block(number=number, scores=(1.0, 0.0, 0.5), ranks=(1.0, 0.5, 0.5)) for number in range(3)),
)
OTHER = msgspec.structs.replace(PLAYED, blocks=(Block(number=0, scores=(0.0, 0.0, 0.0)),))


def test_blocks_stay_as_first_reported(tmp_path: Path) -> None:
    """The same node again changes nothing; another node's is beside it; other settings are another match."""

    async def story(world: World) -> None:
        async with world.store.begin() as tx:
            row, fresh = await record_blocks(tx, PLAYED, 5.0)
            _, again = await record_blocks(tx, OTHER, 6.0)
            await record_blocks(tx, msgspec.structs.replace(OTHER, node="b"), 7.0)
            await record_blocks(tx, msgspec.structs.replace(OTHER, settings="sims=32"), 8.0)

        async with world.store.read() as view:
            rows = [block for block in await BLOCKS.all(view) if block.match == row.id]
            matches = sorted(await MATCHES.all(view), key=lambda match: match.time)
            named = await BLOCKS.get_many(view, [block.id for block in fresh])
        assert (len(fresh), again) == (3, ())
        expected = [(0, "a", 5.0), (0, "b", 7.0), (1, "a", 5.0), (2, "a", 5.0)]
        assert [(block.number, block.node, block.time) for block in rows] == expected
        assert [(match.settings, match.time) for match in matches] == [("sims=16", 5.0), ("sims=32", 8.0)]
        recorded = tuple(changed(block, time=5.0) for block in blocks.from_event(PLAYED))
        assert tuple(named.values()) == fresh == recorded

    play(tmp_path, story)


def test_invalid_blocks_are_not_stored(tmp_path: Path) -> None:
    """A block without a score from every seat never comes into the log, nor does its match."""
    bad = msgspec.structs.replace(PLAYED, blocks=(Block(number=0, scores=(1.0,)), Block(number=1, scores=(2.0, 0, 0))))

    async def story(world: World) -> None:
        async with world.store.begin() as tx:
            _, fresh = await record_blocks(tx, bad, 5.0)
        async with world.store.read() as view:
            assert (fresh, await MATCHES.all(view)) == ((), [])

    play(tmp_path, story)
