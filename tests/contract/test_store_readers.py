"""Readers of the log: positions, backlogs, lapsed readers, and compaction around them."""

from collections.abc import Awaitable, Callable

import pytest

from contract.engines import Engine, append, delivery, envelope, logged
from ringrift.kernel.errors import Overtaken, UnknownName
from ringrift.store.ports import Envelope, ReaderRow, Store, Tx

TEN = [str(number) for number in range(10)]
TWO = ("a.published", "custom.published")


async def enrol(store: Store, **positions: int) -> None:
    """Enrol readers at these positions."""
    async with store.begin() as tx:
        for reader, at in positions.items():
            await tx.register_reader(reader, at)


async def lapse(store: Store, reader: str, at: int) -> None:
    """Let one reader lapse."""
    async with store.begin() as tx:
        await tx.lapse_readers([(reader, at)])


async def readers(store: Store) -> list[ReaderRow]:
    """Every reader."""
    async with store.read() as view:
        return [*await view.readers()]


def reader_row(reader: str, position: int, behind: int, since: float | None, lapsed: bool = False) -> ReaderRow:
    """A row of the answer."""
    return ReaderRow(reader=reader, position=position, lapsed=lapsed, behind=behind, since=since)


def at(id: str, time: float) -> Envelope:
    """An event at a certain time."""
    return Envelope(id=id, name="custom.published", body=b"{}", time=time)


def test_readers_are_listed_with_their_backlog(engine: Engine) -> None:
    """Each reader has its position, the number of events that wait for it and the time of the oldest of these."""

    async def story(store: Store) -> tuple[list[ReaderRow], list[ReaderRow]]:
        none = await readers(store)
        async with store.begin() as tx:
            await tx.append([at("a", 5.0), at("b", 6.0), at("c", 7.0)])
        await enrol(store, late=0, middle=2, level=3)
        await lapse(store, "middle", 2)
        return none, await readers(store)

    none, result = engine.run(story)

    assert none == []
    assert result == [
        reader_row("late", 0, 3, 5.0),
        reader_row("level", 3, 0, None),
        reader_row("middle", 2, 1, 7.0, True),
    ]


def test_a_backlog_counts_only_events_that_are_left(engine: Engine) -> None:
    """Events that were dropped, or that a lapsed reader has lost, are not counted as waiting."""

    async def story(store: Store) -> list[ReaderRow]:
        await append(store, *TEN)
        await enrol(store, r=0)
        await lapse(store, "r", 0)
        async with store.begin() as tx:
            await tx.compact(4, 1000)
        return await readers(store)

    assert engine.run(story) == [reader_row("r", 0, 4, 7.0, True)]


async def advance(tx: Tx) -> object:
    """Move the reader."""
    return await tx.advance("r", 3, 5)


async def come_back(tx: Tx) -> object:
    """Enrol again."""
    return await tx.register_reader("r", 0)


async def forget_unknown(tx: Tx) -> object:
    """Forget an unknown reader."""
    return await tx.forget_reader("unknown")


async def append_and(store: Store, use: Callable[[Tx], Awaitable[object]]) -> None:
    """Run *use* in a transaction that also appends an event."""
    async with store.begin() as tx:
        await tx.append([envelope("with-it")])
        await use(tx)


@pytest.mark.parametrize("use", [advance, come_back])
def test_a_lapsed_reader_is_overtaken(engine: Engine, use: Callable[[Tx], Awaitable[object]]) -> None:
    """A lapsed reader can neither move nor enrol again: it raises that it has lapsed, and nothing is written."""

    async def story(store: Store) -> tuple[Overtaken, list[str], dict[str, int]]:
        await append(store, *TEN)
        await enrol(store, r=3)
        await lapse(store, "r", 3)
        with pytest.raises(Overtaken) as refused:
            await append_and(store, use)
        return refused.value, await logged(store, 10), {row.reader: row.position for row in await readers(store)}

    refused, later, positions = engine.run(story)

    assert (refused.reader, refused.actual) == ("r", None)
    assert "lapsed" in str(refused)
    assert (later, positions) == ([], {"r": 3})


def test_a_reader_that_has_moved_does_not_lapse(engine: Engine) -> None:
    """Only readers that are still at the observed position lapse."""

    async def story(store: Store) -> list[tuple[str, bool]]:
        await append(store, *TEN)
        await enrol(store, moved=3, unmoved=3)
        async with store.begin() as tx:
            await tx.advance("moved", 3, 4)
            await tx.lapse_readers([("moved", 3), ("unmoved", 3), ("unknown", 0)])
        return [(row.reader, row.lapsed) for row in await readers(store)]

    assert engine.run(story) == [("moved", False), ("unmoved", True)]


def test_a_lapsed_reader_holds_neither_log_nor_deliveries(engine: Engine) -> None:
    """Compaction passes a lapsed reader and drops the events of its deliveries; other readers still hold theirs."""

    async def story(store: Store) -> tuple[list[str], list[str]]:
        await append(store, *TEN)
        await enrol(store, lapsed=2, other=8)
        async with store.begin() as tx:
            await tx.put_deliveries([delivery("lapsed", 1), delivery("lapsed", 2, "dead"), delivery("other", 4)])
        async with store.begin() as tx:
            assert await tx.compact(1, 1000) == 0
        before = await logged(store)
        await lapse(store, "lapsed", 2)
        async with store.begin() as tx:
            await tx.compact(1, 1000)
        return before, await logged(store)

    assert engine.run(story) == (TEN, ["3", "8", "9"])


def test_deliveries_of_unknown_readers_hold_their_events(engine: Engine) -> None:
    """A delivery whose reader never enrolled still holds its event."""

    async def story(store: Store) -> list[str]:
        await append(store, *TEN)
        async with store.begin() as tx:
            await tx.put_deliveries([delivery("stranger", 5, "dead")])
            await tx.compact(1, 1000)
        return await logged(store)

    assert engine.run(story) == ["4", "9"]


def test_a_reader_is_forgotten_with_its_deliveries(engine: Engine) -> None:
    """Forgetting returns the number of its deliveries, holds nothing any more, and lets the name start anew."""

    async def story(store: Store) -> tuple[int, list[str], int, list[str]]:
        await append(store, *TEN)
        await enrol(store, r=2, other=9)
        async with store.begin() as tx:
            await tx.put_deliveries([delivery("r", 1), delivery("r", 2, "done"), delivery("other", 3)])
            await tx.lapse_readers([("r", 2)])
        async with store.begin() as tx:
            gone = await tx.forget_reader("r")
            left = [row.reader for row in await tx.deliveries(("parked", "dead", "done", "discarded"), 10)]
            await tx.compact(1, 1000)
            return gone, left, await tx.register_reader("r", 7), await _ids(tx)

    gone, left, position, there = engine.run(story)

    assert (gone, left, position) == (2, ["other"], 7)
    assert there == ["2", "9"]


async def _ids(tx: Tx) -> list[str]:
    return [envelope.id for envelope in await tx.read(0, 100)]


def test_forgetting_an_unknown_reader_is_refused(engine: Engine) -> None:
    """An unknown reader cannot be forgotten, and the transaction is undone."""

    async def story(store: Store) -> list[str]:
        await enrol(store, r=0)
        with pytest.raises(UnknownName, match="unknown"):
            await append_and(store, forget_unknown)
        return await logged(store)

    assert engine.run(story) == []


async def mixed(store: Store) -> None:
    """Ten events, the odd ones of another name."""
    async with store.begin() as tx:
        await tx.append([envelope(id, name="a.published" if int(id) % 2 else "custom.published") for id in TEN])


def test_compaction_by_name_drops_only_these(engine: Engine) -> None:
    """With names only events of these are dropped, oldest first and up to the limit; the last ones stay."""

    async def story(store: Store) -> list[tuple[int, list[str]]]:
        await mixed(store)
        results = []
        for limit in (2, 1000):
            async with store.begin() as tx:
                results.append((await tx.compact(2, limit, ("a.published", "no.such")), await _ids(tx)))
        return results

    assert engine.run(story) == [(2, ["0", "2", "4", "5", "6", "7", "8", "9"]), (2, ["0", "2", "4", "6", "8", "9"])]


def test_compaction_by_name_never_passes_a_reader(engine: Engine) -> None:
    """Events of these names stay if they are after the position of a live reader or belong to its deliveries."""

    async def story(store: Store) -> tuple[list[str], list[str]]:
        await mixed(store)
        await enrol(store, slow=4, lapsed=0)
        async with store.begin() as tx:
            await tx.put_deliveries([delivery("slow", 2)])
            await tx.lapse_readers([("lapsed", 0)])
            await tx.compact(1, 1000, ("a.published",))
            renewal = await _ids(tx)
            await tx.advance("slow", 4, 10)
            await tx.compact(1, 1000, ("a.published",))
            return renewal, await _ids(tx)

    renewal, later = engine.run(story)

    assert renewal == ["0", "1", "2", "4", "5", "6", "7", "8", "9"]
    assert later == ["0", "1", "2", "4", "6", "8", "9"]


def test_the_events_of_one_trace_are_read(engine: Engine) -> None:
    """The events of a trace come in order, up to a limit, and none of another trace."""

    async def story(store: Store) -> list[list[str]]:
        traced = [
            Envelope(id=id, name="custom.published", body=b"{}", trace="even" if int(id) % 2 == 0 else "odd")
            for id in TEN
        ]
        async with store.begin() as tx:
            await tx.append(traced)
        async with store.read() as view:
            return [
                [envelope.id for envelope in await view.events_of_trace(*spec)]
                for spec in (("odd", 9), ("even", 2), ("none", 9))
            ]

    assert engine.run(story) == [["1", "3", "5", "7", "9"], ["0", "2"], []]


@pytest.mark.parametrize(("time", "position"), [(0.0, 0), (1.0, 0), (1.5, 1), (2.0, 1), (3.0, 3), (3.1, 4), (99.0, 4)])
def test_a_moment_has_a_position(engine: Engine, time: float, position: int) -> None:
    """The position of a moment is that before the first event at that time or later; an empty log has none."""

    async def story(store: Store) -> tuple[int, int]:
        async with store.read() as view:
            empty = await view.position_before(time)
        async with store.begin() as tx:
            await tx.append([at("a", 1.0), at("b", 2.0), at("c", 2.0), at("d", 3.0)])
        async with store.read() as view:
            return empty, await view.position_before(time)

    assert engine.run(story) == (0, position)


def test_compaction_may_be_limited_to_a_range_of_the_log(engine: Engine) -> None:
    """Only events between two positions, both included, are dropped."""

    async def story(store: Store) -> tuple[int, list[str]]:
        await mixed(store)
        async with store.begin() as tx:
            return await tx.compact(1, 1000, ("a.published",), within=(4, 8)), await _ids(tx)

    assert engine.run(story) == (3, ["0", "1", "2", "4", "6", "8", "9"])


@pytest.mark.parametrize(
    ("before", "limit", "names", "result"),
    [
        (None, 3, (), "789"),
        (None, 100, (), "0123456789"),
        (5, 2, (), "23"),
        (1, 9, (), ""),
        (99, 2, (), "89"),
        (None, 2, ("a.published",), "79"),
        (8, 2, ("a.published",), "35"),
        (None, 5, ("no.such",), ""),
        (None, 3, TWO, "789"),
    ],
)
def test_the_newest_events_come_in_order(
    engine: Engine, before: int | None, limit: int, names: tuple[str, ...], result: str
) -> None:
    """The newest events before a position, up to a limit, of all names or of some, come oldest first."""

    async def story(store: Store) -> str:
        await mixed(store)
        async with store.read() as view:
            return "".join(envelope.id for envelope in await view.last(before, limit, names))

    assert engine.run(story) == result


def test_events_and_deliveries_are_read_by_position(engine: Engine) -> None:
    """Positions in any order, also repeated, yield their existing events and deliveries, each once and in order."""

    async def story(store: Store) -> tuple[list[str], list[int], list[str]]:
        await append(store, *TEN)
        async with store.begin() as tx:
            await tx.compact(8, 1000)
            await tx.put_deliveries([delivery("r", 4), delivery("r", 9, "done"), delivery("other", 5)])
            events = [envelope.id for envelope in await tx.events_at([9, 1, 4, 4, 99, 0])]
            failed_deliveries = [row.position for row in await tx.deliveries_at("r", [9, 5, 4, 9, 77])]
            return events, failed_deliveries, [envelope.id for envelope in await tx.events_at([])]

    assert engine.run(story) == (["3", "8"], [4, 9], [])
