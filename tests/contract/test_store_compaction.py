"""Compaction drops events that no reader needs any more, and nothing else."""

from contract.engines import Engine, append, delivery, logged
from ringrift.store.ports import Store

TEN = [str(number) for number in range(10)]


async def compact(store: Store, keep: int = 1, limit: int = 1000) -> int:
    """Compact once."""
    async with store.begin() as tx:
        return await tx.compact(keep, limit)


def test_compaction_keeps_the_last_events(engine: Engine) -> None:
    """The last *keep* events stay, and one call drops no more than its limit, oldest first."""

    async def story(store: Store) -> tuple[int, list[str], int, list[str]]:
        await append(store, *TEN)
        first = await compact(store, keep=4, limit=2)
        after_first = await logged(store)
        return first, after_first, await compact(store, keep=4), await logged(store)

    assert engine.run(story) == (2, TEN[2:], 4, TEN[6:])


def test_compaction_gives_free_pages_back_to_the_disk(on_file: Engine) -> None:
    """After most events were dropped the file is much smaller than it was, once it is closed."""

    async def fill(store: Store) -> None:
        await append(store, *[f"{number} {'x' * 5000}" for number in range(400)])

    async def drop(store: Store) -> None:
        for _ in range(20):
            await compact(store, keep=1)

    on_file.run(fill)
    full = on_file.path.stat().st_size
    on_file.run(drop)

    assert full > 2_000_000
    assert on_file.path.stat().st_size < full / 4


def test_compaction_never_passes_a_durable_reader(engine: Engine) -> None:
    """Events after the slowest reader's position stay, wherever the other readers are."""

    async def story(store: Store) -> tuple[int, list[str]]:
        published = await append(store, *TEN)
        async with store.begin() as tx:
            await tx.register_reader("fast", published[9].position)
            await tx.register_reader("slow", published[2].position)
        return await compact(store), await logged(store)

    assert engine.run(story) == (3, TEN[3:])


def test_compaction_keeps_the_whole_log_for_a_new_reader(engine: Engine) -> None:
    """A reader at position 0 keeps the whole log."""

    async def story(store: Store) -> tuple[int, list[str]]:
        await append(store, *TEN)
        async with store.begin() as tx:
            await tx.register_reader("new", 0)
        return await compact(store), await logged(store)

    assert engine.run(story) == (0, TEN)


def test_compaction_keeps_the_events_of_unsettled_deliveries(engine: Engine) -> None:
    """Parked and dead deliveries keep their events for a retry; done and discarded ones do not."""

    async def story(store: Store) -> list[str]:
        published = await append(store, *TEN)
        states = ("parked", "dead", "done", "discarded")
        async with store.begin() as tx:
            await tx.put_deliveries(
                [delivery("r", e.position, state) for e, state in zip(published, states, strict=False)]
            )
        await compact(store)
        return await logged(store)

    assert engine.run(story) == ["0", "1", "9"]


def test_positions_never_repeat(engine: Engine) -> None:
    """The newest event is never dropped, so that no position is used twice, also after reopening."""

    async def first(store: Store) -> int:
        published = await append(store, *TEN)
        assert await compact(store, keep=0) == 9
        return published[-1].position

    async def second(store: Store) -> int:
        assert await compact(store, keep=0) == 0
        [published] = await append(store, "later")
        return published.position

    last = engine.run(first)

    assert engine.run(second) > last


def test_an_empty_log_has_nothing_to_drop(engine: Engine) -> None:
    """Compacting an empty log drops nothing and raises nothing."""
    assert engine.run(compact) == 0


def test_settled_deliveries_go_with_their_events(engine: Engine) -> None:
    """A done or discarded delivery is dropped once its event is; unsettled ones never are."""

    async def story(store: Store) -> list[str]:
        published = await append(store, *TEN)
        states = ("done", "discarded", "done", "dead")
        async with store.begin() as tx:
            await tx.put_deliveries(
                [delivery("r", e.position, state) for e, state in zip(published, states, strict=False)]
            )
        await compact(store, keep=8)
        await compact(store, keep=1)
        async with store.read() as view:
            return [row.state for row in await view.deliveries(("done", "discarded", "dead", "parked"), 10)]

    assert engine.run(story) == ["dead"]


def test_settled_deliveries_go_behind_a_dead_letter(engine: Engine) -> None:
    """A dead letter keeps its own event and nothing else: settled deliveries of later events are dropped."""

    async def story(store: Store) -> list[tuple[str, int]]:
        published = await append(store, *TEN)
        states = ("dead", "done", "discarded", "done")
        async with store.begin() as tx:
            await tx.put_deliveries(
                [delivery("r", e.position, state) for e, state in zip(published, states, strict=False)]
            )
        await compact(store, keep=7)
        async with store.read() as view:
            rows = await view.deliveries(("done", "discarded", "dead", "parked"), 10)
        return [(row.state, row.position) for row in rows]

    assert engine.run(story) == [("dead", 1), ("done", 4)]


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
