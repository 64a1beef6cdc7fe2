"""Dead letters handled by hand: a settled delivery stays settled."""

import pytest

from contract.engines import Engine, append, delivery
from contract.subscribers import envelopes
from ringrift.bus import dead_letters
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.store.ports import Delivery, Store


async def failed_deliveries(store: Store, *states: str) -> None:
    """A delivery in each of *states*, at positions 1, 2, 3 …"""
    published = await append(store, *(str(number) for number in range(len(states))))
    async with store.begin() as tx:
        await tx.put_deliveries([delivery("r", e.position, state) for e, state in zip(published, states, strict=True)])


async def result(store: Store) -> list[Delivery]:
    """Every failed delivery."""
    async with store.read() as view:
        return list(await view.deliveries(("parked", "dead", "done", "discarded"), 10))


def test_a_dead_letter_is_revived_or_discarded(engine: Engine) -> None:
    """A dead letter is retried or discarded with its reason; its tries and start stay, and the counts are right."""

    async def story(store: Store) -> tuple[list[tuple[str, float, str]], dict[str, int]]:
        await failed_deliveries(store, "dead", "dead")
        before = await result(store)
        await dead_letters.revive(store, "r", 1, 9.0)
        await dead_letters.discard(store, envelopes("n", SystemClock()), "r", 2, "not worth it", 9.0)
        after = await result(store)
        assert [(row.attempts, row.first) for row in after] == [(row.attempts, row.first) for row in before]
        return [(row.state, row.last, row.error) for row in after], await dead_letters.stats(store)

    published, counts = engine.run(story)

    assert [(state, last) for state, last, _ in published] == [("parked", 9.0), ("discarded", 9.0)]
    assert published[1][2] == "not worth it"
    assert counts == {"pending": 1, "recovered": 0, "abandoned": 0, "discarded": 1}


@pytest.mark.parametrize("state", ["done", "discarded"])
def test_a_settled_delivery_is_not_repeated(engine: Engine, state: str) -> None:
    """A recovered or discarded delivery can be neither revived nor discarded: its effect would happen twice."""

    async def story(store: Store) -> bool:
        await failed_deliveries(store, state)
        before = await result(store)
        with pytest.raises(InputError):
            await dead_letters.revive(store, "r", 1, 9.0)
        with pytest.raises(InputError):
            await dead_letters.discard(store, envelopes("n", SystemClock()), "r", 1, "no", 9.0)
        with pytest.raises(UnknownName):
            await dead_letters.revive(store, "r", 7, 9.0)
        return before == await result(store)

    assert engine.run(story)
