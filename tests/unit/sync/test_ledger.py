"""The ledger lists which node holds which blob, and is corrected by observations."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from ringrift.sim.blobs import MemoryBlobs
from ringrift.store.ports import Tx
from ringrift.sync import ledger
from unit.work.world import World, play

BLOBS = [digit * 64 for digit in "019aef"]


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


def test_copies_of_many_blobs_are_read_together(tmp_path: Path) -> None:
    """With their sizes, and also for those that nobody holds; a beginning of a name finds those that somebody does."""

    async def story(world: World) -> None:
        async with world.store.begin() as tx:
            await ledger.add(tx, [(BLOBS[0], "one", 7), (BLOBS[0], "two", 7), (BLOBS[2], "one", 9)])
        async with world.store.read() as view:
            copies = await ledger.copies(view, BLOBS[:3])
            listed = [await ledger.find_listed(view, prefix, 9) for prefix in ("", "9", "e")]
        assert copies == {BLOBS[0]: (["one", "two"], 7), BLOBS[1]: ([], 0), BLOBS[2]: (["one"], 9)}
        assert listed == [[BLOBS[0], BLOBS[2]], [BLOBS[2]], []]

    play(tmp_path, story)


def test_the_ledger_is_corrected_to_the_observed_files(tmp_path: Path) -> None:
    """Whatever it listed for a node, afterwards it lists exactly the files there, and nothing else has changed."""

    async def story(world: World) -> None:
        rng = Random(7)
        await world.hold(BLOBS[0], "other")

        for _ in range(20):
            before, here = ({blob for blob in BLOBS if rng.random() < 0.5} for _ in range(2))
            blobs = MemoryBlobs()
            blobs.files.update(dict.fromkeys(before, b""))
            await ledger.correct(world.store, blobs, "me")
            blobs.files = dict.fromkeys(here, b"")
            added, deleted = await ledger.correct(world.store, blobs, "me")

            assert await ledger.correct(world.store, blobs, "me") == (0, 0)
            assert (added, deleted) == (len(here - before), len(before - here))
            assert {blob for blob in BLOBS if "me" in await world.holders(blob)} == here
            assert "other" in await world.holders(BLOBS[0])

    play(tmp_path, story)


def test_a_large_folder_is_corrected_in_short_transactions(tmp_path: Path) -> None:
    """A node with many blobs starts without a long transaction, and with none if nothing has changed."""

    async def story(world: World) -> None:
        sizes = list[int]()

        class Counted:
            def __getattr__(self, name: str) -> Any:
                return getattr(world.store, name)

            @asynccontextmanager
            async def begin(self) -> AsyncIterator[Tx]:
                async with world.store.begin() as tx:
                    before = len(await tx.scan("holding", "", 10_000))
                    yield tx
                    sizes.append(abs(len(await tx.scan("holding", "", 10_000)) - before))

        blobs = MemoryBlobs()
        names = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(1_234)]
        blobs.files = dict.fromkeys(names, b"")
        await world.hold(names[7], "other", "third")

        store: Any = Counted()
        assert await ledger.correct(store, blobs, "me") == (1_234, 0)
        assert sizes == [500, 500, 234]
        assert await ledger.correct(store, blobs, "me") == (0, 0)
        assert len(sizes) == 3
        blobs.files.clear()
        assert await ledger.correct(store, blobs, "me") == (0, 1_234)
        assert await world.holders(names[7]) == ["other", "third"]
        assert sizes[3:] == [500, 500, 234]

    play(tmp_path, story)
