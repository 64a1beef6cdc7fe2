"""The ledger lists which node holds which blob, and is corrected by observations."""

from pathlib import Path
from random import Random

from ringrift.sync import ledger
from unit.work.world import World, play

BLOBS = [digit * 64 for digit in "abcdef"]


def test_holders_are_listed_by_blob(tmp_path: Path) -> None:
    """Every node that was recorded for a blob is listed, until it is removed."""

    async def story(world: World) -> None:
        await world.hold(BLOBS[0], "one", "two")
        await world.hold(BLOBS[1], "one")

        assert await world.holders(BLOBS[0]) == ["one", "two"]
        async with world.store.begin() as tx:
            await ledger.forget(tx, BLOBS[0], ["one", "never"])
        assert await world.holders(BLOBS[0]) == ["two"]
        assert await world.holders(BLOBS[1]) == ["one"]
        assert await world.holders(BLOBS[2]) == []

    play(tmp_path, story)


def test_the_ledger_is_corrected_to_the_observed_files(tmp_path: Path) -> None:
    """Whatever it listed for a node, afterwards it lists exactly the files there, and nothing else has changed."""

    async def story(world: World) -> None:
        rng = Random(7)
        await world.hold(BLOBS[0], "other")

        for _ in range(20):
            before, here = ({blob for blob in BLOBS if rng.random() < 0.5} for _ in range(2))
            async with world.store.begin() as tx:
                await ledger.correct(tx, "me", before)
                added, deleted = await ledger.correct(tx, "me", here)

            assert (added, deleted) == (len(here - before), len(before - here))
            assert {blob for blob in BLOBS if "me" in await world.holders(blob)} == here
            assert "other" in await world.holders(BLOBS[0])

    play(tmp_path, story)
