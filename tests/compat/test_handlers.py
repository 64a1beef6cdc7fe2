"""Boundaries around handlers: what fails is counted and tried again, what hangs ends, what fails on is left alone."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from compat.ears import home, on_a_loop
from ringrift_compat.circuits import CircuitState
from ringrift_compat.dead_letters import get_dead_letter_queue
from ringrift_compat.events import get_router
from ringrift_compat.handlers import (
    CircuitOpen,
    ResilientHandlerConfig,
    make_handlers_resilient,
    resilient_handler,
)
from ringrift_compat.overall import get_system_health
from ringrift_compat.router_event import RouterEvent
from unit.kernel.hand import HandClock
from waiting import wait_until

__all__ = ["home"]

EVENT = RouterEvent(event_type="EVENT_A")


class Trainer:
    """A class of a user's, whose methods fail as long as it is moody."""

    def __init__(self) -> None:
        self.moody = True
        self.called: list[str] = []

    def _answer(self, name: str) -> str:
        self.called.append(name)
        if self.moody:
            raise ValueError("not today")
        return name

    async def _on_evaluated(self, event: RouterEvent) -> None:
        self._answer("evaluated")

    def _on_event(self, event: RouterEvent) -> str:
        return self._answer("event")

    def handle_other(self, event: RouterEvent) -> None:
        """Has another beginning."""
        self._answer("other")


def test_the_documented_values() -> None:
    """Thirty seconds and five failures in a row."""
    config = ResilientHandlerConfig()

    assert (config.timeout_seconds, config.max_consecutive_failures, config.reset_seconds) == (30.0, 5, 60.0)


@on_a_loop
async def test_methods_are_put_behind_boundaries() -> None:
    """Those with the prefix, plain and async, each with counts and a circuit of its own; what goes wrong is raised."""
    trainer = Trainer()
    made = make_handlers_resilient(trainer, "trainer", config=ResilientHandlerConfig(max_consecutive_failures=1))

    assert sorted(made) == ["_on_evaluated", "_on_event"]
    with pytest.raises(ValueError, match="not today"):
        trainer._on_event(EVENT)
    with pytest.raises(CircuitOpen, match=r"trainer\._on_event is not called for another 60 s: ValueError: not today"):
        trainer._on_event(EVENT)
    trainer.moody = False
    await trainer._on_evaluated(EVENT)
    event: Any = made["_on_event"]
    evaluated: Any = made["_on_evaluated"]
    assert (event.stats.error_count, event.stats.refused_count, event.stats.events_processed) == (1, 1, 1)
    assert (evaluated.stats.success_rate, evaluated.stats.error_count) == (1.0, 0)
    assert trainer.called == ["event", "evaluated"]
    assert list(make_handlers_resilient(trainer, prefix="handle_")) == ["handle_other"]


@on_a_loop
async def test_a_resilient_handler_that_fails_is_not_healthy() -> None:
    """Its failures are letters, tried again as any other's, and the health of the handlers falls with them."""
    trainer = Trainer()
    make_handlers_resilient(trainer, "trainer")
    get_router().subscribe("EVENT_A", trainer._on_event)
    await get_router().publish("EVENT_A", {})
    await wait_until(lambda: get_dead_letter_queue().get_stats()["abandoned"] == 1)

    health = get_system_health()
    assert health["handler_health"]["success_rate"] == 0.0
    assert health["status"] == "unhealthy"
    assert trainer.called == ["event"] * 3


@on_a_loop
async def test_what_failed_once_is_recovered() -> None:
    """The letter is the retry: the handler gets its event again and nothing is lost."""
    trainer = Trainer()
    make_handlers_resilient(trainer)
    evaluated: Callable[[RouterEvent], Any] = trainer._on_evaluated

    async def mended(event: RouterEvent) -> None:
        trainer.moody = not trainer.called
        await evaluated(event)

    get_router().subscribe("EVENT_A", mended)
    await get_router().publish("EVENT_A", {})

    await wait_until(lambda: get_dead_letter_queue().get_stats()["recovered"] == 1)
    assert trainer.called == ["evaluated"] * 2


def test_who_fails_on_is_left_alone_and_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    """After five failures it is not called, which is counted and said once; later one try closes the circuit."""
    trainer, clock = Trainer(), HandClock()
    handler: Any = resilient_handler(trainer._on_event, clock=clock)

    with caplog.at_level(logging.ERROR, "ringrift_compat.handlers"):
        for _ in range(8):
            with (
                pytest.raises(ValueError, match="not today") if len(trainer.called) < 5 else pytest.raises(CircuitOpen)
            ):
                handler(EVENT)
        clock.seconds += 61.0
        with pytest.raises(ValueError, match="not today"):
            handler(EVENT)

    assert len(trainer.called) == 6
    assert handler.stats.refused_count == 3
    assert len(caplog.records) == 1
    assert handler.breaker.state is CircuitState.OPEN
    clock.seconds += 61.0
    trainer.moody = False
    assert handler(EVENT) == handler(EVENT) == "event"
    assert handler.breaker.state is CircuitState.CLOSED


@pytest.mark.parametrize("awaits", [True, False], ids=["async", "plain that returns an awaitable"])
@on_a_loop
async def test_a_handler_that_hangs_ends(awaits: bool) -> None:
    """It is cancelled when its time is up, and that is a failure that counts."""
    ended = []

    async def hang(event: RouterEvent) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(event)

    config = ResilientHandlerConfig(timeout_seconds=0.01, max_consecutive_failures=1)
    handler: Any = resilient_handler(hang if awaits else lambda event: hang(event), name="hang", config=config)
    trying = asyncio.ensure_future(handler(EVENT))
    await asyncio.wait((trying,), timeout=2.0)

    assert trying.done()
    assert isinstance(trying.exception(), TimeoutError)
    assert (ended, handler.stats.error_count) == ([EVENT], 1)
    with pytest.raises(CircuitOpen):
        await handler(EVENT)


@on_a_loop
async def test_a_cancelled_try_decides_nothing() -> None:
    """Who is cancelled from outside has neither failed nor gone well, and the next may try."""
    clock, waits, ends = HandClock(), asyncio.Event(), [True]

    async def moody(event: RouterEvent) -> None:
        if ends[0]:
            raise ValueError("not today")
        await waits.wait()

    handler: Any = resilient_handler(moody, config=ResilientHandlerConfig(max_consecutive_failures=1), clock=clock)
    with pytest.raises(ValueError, match="not today"):
        await handler(EVENT)
    clock.seconds += 61.0
    ends[0] = False
    trying = asyncio.ensure_future(handler(EVENT))
    await asyncio.sleep(0)
    trying.cancel()
    await asyncio.wait((trying,))
    waits.set()
    await handler(EVENT)

    assert trying.cancelled()
    assert (handler.stats.events_processed, handler.stats.success_count) == (2, 1)
