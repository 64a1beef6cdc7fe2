"""Manifests tell in constant time whether anything is to do, and stay in step with the ledger."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.blobs.index import summarize
from ringrift.blobs.ports import BlobSummary, StoredBlob
from ringrift.sim.blobs import MemoryBlobs
from ringrift.store.ports import Put
from ringrift.sync import ledger, manifest
from unit.work.world import World, play

NAMES = [hashlib.sha256(bytes([number])).hexdigest() for number in range(40)]
SIZES = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 1 << 40))


class ListedBlobs(MemoryBlobs):
    """Blobs that count how many of their names are listed."""

    listed = 0

    async def page(self, after: str, limit: int) -> Sequence[StoredBlob]:
        page = await super().page(after, limit)
        self.listed += len(page)
        return page


@settings(max_examples=100)
@given(SIZES, SIZES)
def test_a_manifest_does_not_depend_on_the_way_to_it(first: dict[str, int], second: dict[str, int]) -> None:
    """In any order, with detours: the sum is that of what is there."""
    others = {blob: size for blob, size in second.items() if blob not in first}

    whole = manifest.plus(manifest.plus(BlobSummary(), others.items()), reversed(first.items()))

    assert whole == summarize(first | others)
    assert manifest.minus(whole, others.items()) == summarize(first)
    assert manifest.is_same(whole, summarize(first)) == (not others)


def test_only_what_differs_is_listed(tmp_path: Path) -> None:
    """One new and one lost blob among many: names are listed only where they begin alike."""

    async def story(world: World) -> None:
        blobs = ListedBlobs()
        for number in range(5000):
            blobs.add(bytes(number))
        await ledger.correct(world.store, blobs, "me")
        blobs.listed = 0
        del blobs.files[blobs.add(bytes(17))]
        blobs.add(b"new")

        assert await ledger.correct(world.store, blobs, "me") == (1, 1)
        assert await listed_of(world, "me") == await blobs.summary()
        assert blobs.listed <= 2 * 500

    play(tmp_path, story)


async def listed_of(world: World, node: str) -> BlobSummary | None:
    """The manifest of *node*."""
    async with world.store.read() as view:
        return await ledger.manifest_of(view, node)


def test_the_manifest_follows_every_change_of_the_ledger(tmp_path: Path) -> None:
    """Rows that are added, put by jobs, forgotten, and added once more: the sum is that of the rows."""

    async def story(world: World) -> None:
        rng, rows = Random(11), dict[str, int]()
        async with world.store.begin() as tx:
            await ledger.add(tx, [("f" * 64, "other", 7)])
            await ledger.add(tx, [(NAMES[0], "me", 3)])
        rows[NAMES[0]] = 3
        for _ in range(60):
            blob, size = rng.choice(NAMES), rng.randint(1, 9)
            async with world.store.begin() as tx:
                match rng.randrange(4):
                    case 0:
                        await ledger.forget(tx, blob, ["me", "other"])
                        rows.pop(blob, None)
                    case 1 if blob not in rows:
                        await tx.put([ledger.holding(blob, "me", size)])
                        rows[blob] = size
                    case 2:
                        await ledger.sum_up(tx, "me")
                    case _:
                        await ledger.add(tx, [(blob, "me", size)])
                        rows.setdefault(blob, size)
            assert await listed_of(world, "me") == summarize(rows)
        assert await listed_of(world, "other") == summarize({"f" * 64: 7})

    play(tmp_path, story)


def test_equal_manifests_are_corrected_without_a_listing(tmp_path: Path) -> None:
    """A node whose folder is what the ledger says starts in constant time, however many blobs it has."""

    async def story(world: World) -> None:
        blobs = ListedBlobs()
        for number in range(700):
            blobs.add(bytes(number))
        assert await ledger.correct(world.store, blobs, "me") == (700, 0)
        assert await listed_of(world, "me") == await blobs.summary()
        blobs.listed = 0

        assert await ledger.correct(world.store, blobs, "me") == (0, 0)

        assert blobs.listed == 0

    play(tmp_path, story)


def test_rows_that_no_sum_contains_are_summed_by_a_correction(tmp_path: Path) -> None:
    """Rows of earlier versions have no size and were never summed; one that was put again was summed twice."""

    async def story(world: World) -> None:
        blobs = MemoryBlobs()
        names = [blobs.add(bytes(number)) for number in range(600)]
        old = [Put(kind="holding", id=f"{blob}@me", body=b"", index={"blob": blob, "node": "me"}) for blob in names]
        async with world.store.begin() as tx:
            await tx.put(old)
        assert await listed_of(world, "me") is None

        for _ in range(2):
            assert await ledger.correct(world.store, blobs, "me") == (0, 0)
            here, listed = await blobs.summary(), await listed_of(world, "me")
            assert listed is not None
            assert manifest.is_same(listed, here)
            async with world.store.begin() as tx:
                await tx.put([ledger.holding(names[5], "me")])
                await ledger.sum_up(tx, "me")
            assert (await listed_of(world, "me")) != listed

    play(tmp_path, story)
