"""Delivery when a role passes on in the middle of it, or a reader asks for what cannot be."""

import asyncio
import math
from typing import Any

import pytest

from contract.deliverer_rig import Rig
from contract.engines import Engine, delivery, put
from ringrift.bus.dead_letters import find
from ringrift.events.base import Envelope, Event
from ringrift.kernel.errors import NotLeader, Retry
from ringrift.store.ports import Delivery, Store, Tx


@pytest.mark.parametrize(
    ("after", "pause"),
    [(math.nan, 60.0), (-1.0, 0.0), (1e300, 604_800.0), (10**400, 604_800.0), (math.inf, 604_800.0), ("soon", 60.0)],
)
def test_a_reader_cannot_ask_for_a_pause_that_is_none(engine: Engine, after: Any, pause: float) -> None:
    """A pause that is no number, negative or longer than a week is replaced, and the reader continues."""

    async def story(store: Store) -> tuple[Delivery | None, dict[str, str]]:
        rig = Rig(store)
        rig.errors["a"] = retry = Retry(after=1.0)
        retry.after = after
        await rig.publish("a", "b")
        await rig.all(rig.reader())
        async with store.read() as view:
            result = await find(view, "reader", 1)
        return result, await rig.effects()

    result, effects = engine.run(story)

    assert result is not None
    assert (result.state, result.pause) == ("parked", pause)
    assert effects == {"b": "I"}


@pytest.mark.parametrize("verb", ["deliver", "redeliver"])
def test_a_failure_is_not_recorded_in_a_term_that_is_over(engine: Engine, verb: str) -> None:
    """A reaction that takes too long is parked by a second transaction, which needs the role as much as the first."""

    async def story(store: Store) -> tuple[type[BaseException], dict[str, int], list[Delivery]]:
        rig, is_over = Rig(store), False

        async def guard(tx: Tx) -> None:
            if is_over:
                raise NotLeader("pipeline", "n2")

        async def react(event: Event, envelope: Envelope, tx: Tx) -> None:
            nonlocal is_over
            is_over = True  # while it takes its time another node takes the role
            await asyncio.get_running_loop().create_future()

        await rig.publish("a")
        reader = rig.reader(guard=guard, react=react)
        position, parked = await rig.deliverer.register(reader), delivery("reader", 1)
        if verb == "redeliver":
            async with store.begin() as tx:
                await tx.put_deliveries([parked])
        again = rig.deliverer.redeliver(reader, [parked])
        first = rig.deliverer._deliver_singly(reader, position)
        chosen, other = (first, again) if verb == "deliver" else (again, first)
        other.close()
        taking = asyncio.create_task(chosen)
        while not taking.done():
            await put(store, "k", "another writer")
        left = await rig.unsettled()
        async with store.read() as view:
            return type(taking.exception()), dict(await view.positions()), left

    error, positions, left = engine.run(story, tx_seconds_max=0.05)

    assert (error, positions) == (NotLeader, {"reader": 0})
    assert left == ([delivery("reader", 1)] if verb == "redeliver" else [])
