"""The log keeps each appended event once and in order, and a reader's position moves with its effects."""

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from contract.engines import Engine, append, delivery, envelope, logged, new_job, put, recorded, settle
from ringrift.events.base import Envelope
from ringrift.kernel.errors import IdConflict, Overtaken
from ringrift.store.ports import Delivery, Put, Store
from wait import wait_until


def test_appended_events_are_read_in_order(engine: Engine) -> None:
    """Events are read as they were appended, in the order of growing positions, with nothing lost."""

    async def story(store: Store) -> tuple[Sequence[Envelope], Sequence[Envelope]]:
        published = [*await append(store, "b", "a"), *await append(store, "c")]
        async with store.read() as view:
            return published, await view.read(0, 10)

    published, result = engine.run(story)

    assert [e.id for e in published] == ["b", "a", "c"]
    assert [e.position for e in published] == sorted({e.position for e in published})
    assert list(result) == published


def test_reading_has_a_start_a_limit_and_names(engine: Engine) -> None:
    """A read returns the events after its position, up to its limit, and only of its names."""

    async def story(store: Store) -> list[list[str]]:
        async with store.begin() as tx:
            published = await tx.append([envelope(str(n), name="a.even" if n % 2 == 0 else "a.odd") for n in range(6)])
        async with store.read() as view:
            answers = [
                await view.read(published[1].position, 10),
                await view.read(published[1].position, 2),
                await view.read(published[1].position, 10, ("a.odd",)),
                await view.read(0, 2, ("a.even", "a.none")),
                await view.events_by_id(["4", "none", "1"]),
            ]
        return [[e.id for e in answer] for answer in answers]

    assert engine.run(story) == [["2", "3", "4", "5"], ["2", "3"], ["3", "5"], ["0", "2"], ["1", "4"]]


def test_an_append_that_returned_is_there_after_reopening(engine: Engine) -> None:
    """An acknowledged append is read by the next process that opens the store, at the same position."""

    async def first(store: Store) -> int:
        [published] = await append(store, "a")
        return published.position

    async def second(store: Store) -> tuple[int, Sequence[Envelope]]:
        async with store.read() as view:
            return store.position, await view.read(0, 10)

    position = engine.run(first)
    existing, result = engine.run(second)

    assert [(e.id, e.position) for e in result] == [("a", position)]
    assert existing == position


def test_an_append_that_returned_survives_a_power_cut(on_lossy: Engine) -> None:
    """Whenever the power goes, every acknowledged event is there afterwards."""
    disk = on_lossy.disk
    assert disk is not None

    async def until_the_cut(store: Store) -> list[str]:
        acknowledged = []
        for number in range(20):
            await append(store, str(number))
            acknowledged.append(str(number))
        disk.cut()
        return acknowledged

    acknowledged = on_lossy.run(until_the_cut)

    assert on_lossy.run(logged) == acknowledged


def test_appending_the_same_event_again_returns_the_first_one(engine: Engine) -> None:
    """An existing id with the same body returns the first envelope and appends nothing."""

    async def story(store: Store) -> tuple[Sequence[Envelope], Sequence[Envelope], list[str]]:
        first = await append(store, "a")
        later = Envelope(id="a", name="custom.published", body=b"{}", time=99.0, node="elsewhere")
        async with store.begin() as tx:
            again = await tx.append([later, later, envelope("b")])
        return first, again, await logged(store)

    first, again, ids = engine.run(story)

    assert list(again[:2]) == [first[0], first[0]]
    assert ids == ["a", "b"]


@pytest.mark.parametrize("other", [envelope("a", b'{"x":1}'), envelope("a", name="custom.other")])
def test_one_id_cannot_have_two_bodies(engine: Engine, other: Envelope) -> None:
    """An id with another body or name is refused by name, and nothing else of its transaction happens."""

    async def story(store: Store) -> tuple[str, list[str], list[str]]:
        async def append_conflict() -> None:
            async with store.begin() as tx:
                await tx.put([Put(kind="k", id="r", body=b"")])
                await tx.append([envelope("b"), other, envelope("c")])

        await append(store, "a")
        with pytest.raises(IdConflict) as refused:
            await append_conflict()
        return refused.value.id, await logged(store), await recorded(store, "k")

    assert engine.run(story) == ("a", ["a"], [])


def test_effects_of_a_failed_reaction_are_undone(engine: Engine) -> None:
    """When a reaction fails, neither its events nor its records nor its jobs nor its reader's step has happened."""

    async def story(store: Store) -> tuple[list[str], list[str], dict[str, int], int]:
        async def react() -> None:
            async with store.begin() as tx:
                await tx.append([envelope("effect")])
                await tx.put([Put(kind="k", id="effect", body=b"")])
                await tx.enqueue([new_job("effect")])
                await tx.advance("reader", 0, published.position)
                raise ZeroDivisionError

        [published] = await append(store, "a")
        async with store.begin() as tx:
            await tx.register_reader("reader", 0)
        with pytest.raises(ZeroDivisionError):
            await react()
        ids, effects = await logged(store), await recorded(store, "k")
        async with store.read() as view:
            return ids, effects, dict(await view.positions()), len(await view.count_jobs())

    assert engine.run(story) == (["a"], [], {"reader": 0}, 0)


def test_a_readers_position_moves_with_its_effects(engine: Engine) -> None:
    """A reaction's effect and its reader's new position appear together, also after reopening."""

    async def react(store: Store) -> int:
        [published] = await append(store, "a")
        async with store.begin() as tx:
            await tx.register_reader("reader", 0)
            await tx.put([Put(kind="k", id="effect", body=b"")])
            await tx.advance("reader", 0, published.position)
        return published.position

    async def look(store: Store) -> tuple[list[str], dict[str, int]]:
        effects = await recorded(store, "k")
        async with store.read() as view:
            return effects, dict(await view.positions())

    position = engine.run(react)

    assert engine.run(look) == (["effect"], {"reader": position})


def test_enrolling_again_does_not_move_a_reader(engine: Engine) -> None:
    """Enrolling starts a new reader at the requested position, and leaves an existing one where it is."""

    async def story(store: Store) -> tuple[int, int, int]:
        async with store.begin() as tx:
            first = await tx.register_reader("reader", 3)
            again = await tx.register_reader("reader", 0)
            await tx.advance("reader", 3, 5)
            return first, again, await tx.register_reader("reader", 1)

    assert engine.run(story) == (3, 3, 5)


def test_two_readers_of_one_name_cannot_both_advance(engine: Engine) -> None:
    """When two react to the same events under one name, the second is overtaken and its effects are undone."""

    async def story(store: Store) -> tuple[list[str], dict[str, int], Overtaken]:
        [published] = await append(store, "a")
        async with store.begin() as tx:
            position = await tx.register_reader("reader", 0)

        async def react(name: str) -> None:
            async with store.begin() as tx:
                await tx.put([Put(kind="k", id=name, body=b"")])
                await asyncio.sleep(0)
                await tx.advance("reader", position, published.position)

        _, lost = await asyncio.gather(react("first"), react("second"), return_exceptions=True)
        assert isinstance(lost, Overtaken)
        effects = await recorded(store, "k")
        async with store.read() as view:
            return effects, dict(await view.positions()), lost

    effects, positions, lost = engine.run(story)

    assert effects == ["first"]
    assert (lost.reader, lost.expected, lost.actual) == ("reader", 0, positions["reader"])


def test_an_unknown_reader_cannot_advance(engine: Engine) -> None:
    """A reader without a position is overtaken too: there is nothing to move."""

    async def story(store: Store) -> int | None:
        with pytest.raises(Overtaken) as lost:
            async with store.begin() as tx:
                await tx.advance("stranger", 0, 1)
        return lost.value.actual

    assert engine.run(story) is None


def test_positions_become_visible_in_order(engine: Engine) -> None:
    """However many publish at once and some fail, a poll never sees a position before a smaller one."""
    rng = Random(3)

    async def publish(store: Store, name: str) -> None:
        for number in range(20):
            try:
                async with store.begin() as tx:
                    await tx.append([envelope(f"{name}-{number}-{part}") for part in range(rng.randint(1, 3))])
                    await asyncio.sleep(0)
                    if rng.random() < 0.2:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                continue

    async def story(store: Store) -> tuple[list[int], list[int]]:
        positions: list[int] = []

        async def poll() -> bool:
            async with store.read() as view:
                positions.extend(e.position for e in await view.read(positions[-1] if positions else 0, 7))
            return publishing.done() and positions[-1:] == [store.position]

        publishing = asyncio.gather(*(publish(store, f"p{number}") for number in range(6)))
        await wait_until(poll, 10)
        async with store.read() as view:
            return positions, [e.position for e in await view.read(0, 10_000)]

    positions, there = engine.run(story)

    assert positions == there


def test_a_waiter_is_woken_by_events_after_its_position(engine: Engine) -> None:
    """Waiting for a position returns at once if it exists, on the next append, or else when its time is over."""

    async def story(store: Store) -> tuple[int, int, bool, int]:
        [published] = await append(store, "a")
        at_once = await store.wait(published.position - 1, 60)
        in_time = await store.wait(published.position, 0.01)
        waiting = asyncio.create_task(store.wait(published.position, 60))
        await asyncio.sleep(0)
        await put(store, "k", "not in the log")
        await settle()
        asleep = not waiting.done()
        [later] = await append(store, "b")
        return at_once - published.position, in_time - published.position, asleep, await waiting - later.position

    assert engine.run(story) == (0, 0, True, 0)


def test_waiting_without_a_position_ends_with_any_change(engine: Engine) -> None:
    """Waiting without a position returns on the next commit that changed something, in the log or not."""

    async def story(store: Store) -> tuple[int, int]:
        [published] = await append(store, "a")
        in_time = await store.wait(None, 0.01)
        waiting = asyncio.create_task(store.wait(None, 60))
        await asyncio.sleep(0)
        await put(store, "k", "not in the log")
        return in_time - published.position, await waiting - published.position

    assert engine.run(story) == (0, 0)


def test_an_empty_claim_wakes_no_waiter(engine: Engine) -> None:
    """A transaction that changes nothing wakes no waiter: otherwise idle claims would wake each other for ever."""

    async def story(store: Store) -> bool:
        waiting = asyncio.create_task(store.wait(None, 60))
        await asyncio.sleep(0)
        async with store.begin() as tx:
            await tx.claim(("play",), "n", 30.0, 1)
        await settle()
        asleep = not waiting.done()
        await append(store, "a")
        await waiting
        return asleep

    assert engine.run(story)


def test_deliveries_remember_their_first_failure(engine: Engine) -> None:
    """A delivery is one row in every state, selected by state, reader and position, oldest first."""
    rows = [delivery("r", 2), delivery("r", 1), delivery("other", 1, "dead"), delivery("r", 3, "discarded")]

    async def story(store: Store) -> list[list[Delivery]]:
        async with store.begin() as tx:
            await tx.put_deliveries(rows)
            await tx.put_deliveries([delivery("r", 2, "done", attempts=2, pause=0.0, error="", first=5.0, last=6.0)])
            return [
                list(await tx.deliveries(("parked", "dead"), 10)),
                list(await tx.deliveries(("parked", "dead"), 1)),
                list(await tx.deliveries(("done", "discarded"), 10, "r")),
                list(await tx.deliveries_at("r", [2])),
            ]

    unsettled, limited, settled, one = engine.run(story)

    assert {(d.reader, d.position, d.state) for d in unsettled} == {("r", 1, "parked"), ("other", 1, "dead")}
    assert len(limited) == 1
    assert [(d.position, d.state) for d in settled] == [(2, "done"), (3, "discarded")]
    assert one == [delivery("r", 2, "done", attempts=2, pause=0.0, error="", first=1.0, last=6.0)]
