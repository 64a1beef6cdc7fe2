"""Letters that people deal with by hand: what is settled stays settled."""

import pytest

from contract.engines import Engine, append, delivery
from ringrift.bus import dead_letters
from ringrift.cli.store import by_hand
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.store.ports import Delivery, Store


async def letters(store: Store, *states: str) -> None:
    """A letter in each of *states*, at positions 1, 2, 3 …"""
    told = await append(store, *(str(number) for number in range(len(states))))
    async with store.begin() as tx:
        await tx.park([delivery("r", e.position, state) for e, state in zip(told, states, strict=True)])


async def found(store: Store) -> list[Delivery]:
    """Every letter."""
    async with store.read() as view:
        return list(await view.deliveries(("parked", "dead", "done", "discarded"), 10))


def test_a_letter_is_revived_or_given_up(engine: Engine) -> None:
    """A dead letter is tried again or given up with its reason; its tries and beginning stay, and counts are true."""

    async def story(store: Store) -> tuple[list[tuple[str, float, str]], dict[str, int]]:
        await letters(store, "dead", "dead")
        before = await found(store)
        await dead_letters.revive(store, "r", 1, 9.0)
        await dead_letters.discard(store, by_hand("n"), "r", 2, "not worth it", 9.0)
        after = await found(store)
        assert [(one.attempts, one.first) for one in after] == [(one.attempts, one.first) for one in before]
        return [(one.state, one.last, one.error) for one in after], await dead_letters.stats(store)

    told, counts = engine.run(story)

    assert [(state, last) for state, last, _ in told] == [("parked", 9.0), ("discarded", 9.0)]
    assert told[1][2] == "not worth it"
    assert counts == {"pending": 1, "recovered": 0, "abandoned": 0, "discarded": 1}


@pytest.mark.parametrize("state", ["done", "discarded"])
def test_what_is_settled_is_not_done_again(engine: Engine, state: str) -> None:
    """A letter that was recovered or given up can be neither revived nor discarded: its effect would happen twice."""

    async def story(store: Store) -> bool:
        await letters(store, state)
        before = await found(store)
        with pytest.raises(InputError):
            await dead_letters.revive(store, "r", 1, 9.0)
        with pytest.raises(InputError):
            await dead_letters.discard(store, by_hand("n"), "r", 1, "no", 9.0)
        with pytest.raises(UnknownName):
            await dead_letters.revive(store, "r", 7, 9.0)
        return before == await found(store)

    assert engine.run(story)
