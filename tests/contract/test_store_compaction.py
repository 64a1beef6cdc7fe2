"""Compaction drops what nobody needs any more, and nothing else."""

from contract.engines import Engine, append, delivery, logged
from ringrift.store.ports import Store

TEN = [str(number) for number in range(10)]


async def compact(store: Store, keep: int = 1, limit: int = 1000) -> int:
    """Compact once."""
    async with store.begin() as tx:
        return await tx.compact(keep, limit)


def test_compaction_keeps_the_last_events(engine: Engine) -> None:
    """What is kept are the last *keep* events, and one call drops no more than its limit, oldest first."""

    async def story(store: Store) -> tuple[int, list[str], int, list[str]]:
        await append(store, *TEN)
        first = await compact(store, keep=4, limit=2)
        after_first = await logged(store)
        return first, after_first, await compact(store, keep=4), await logged(store)

    assert engine.run(story) == (2, TEN[2:], 4, TEN[6:])


def test_compaction_never_passes_a_durable_reader(engine: Engine) -> None:
    """What the slowest reader has not taken in stays, whatever the others have."""

    async def story(store: Store) -> tuple[int, list[str]]:
        told = await append(store, *TEN)
        async with store.begin() as tx:
            await tx.enrol("fast", told[9].position)
            await tx.enrol("slow", told[2].position)
        return await compact(store), await logged(store)

    assert engine.run(story) == (3, TEN[3:])


def test_compaction_keeps_what_a_reader_has_not_seen_at_all(engine: Engine) -> None:
    """A reader that has taken nothing in holds the whole log."""

    async def story(store: Store) -> tuple[int, list[str]]:
        await append(store, *TEN)
        async with store.begin() as tx:
            await tx.enrol("new", 0)
        return await compact(store), await logged(store)

    assert engine.run(story) == (0, TEN)


def test_compaction_keeps_the_events_of_unsettled_deliveries(engine: Engine) -> None:
    """Parked and dead deliveries keep their events for another try; done and discarded ones do not."""

    async def story(store: Store) -> list[str]:
        told = await append(store, *TEN)
        states = ("parked", "dead", "done", "discarded")
        async with store.begin() as tx:
            await tx.park([delivery("r", e.position, state) for e, state in zip(told, states, strict=False)])
        await compact(store)
        return await logged(store)

    assert engine.run(story) == ["0", "1", "9"]


def test_positions_never_repeat(engine: Engine) -> None:
    """The newest event is never dropped, so that a position is not given twice, also after reopening."""

    async def first(store: Store) -> int:
        told = await append(store, *TEN)
        assert await compact(store, keep=0) == 9
        return told[-1].position

    async def second(store: Store) -> int:
        assert await compact(store, keep=0) == 0
        [told] = await append(store, "later")
        return told.position

    last = engine.run(first)

    assert engine.run(second) > last


def test_an_empty_log_has_nothing_to_drop(engine: Engine) -> None:
    """Compacting an empty log drops nothing and breaks nothing."""
    assert engine.run(compact) == 0


def test_settled_deliveries_go_with_their_events(engine: Engine) -> None:
    """A delivery that was done or discarded is forgotten once its event is gone; unsettled ones are never."""

    async def story(store: Store) -> list[str]:
        told = await append(store, *TEN)
        states = ("done", "discarded", "done", "dead")
        async with store.begin() as tx:
            await tx.park([delivery("r", e.position, state) for e, state in zip(told, states, strict=False)])
        await compact(store, keep=8)
        await compact(store, keep=1)
        async with store.read() as view:
            return [one.state for one in await view.deliveries(("done", "discarded", "dead", "parked"), 10)]

    assert engine.run(story) == ["dead"]


def test_the_disk_gets_its_space_back(on_file: Engine) -> None:
    """After thousands of events were dropped, the database has fewer pages than before."""

    async def story(store: Store) -> tuple[int, int]:
        for start in range(0, 4000, 500):
            await append(store, *(str(number) for number in range(start, start + 500)))
        full = await pages(store)
        while await compact(store):
            pass
        return full, await pages(store)

    full, left = on_file.run(story)

    assert left < full / 2


async def pages(store: Store) -> int:
    """How many pages the database has."""
    async with store.begin() as tx:
        [(count,)] = tx._db.execute("PRAGMA page_count")  # type: ignore[attr-defined]  # a question of this engine only
    return int(count)
