"""The ledger says who holds what, and is put right by who looks."""

from pathlib import Path
from random import Random

from ringrift.sync import ledger
from unit.work.world import World, play

BLOBS = [letter * 64 for letter in "abcdef"]


def test_holders_are_found_by_blob(tmp_path: Path) -> None:
    """Every node that was written down for a blob is found, until it is taken back."""

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


def test_the_ledger_is_made_to_say_what_is_there(tmp_path: Path) -> None:
    """Whatever it said of a node, afterwards it says exactly what lies there, and nothing else has changed."""

    async def story(world: World) -> None:
        rng = Random(7)
        await world.hold(BLOBS[0], "other")

        for _ in range(20):
            said, here = ({blob for blob in BLOBS if rng.random() < 0.5} for _ in range(2))
            async with world.store.begin() as tx:
                await ledger.correct(tx, "me", said)
                added, gone = await ledger.correct(tx, "me", here)

            assert (added, gone) == (len(here - said), len(said - here))
            assert {blob for blob in BLOBS if "me" in await world.holders(blob)} == here
            assert "other" in await world.holders(BLOBS[0])

    play(tmp_path, story)
