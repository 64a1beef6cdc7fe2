"""Delays double from the first to the longest, and end with the last attempt."""

import asyncio
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.kernel.backoff import Backoff, wait_out
from ringrift.kernel.errors import TRANSIENT, Backpressure
from ringrift.sim.loop import run as simulate


@pytest.mark.parametrize(
    ("attempts", "delay"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 10.0), (6, 10.0), (7, None), (100, None)]
)
def test_delays_double_up_to_the_longest_and_end(attempts: int, delay: float | None) -> None:
    """Each failed attempt doubles the delay, never beyond the longest; after the last attempt there is none."""
    backoff = Backoff(first_seconds=1.0, seconds_max=10.0, tries=7)

    assert backoff.delay(attempts) == delay


def test_a_single_attempt_has_no_delay() -> None:
    """A backoff of one attempt does not wait for a second one."""
    assert Backoff(first_seconds=1.0, seconds_max=10.0, tries=1).delay(1) is None


@settings(max_examples=40)
@given(st.integers(min_value=1, max_value=40), st.integers())
def test_jitter_only_adds_and_never_more_than_its_share(attempts: int, seed: int) -> None:
    """With jitter the delay lies between the plain one and the plain one with the whole jitter on top."""
    backoff = Backoff(first_seconds=0.5, seconds_max=30.0, tries=50, jitter=0.25)
    plain = backoff.delay(attempts)
    assert plain is not None

    shaken = backoff.delay(attempts, Random(seed))

    assert shaken is not None
    assert plain <= shaken <= plain * 1.25


def test_thousands_of_attempts_keep_the_longest_delay() -> None:
    """The doubling stops at the longest delay for any number of attempts, instead of overflowing."""
    assert Backoff(first_seconds=1.0, seconds_max=60.0, tries=10_000).delay(2_000) == 60.0


def test_what_passes_by_itself_is_waited_out() -> None:
    """The call is made again with growing pauses, and each error is shown, until it returns."""

    async def story(_: object) -> tuple[str, list[Exception], list[float]]:
        loop, errors, moments = asyncio.get_running_loop(), list[Exception](), list[float]()

        async def call() -> str:
            moments.append(loop.time())
            if len(moments) <= 8:
                raise TRANSIENT[len(moments) % 2]("store", 1)
            return "done"

        return await wait_out(call, on_wait=errors.append), errors, moments

    result, errors, moments = simulate(1, story)
    pauses = [round(after - before, 3) for before, after in pairwise(moments)]

    assert (result, len(errors)) == ("done", 8)
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


def test_waiting_out_has_an_end_where_it_is_named() -> None:
    """After so many seconds the last error is raised; other errors are raised at once."""

    async def story(_: object) -> tuple[float, list[Exception]]:
        loop, waits = asyncio.get_running_loop(), list[Exception]()

        async def call() -> None:
            raise Backpressure("store", 1)

        async def fail() -> None:
            raise ValueError("no")

        with pytest.raises(Backpressure):
            await wait_out(call, seconds_max=30.0)
        seconds = loop.time()
        with pytest.raises(ValueError, match="no"):
            await wait_out(fail, on_wait=waits.append)
        return seconds, waits

    seconds, waits = simulate(1, story)

    assert 28.0 <= seconds <= 30.0
    assert waits == []
