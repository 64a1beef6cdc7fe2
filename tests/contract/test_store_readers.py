"""Readers of the log and parts of a transaction: who holds what, who has lapsed, what is undone alone."""

from collections.abc import Awaitable, Callable

import pytest

from contract.engines import Engine, append, delivery, envelope, logged
from ringrift.kernel.errors import Overtaken, UnknownName
from ringrift.store.ports import Envelope, ReaderRow, Store, Tx

TEN = [str(number) for number in range(10)]
TWO = ("a.told", "custom.said")


async def enrol(store: Store, **places: int) -> None:
    """Readers at these places."""
    async with store.begin() as tx:
        for reader, at in places.items():
            await tx.enrol(reader, at)


async def lapse(store: Store, reader: str, at: int) -> None:
    """Let one reader lapse."""
    async with store.begin() as tx:
        await tx.lapse([(reader, at)])


async def readers(store: Store) -> list[ReaderRow]:
    """Every reader."""
    async with store.read() as view:
        return [*await view.readers()]


def stands(reader: str, position: int, behind: int, since: float | None, lapsed: bool = False) -> ReaderRow:
    """A row of the answer."""
    return ReaderRow(reader=reader, position=position, lapsed=lapsed, behind=behind, since=since)


def at(id: str, time: float) -> Envelope:
    """An event of a certain time."""
    return Envelope(id=id, name="custom.said", body=b"{}", time=time)


def test_readers_are_told_with_what_waits_for_them(engine: Engine) -> None:
    """Each reader comes with its place, how many events wait for it and the time of the oldest of these."""

    async def story(store: Store) -> tuple[list[ReaderRow], list[ReaderRow]]:
        none = await readers(store)
        async with store.begin() as tx:
            await tx.append([at("a", 5.0), at("b", 6.0), at("c", 7.0)])
        await enrol(store, late=0, middle=2, level=3)
        await lapse(store, "middle", 2)
        return none, await readers(store)

    none, found = engine.run(story)

    assert none == []
    assert found == [stands("late", 0, 3, 5.0), stands("level", 3, 0, None), stands("middle", 2, 1, 7.0, True)]


def test_what_waits_is_counted_in_what_is_left(engine: Engine) -> None:
    """Events that were dropped, or that a lapsed reader has lost, are not counted as waiting."""

    async def story(store: Store) -> list[ReaderRow]:
        await append(store, *TEN)
        await enrol(store, r=0)
        await lapse(store, "r", 0)
        async with store.begin() as tx:
            await tx.compact(4, 1000)
        return await readers(store)

    assert engine.run(story) == [stands("r", 0, 4, 7.0, True)]


async def advance(tx: Tx) -> object:
    """Move on."""
    return await tx.advance("r", 3, 5)


async def come_back(tx: Tx) -> object:
    """Enrol again."""
    return await tx.enrol("r", 0)


async def forget_a_stranger(tx: Tx) -> object:
    """Forget who was never there."""
    return await tx.forget("nobody")


async def saying(store: Store, use: Callable[[Tx], Awaitable[object]]) -> None:
    """Do it in a transaction that says something, too."""
    async with store.begin() as tx:
        await tx.append([envelope("with-it")])
        await use(tx)


@pytest.mark.parametrize("use", [advance, come_back])
def test_a_lapsed_reader_is_overtaken(engine: Engine, use: Callable[[Tx], Awaitable[object]]) -> None:
    """Who has lapsed can neither move nor come back: it is told that it has lapsed, and nothing is written."""

    async def story(store: Store) -> tuple[Overtaken, list[str], dict[str, int]]:
        await append(store, *TEN)
        await enrol(store, r=3)
        await lapse(store, "r", 3)
        with pytest.raises(Overtaken) as refused:
            await saying(store, use)
        return refused.value, await logged(store, 10), {row.reader: row.position for row in await readers(store)}

    refused, later, places = engine.run(story)

    assert (refused.reader, refused.found) == ("r", None)
    assert "lapsed" in str(refused)
    assert (later, places) == ([], {"r": 3})


def test_who_has_moved_meanwhile_does_not_lapse(engine: Engine) -> None:
    """Only readers that still stand where they were seen lapse."""

    async def story(store: Store) -> list[tuple[str, bool]]:
        await append(store, *TEN)
        await enrol(store, moved=3, stood=3)
        async with store.begin() as tx:
            await tx.advance("moved", 3, 4)
            await tx.lapse([("moved", 3), ("stood", 3), ("nobody", 0)])
        return [(row.reader, row.lapsed) for row in await readers(store)]

    assert engine.run(story) == [("moved", False), ("stood", True)]


def test_a_lapsed_reader_holds_neither_log_nor_letters(engine: Engine) -> None:
    """Compaction passes a lapsed reader and drops the events of its letters; others still hold theirs."""

    async def story(store: Store) -> tuple[list[str], list[str]]:
        await append(store, *TEN)
        await enrol(store, lapsed=2, other=8)
        async with store.begin() as tx:
            await tx.park([delivery("lapsed", 1), delivery("lapsed", 2, "dead"), delivery("other", 4)])
        async with store.begin() as tx:
            assert await tx.compact(1, 1000) == 0
        before = await logged(store)
        await lapse(store, "lapsed", 2)
        async with store.begin() as tx:
            await tx.compact(1, 1000)
        return before, await logged(store)

    assert engine.run(story) == (TEN, ["3", "8", "9"])


def test_letters_of_readers_that_are_gone_are_kept(engine: Engine) -> None:
    """A letter whose reader never enrolled still holds its event."""

    async def story(store: Store) -> list[str]:
        await append(store, *TEN)
        async with store.begin() as tx:
            await tx.park([delivery("stranger", 5, "dead")])
            await tx.compact(1, 1000)
        return await logged(store)

    assert engine.run(story) == ["4", "9"]


def test_a_reader_is_forgotten_with_its_letters(engine: Engine) -> None:
    """Forgetting says how many letters went, holds nothing any more, and lets the name start anew."""

    async def story(store: Store) -> tuple[int, list[str], int, list[str]]:
        await append(store, *TEN)
        await enrol(store, r=2, other=9)
        async with store.begin() as tx:
            await tx.park([delivery("r", 1), delivery("r", 2, "done"), delivery("other", 3)])
            await tx.lapse([("r", 2)])
        async with store.begin() as tx:
            gone = await tx.forget("r")
            left = [one.reader for one in await tx.deliveries(("parked", "dead", "done", "discarded"), 10)]
            await tx.compact(1, 1000)
            return gone, left, await tx.enrol("r", 7), await _ids(tx)

    gone, left, place, there = engine.run(story)

    assert (gone, left, place) == (2, ["other"], 7)
    assert there == ["2", "9"]


async def _ids(tx: Tx) -> list[str]:
    return [one.id for one in await tx.read(0, 100)]


def test_forgetting_a_stranger_is_refused(engine: Engine) -> None:
    """A reader that is not there cannot be forgotten, and its transaction does nothing."""

    async def story(store: Store) -> list[str]:
        await enrol(store, r=0)
        with pytest.raises(UnknownName, match="nobody"):
            await saying(store, forget_a_stranger)
        return await logged(store)

    assert engine.run(story) == []


async def mixed(store: Store) -> None:
    """Ten events, the odd ones of another name."""
    async with store.begin() as tx:
        await tx.append([envelope(id, name="a.told" if int(id) % 2 else "custom.said") for id in TEN])


def test_compaction_by_name_drops_only_these(engine: Engine) -> None:
    """With names only events of these go, oldest first and no more than the limit; the last ones stay."""

    async def story(store: Store) -> list[tuple[int, list[str]]]:
        await mixed(store)
        seen = []
        for limit in (2, 1000):
            async with store.begin() as tx:
                seen.append((await tx.compact(2, limit, ("a.told", "no.such")), await _ids(tx)))
        return seen

    assert engine.run(story) == [(2, ["0", "2", "4", "5", "6", "7", "8", "9"]), (2, ["0", "2", "4", "6", "8", "9"])]


def test_compaction_by_name_never_passes_a_reader(engine: Engine) -> None:
    """What a reader that has not lapsed still has before it stays, also of these names; and so do its letters'."""

    async def story(store: Store) -> tuple[list[str], list[str]]:
        await mixed(store)
        await enrol(store, slow=4, lapsed=0)
        async with store.begin() as tx:
            await tx.park([delivery("slow", 2)])
            await tx.lapse([("lapsed", 0)])
            await tx.compact(1, 1000, ("a.told",))
            held = await _ids(tx)
            await tx.advance("slow", 4, 10)
            await tx.compact(1, 1000, ("a.told",))
            return held, await _ids(tx)

    held, later = engine.run(story)

    assert held == ["0", "1", "2", "4", "5", "6", "7", "8", "9"]
    assert later == ["0", "1", "2", "4", "6", "8", "9"]


def test_a_story_is_the_events_of_one_trace(engine: Engine) -> None:
    """The events of a trace come in order, no more than asked for, and none of another."""

    async def story(store: Store) -> list[list[str]]:
        traced = [Envelope(id=id, name="custom.said", body=b"{}", trace="even" if int(id) % 2 == 0 else "odd")
                  for id in TEN]  # fmt: skip
        async with store.begin() as tx:
            await tx.append(traced)
        async with store.read() as view:
            return [[one.id for one in await view.story(*asked)] for asked in (("odd", 9), ("even", 2), ("none", 9))]

    assert engine.run(story) == [["1", "3", "5", "7", "9"], ["0", "2"], []]


@pytest.mark.parametrize(
    ("time", "position"), [(0.0, 0), (1.0, 0), (1.5, 1), (2.0, 1), (3.0, 3), (3.1, 4), (99.0, 4)]
)  # fmt: skip
def test_a_moment_has_a_position(engine: Engine, time: float, position: int) -> None:
    """Before a moment stands the position behind which nothing older comes first; an empty log has none."""

    async def story(store: Store) -> tuple[int, int]:
        async with store.read() as view:
            empty = await view.before(time)
        async with store.begin() as tx:
            await tx.append([at("a", 1.0), at("b", 2.0), at("c", 2.0), at("d", 3.0)])
        async with store.read() as view:
            return empty, await view.before(time)

    assert engine.run(story) == (0, position)


def test_compaction_may_look_at_a_part_of_the_log(engine: Engine) -> None:
    """Within two positions, both included, only what lies between them goes."""

    async def story(store: Store) -> tuple[int, list[str]]:
        await mixed(store)
        async with store.begin() as tx:
            return await tx.compact(1, 1000, ("a.told",), within=(4, 8)), await _ids(tx)

    assert engine.run(story) == (3, ["0", "1", "2", "4", "6", "8", "9"])


@pytest.mark.parametrize(
    ("before", "limit", "names", "found"),
    [
        (None, 3, (), "789"), (None, 100, (), "0123456789"), (5, 2, (), "23"), (1, 9, (), ""), (99, 2, (), "89"),
        (None, 2, ("a.told",), "79"), (8, 2, ("a.told",), "35"), (None, 5, ("no.such",), ""), (None, 3, TWO, "789"),
    ],
)  # fmt: skip
def test_the_newest_come_in_order(
    engine: Engine, before: int | None, limit: int, names: tuple[str, ...], found: str
) -> None:
    """The newest so many before a position, of all names or of some, come oldest first."""

    async def story(store: Store) -> str:
        await mixed(store)
        async with store.read() as view:
            return "".join(one.id for one in await view.last(before, limit, names))

    assert engine.run(story) == found


def test_events_and_letters_are_found_by_position(engine: Engine) -> None:
    """At positions, in any order and twice, stand those events and letters that there are, each once and in order."""

    async def story(store: Store) -> tuple[list[str], list[int], list[str]]:
        await append(store, *TEN)
        async with store.begin() as tx:
            await tx.compact(8, 1000)
            await tx.park([delivery("r", 4), delivery("r", 9, "done"), delivery("other", 5)])
            events = [one.id for one in await tx.at([9, 1, 4, 4, 99, 0])]
            letters = [one.position for one in await tx.deliveries_at("r", [9, 5, 4, 9, 77])]
            return events, letters, [one.id for one in await tx.at([])]

    assert engine.run(story) == (["3", "8"], [4, 9], [])
