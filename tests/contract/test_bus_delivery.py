"""Delivery: a reaction happens exactly once, and one that fails is parked with all that a retry needs."""

import asyncio

import pytest

from contract.deliverer_rig import BACKOFF, Rig
from contract.engines import Engine, delivery, envelope, put
from ringrift.bus import dead_letters
from ringrift.bus.dead_letters import find
from ringrift.bus.delivery import _RETRIED_MAX, Deliverer
from ringrift.events import data
from ringrift.events.base import Envelope, Event
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.errors import Discard, InputError, NotLeader, Overtaken, Retry, UnknownName
from ringrift.store.ports import Delivery, Put, Store, Tx


def test_events_are_delivered_in_batches(engine: Engine) -> None:
    """A reader is moved by as many events as a batch has, and each effect happens once."""

    async def story(store: Store) -> tuple[list[int], dict[str, str]]:
        rig = Rig(store, batch=4)
        reader = rig.reader()
        await rig.publish(*"abcdefghij")
        positions = [await rig.deliverer.register(reader)]
        for _ in range(4):
            positions.append(await rig.deliverer.deliver_batch(reader, positions[-1]))
        return positions, await rig.effects()

    positions, effects = engine.run(story)

    assert positions == [0, 4, 8, 10, 10]
    assert effects == dict.fromkeys("abcdefghij", "I")


def test_a_reader_skips_events_outside_its_filter(engine: Engine) -> None:
    """Events of other names, and those that this version does not know, move the position and nothing else."""

    async def story(store: Store) -> tuple[int, int, dict[str, str]]:
        rig = Rig(store)
        await rig.publish("a")
        async with store.begin() as tx:
            await tx.append([envelope("unknown", name="future.happened")])
        [last] = await rig.publish("b")
        unwanted = await rig.all(rig.reader("other", event_names=frozenset({"data.synced"})))
        return unwanted - last.position, await rig.all(rig.reader()) - last.position, await rig.effects()

    assert engine.run(story) == (0, 0, {"a": "I", "b": "I"})


def test_a_failing_event_is_parked_and_the_rest_goes_on(engine: Engine) -> None:
    """Only the event that failed is parked, without its effect and with its error; all others have theirs once."""

    async def story(store: Store) -> tuple[int, dict[str, str], list[Delivery], float]:
        rig = Rig(store)
        rig.errors["b"] = ValueError("no b today")
        await rig.publish(*"abcdef")
        return await rig.all(rig.reader()), await rig.effects(), await rig.unsettled(), rig.clock.now()

    position, effects, [parked], now = engine.run(story)

    assert position == 7  # six events, and the one that reports the parked delivery
    assert effects == dict.fromkeys("acdef", "I")
    assert parked == delivery("reader", 2, pause=60.0, error="ValueError: no b today", first=now, last=now)


def test_a_body_that_is_not_its_event_is_parked(engine: Engine) -> None:
    """An event whose bytes do not decode is parked, and the reader continues."""

    async def story(store: Store) -> tuple[dict[str, str], list[int]]:
        rig = Rig(store)
        async with store.begin() as tx:
            await tx.append([envelope("bad", b'{"type":"data.lost","blob":7}', "data.lost")])
        await rig.publish("a")
        await rig.all(rig.reader())
        return await rig.effects(), [parked.position for parked in await rig.unsettled()]

    assert engine.run(story) == ({"a": "I"}, [1])


@pytest.mark.parametrize(
    ("error", "state", "pause"),
    [(Retry(after=5.0), "parked", 5.0), (Discard("not ours"), "discarded", 0.0), (KeyError("x"), "parked", 60.0)],
    ids=["retry", "discard", "error"],
)
def test_a_reaction_chooses_retry_or_discard_by_its_error(
    engine: Engine, error: Exception, state: str, pause: float
) -> None:
    """Retry sets the pause, Discard ends the delivery with its reason, and any other error has the policy's pause."""

    async def story(store: Store) -> tuple[Delivery | None, dict[str, str]]:
        rig = Rig(store)
        rig.errors["a"] = error
        await rig.publish("a", "b")
        await rig.all(rig.reader())
        async with store.read() as view:
            result = await find(view, "reader", 1)
        return result, await rig.effects()

    result, effects = engine.run(story)

    assert result is not None
    assert (result.state, result.pause, result.attempts) == (state, pause, 1)
    assert str(error) in result.error
    assert effects == {"b": "I"}


def test_an_error_with_any_text_is_parked(engine: Engine) -> None:
    """An error whose text is not valid Unicode, as names of files may be, does not stop its reader."""

    async def story(store: Store) -> tuple[dict[str, str], list[str]]:
        rig = Rig(store)
        rig.errors["a"] = OSError("cannot read caf\udce9")
        await rig.publish("a", "b")
        await rig.all(rig.reader())
        return await rig.effects(), [parked.state for parked in await rig.unsettled()]

    assert engine.run(story) == ({"b": "I"}, ["parked"])


def test_a_reaction_that_hangs_is_parked(engine: Engine) -> None:
    """A reaction that exceeds its time is ended and parked like any that fails; its reader continues."""

    async def story(store: Store) -> tuple[bool, dict[str, str], list[str]]:
        rig = Rig(store)

        async def react(event: Event, envelope: Envelope, tx: Tx) -> None:
            assert isinstance(event, data.Lost)
            await tx.put([Put(kind="reader", id=event.blob, body=b"I")])
            if event.blob == "a":
                await asyncio.get_running_loop().create_future()

        await rig.publish("a", "b")
        taking = asyncio.create_task(rig.all(rig.reader(react=react)))
        while not taking.done():
            await put(store, "k", "another writer")
        parked = [row.state for row in await rig.unsettled()]
        return taking.cancelled(), await rig.effects(), parked

    assert engine.run(story, tx_seconds_max=0.05) == (False, {"b": "I"}, ["parked"])


def test_the_second_of_two_deliverers_is_overtaken(engine: Engine) -> None:
    """Two that deliver to one reader from one position have its effects once; the second raises Overtaken."""

    async def story(store: Store) -> tuple[list[object], dict[str, str]]:
        rig = Rig(store)
        await rig.publish(*"abc")
        position = await rig.deliverer.register(rig.reader())
        takes = (
            Deliverer(store, rig.clock, rig.envelopes, BACKOFF, 4).deliver_batch(rig.reader(), position)
            for _ in range(2)
        )
        return await asyncio.gather(*takes, return_exceptions=True), await rig.effects()

    (first, second), effects = engine.run(story)

    assert first == 3
    assert isinstance(second, Overtaken)
    assert effects == dict.fromkeys("abc", "I")


@pytest.mark.parametrize("verb", ["take", "again"])
def test_nothing_is_delivered_in_a_term_that_is_over(engine: Engine, verb: str) -> None:
    """When the guard finds that the role has passed on, there is no effect, no step, and no failure counted."""

    async def refuse(tx: Tx) -> None:
        raise NotLeader("pipeline", "n2")

    async def story(store: Store) -> tuple[dict[str, str], dict[str, int], list[Delivery]]:
        rig = Rig(store)
        await rig.publish("a")
        position, reader = await rig.deliverer.register(rig.reader()), rig.reader(guard=refuse)
        parked = delivery("reader", 1)
        if verb == "again":
            async with store.begin() as tx:
                await tx.put_deliveries([parked])
        with pytest.raises(NotLeader):
            await (
                rig.deliverer.deliver_batch(reader, position)
                if verb == "take"
                else rig.deliverer.redeliver(reader, [parked])
            )
        effects, left = await rig.effects(), await rig.unsettled()
        async with store.read() as view:
            return effects, dict(await view.positions()), left

    effects, positions, left = engine.run(story)

    assert (effects, positions) == ({}, {"reader": 0})
    assert left == ([delivery("reader", 1)] if verb == "again" else [])


def test_a_second_try_that_succeeds_is_done_once(engine: Engine) -> None:
    """A parked delivery that succeeds has its effect with its new state; the same try again changes nothing."""

    async def story(store: Store) -> tuple[list[tuple[str, int]], dict[str, str], list[Delivery]]:
        rig = Rig(store)
        rig.errors["a"] = ValueError("not yet")
        await rig.publish("a")
        await rig.all(rig.reader())
        [parked] = await rig.unsettled()
        rig.errors.clear()
        tries = await asyncio.gather(*(rig.deliverer.redeliver(rig.reader(), [parked]) for _ in range(3)))
        return [(row.state, row.attempts) for [row] in tries], await rig.effects(), await rig.unsettled()

    assert engine.run(story) == ([("done", 2)] * 3, {"a": "I"}, [])


async def retry_now(rig: Rig, position: int) -> Delivery:
    """Retry one delivery as an operator does: a settled one is refused."""
    async with rig.store.read() as view:
        delivery = await dead_letters._unsettled(view, "reader", position)
    [retried] = await rig.deliverer.redeliver(rig.reader(), [delivery])
    return retried


def test_replaying_twice_has_one_effect(engine: Engine) -> None:
    """A dead letter that is replayed by hand has its effect; a second replay is refused, and so is one of nothing."""

    async def story(store: Store) -> tuple[str, dict[str, str]]:
        rig = Rig(store, backoff=Backoff(first_seconds=60.0, seconds_max=60.0, tries=1))
        rig.errors["a"] = ValueError("not yet")
        await rig.publish("a")
        await rig.all(rig.reader())
        [dead] = await rig.unsettled()
        assert dead.state == "dead"
        rig.errors.clear()
        done = await retry_now(rig, dead.position)
        with pytest.raises(InputError):
            await retry_now(rig, dead.position)
        with pytest.raises(UnknownName):
            await retry_now(rig, 99)
        return done.state, await rig.effects()

    assert engine.run(story) == ("done", {"a": "I"})


def test_a_dead_letter_can_be_discarded_by_hand(engine: Engine) -> None:
    """Discarding settles a delivery with a reason, for good."""

    async def story(store: Store) -> tuple[Delivery | None, dict[str, int]]:
        rig = Rig(store)
        rig.errors["a"] = ValueError("never")
        await rig.publish("a")
        await rig.all(rig.reader())
        await dead_letters.discard(store, rig.envelopes, "reader", 1, "by hand", 9.0)
        for refused in (
            dead_letters.discard(store, rig.envelopes, "reader", 1, "again", 9.0),
            retry_now(rig, 1),
        ):
            with pytest.raises(InputError):
                await refused
        async with store.read() as view:
            result = await find(view, "reader", 1)
        return result, await rig.retry(rig.reader())

    result, tried = engine.run(story)

    assert result is not None
    assert (result.state, result.error, result.last) == ("discarded", "by hand", 9.0)
    assert tried == {}


@pytest.mark.parametrize(
    ("tries", "pauses"),
    [(5, [60, 120, 240, 480]), (10, [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600])],
)
def test_tries_are_spaced_out_and_then_over(engine: Engine, tries: int, pauses: list[float]) -> None:
    """The pause doubles from a minute up to an hour; when the tries are used up, the delivery is dead."""
    backoff = Backoff(first_seconds=60.0, seconds_max=3600.0, tries=tries)

    async def story(store: Store) -> list[Delivery]:
        rig = Rig(store, backoff=backoff)
        rig.errors["a"] = ValueError("never")
        await rig.publish("a")
        await rig.all(rig.reader())
        rows = await rig.unsettled()
        while rows[-1].state == "parked":
            rows += await rig.deliverer.redeliver(rig.reader(), [rows[-1]])
            assert [rows[-1]] == await rig.unsettled()
        return rows

    rows = engine.run(story)

    assert [row.pause for row in rows] == [*pauses, 0.0]
    assert [row.attempts for row in rows] == list(range(1, tries + 1))
    assert [row.state for row in rows] == ["parked"] * len(pauses) + ["dead"]


def test_the_last_try_cannot_be_extended(engine: Engine) -> None:
    """Retry on the last try makes the delivery dead."""

    async def story(store: Store) -> str:
        rig = Rig(store, backoff=Backoff(first_seconds=60.0, seconds_max=60.0, tries=2))
        rig.errors["a"] = Retry(after=1.0)
        await rig.publish("a")
        await rig.all(rig.reader())
        [parked] = await rig.unsettled()
        return (await rig.deliverer.redeliver(rig.reader(), [parked]))[0].state

    assert engine.run(story) == "dead"


def test_only_the_reader_that_failed_runs_again(engine: Engine) -> None:
    """When its pause is over on the observer's clock a delivery is retried, with its own reader and no other."""

    async def story(store: Store) -> tuple[list[dict[str, int]], list[dict[str, str]]]:
        rig = Rig(store)
        good, bad = rig.reader("good"), rig.reader("bad")
        await rig.publish("a")
        await rig.all(good)
        rig.errors["a"] = ValueError("not yet")
        await rig.all(bad)
        rig.errors.clear()
        tried = [await rig.retry(good, bad)]
        for seconds in (59.0, 1.0, 100.0):
            rig.clock.seconds += seconds
            tried.append(await rig.retry(good, bad))
        return tried, [await rig.effects("good"), await rig.effects("bad")]

    assert engine.run(story) == ([{}, {}, {"done": 1}, {}], [{"a": "I"}, {"a": "I"}])


def test_deliveries_of_absent_readers_delay_no_others(engine: Engine) -> None:
    """However many deliveries wait for absent readers, those of present readers are retried in time."""

    async def story(store: Store) -> dict[str, int]:
        rig = Rig(store)
        many = _RETRIED_MAX
        await rig.publish(*(str(number) for number in range(many + 1)))
        async with store.begin() as tx:
            await tx.put_deliveries([delivery("gone", number + 1) for number in range(many)])
            await tx.put_deliveries([delivery("reader", many + 1)])
        await rig.retry(rig.reader())
        rig.clock.seconds += 60.0
        return await rig.retry(rig.reader())

    assert engine.run(story) == {"done": 1}
