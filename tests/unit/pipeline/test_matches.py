"""The log of matches: every block that was ever played stays as it was first told."""

from pathlib import Path

import msgspec

from ringrift.evaluation import blocks
from ringrift.events.evaluation import BlocksPlayed, Played
from ringrift.pipeline.matches import blocks_of, by_ids, matches_of, note
from unit.work.world import World, play

TOLD = BlocksPlayed(
    variant="hex8_3p", candidate="c", champion="m", node="a", settings="sims=16", seed=7,
    blocks=tuple(Played(number=number, scores=(1.0, 0.0, 0.5), ranks=(1.0, 0.5, 0.5)) for number in range(3)),
)  # fmt: skip
OTHER = msgspec.structs.replace(TOLD, blocks=(Played(number=0, scores=(0.0, 0.0, 0.0)),))


def test_blocks_are_kept_as_they_were_first_told(tmp_path: Path) -> None:
    """The same node again changes nothing; another node's is beside it; other settings are another match."""

    async def story(world: World) -> None:
        async with world.store.begin() as tx:
            row, fresh = await note(tx, TOLD, 5.0)
            _, again = await note(tx, OTHER, 6.0)
            await note(tx, msgspec.structs.replace(OTHER, node="b"), 7.0)
            await note(tx, msgspec.structs.replace(OTHER, settings="sims=32"), 8.0)

        async with world.store.read() as view:
            rows, matches = await blocks_of(view, row.id), await matches_of(view, "hex8_3p")
            named = await by_ids(view, [block.id for block in fresh])
        assert (len(fresh), again) == (3, ())
        assert [(one.block.number, one.block.node, one.time) for one in rows] == [
            (0, "a", 5.0), (0, "b", 7.0), (1, "a", 5.0), (2, "a", 5.0),
        ]  # fmt: skip
        assert [(one.settings, one.time) for one in matches] == [("sims=16", 5.0), ("sims=32", 8.0)]
        assert tuple(one.block for one in named) == fresh == blocks.of(TOLD)

    play(tmp_path, story)


def test_what_is_no_evidence_is_not_kept(tmp_path: Path) -> None:
    """A block without a score from every seat never comes into the log, nor does its match."""
    bad = msgspec.structs.replace(TOLD, blocks=(Played(number=0, scores=(1.0,)), Played(number=1, scores=(2.0, 0, 0))))

    async def story(world: World) -> None:
        async with world.store.begin() as tx:
            _, fresh = await note(tx, bad, 5.0)
        async with world.store.read() as view:
            assert (fresh, await matches_of(view, "hex8_3p")) == ((), [])

    play(tmp_path, story)
