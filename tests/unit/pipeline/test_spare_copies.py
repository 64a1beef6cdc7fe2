"""A copy is spare only if enough others are proven, durable and there."""

from pathlib import Path

from ringrift.pipeline.spare_copies import choose_spare
from ringrift.store.ports import Origin
from ringrift.sync.receipts import Receipt, record
from unit.pipeline.blob_rig import write
from unit.pipeline.story import VARIANT, blob
from unit.work.world import World, play


def test_a_copy_counts_only_with_proof(tmp_path: Path) -> None:
    """By a receipt, or as its maker; a row in the ledger or an answer alone does not count."""

    async def story(world: World) -> None:
        games = blob("games")
        await world.hold(games, "here", "listed", "received", "maker")
        await write(world, Origin(blob=games, node="maker", kind="games", variant=VARIANT))
        async with world.store.begin() as tx:
            facts = {"source": "here", "transport": "folder", "size": 1, "seconds": 1.0, "time": 0.0}
            await record(tx, Receipt(blob=games, node="received", **facts))
            await record(tx, Receipt(blob=games, node="gone", **facts))

        async def is_spare(copies_min: int, *answers: str) -> bool:
            async with world.store.read() as view:
                return bool(await choose_spare(view, [games], "here", {games: answers}, copies_min))

        assert await is_spare(2, "received", "maker")
        assert not await is_spare(2, "received", "listed")
        assert not await is_spare(2, "received", "gone")
        assert not await is_spare(2, "received", "here")
        assert not await is_spare(1, "listed")
        assert not await is_spare(0)
        assert await is_spare(1, "maker")

    play(tmp_path, story)
