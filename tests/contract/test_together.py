"""Requests that come together are carried out by one call, and none of them harms another."""

import asyncio
from collections.abc import Sequence

import pytest

from contract.engines import run
from ringrift.coordinator.together import Batches, Together
from ringrift.kernel.errors import Busy


class Calls:
    """Remembers what it was called with; *error* is raised by the second call."""

    def __init__(self, error: Exception | None = None) -> None:
        self.seen: list[list[int]] = []
        self._error = error

    async def __call__(self, items: Sequence[int]) -> int:
        self.seen.append(list(items))
        await asyncio.sleep(0)
        if self._error is not None and len(self.seen) == 2:
            raise self._error
        return sum(items)


def test_those_that_come_together_are_one_call() -> None:
    """Whoever comes alone is carried out at once; those behind it share a call and its answer."""
    calls = Calls()

    async def story() -> list[int]:
        batches = Batches[int, int](Together())
        return await asyncio.gather(*(batches.run(number, calls) for number in range(1, 6)))

    answers = run(story())

    assert calls.seen == [[1, 2, 3, 4, 5]] or calls.seen == [[1], [2, 3, 4, 5]]
    assert sorted(number for call in calls.seen for number in call) == [1, 2, 3, 4, 5]
    assert answers == [sum(next(call for call in calls.seen if number in call)) for number in range(1, 6)]


def test_an_error_reaches_all_of_its_call_and_no_later_one() -> None:
    """A store that was busy for one call is asked again by the next."""
    calls = Calls(Busy("store", "a test"))

    async def story() -> None:
        batches = Batches[int, int](Together())
        assert await batches.run(1, calls) == 1
        errors = await asyncio.gather(*(batches.run(number, calls) for number in (2, 3)), return_exceptions=True)
        assert [type(error) for error in errors] == [Busy, Busy]
        assert await batches.run(4, calls) == 4

    run(story())

    assert calls.seen == [[1], [2, 3], [4]]


@pytest.mark.parametrize("during", [False, True])
def test_one_that_is_cancelled_leaves_the_others_alone(during: bool) -> None:
    """Before its call, and during it."""

    async def story() -> None:
        batches, begun, go = Batches[int, int](Together()), asyncio.Event(), asyncio.Event()

        async def carry_out(items: Sequence[int]) -> int:
            begun.set()
            await go.wait()
            return sum(items)

        await batches.run(1, Calls())  # so that the next two wait for one opening
        first, second = (asyncio.create_task(batches.run(number, carry_out)) for number in (2, 3))
        if during:
            await begun.wait()
        else:
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait((first,))
        go.set()

        assert first.cancelled()
        assert await second == 5

    run(story())
