"""Boundaries around handlers: failures are counted and retried, hanging calls end, a failing handler is suspended."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from compat.subscribers import async_test, home
from ringrift_compat.events.dead_letters import get_dead_letter_queue
from ringrift_compat.events.event_router import get_router
from ringrift_compat.events.handler_resilience import CircuitOpen, ResilientHandlerConfig, make_handlers_resilient
from ringrift_compat.events.router_event import RouterEvent
from ringrift_compat.health.circuit_breaker import CircuitState
from ringrift_compat.health.overall import get_system_health
from unit.kernel.manual_clock import ManualClock
from wait import wait_until

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


def resilient(call: Callable[..., Any], **options: Any) -> Any:
    """Return *call* wrapped in a boundary."""

    class Owner:
        _on_call = staticmethod(call)

    return make_handlers_resilient(Owner(), **options)["_on_call"]


def test_the_documented_values() -> None:
    """Thirty seconds and five failures in a row."""
    config = ResilientHandlerConfig()

    assert (config.timeout_seconds, config.max_consecutive_failures, config.reset_seconds) == (30.0, 5, 60.0)


@async_test
async def test_methods_are_wrapped_in_boundaries() -> None:
    """Methods with the prefix, plain and async, each get counts and a circuit of their own; errors are raised."""
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


@async_test
async def test_a_resilient_handler_that_fails_is_not_healthy() -> None:
    """Its failures are dead letters, retried like any other's, and the health of the handlers falls with them."""
    trainer = Trainer()
    make_handlers_resilient(trainer, "trainer")
    get_router().subscribe("EVENT_A", trainer._on_event)
    await get_router().publish("EVENT_A", {})
    await wait_until(lambda: get_dead_letter_queue().get_stats()["abandoned"] == 1)

    health = get_system_health()
    assert health["handler_health"]["success_rate"] == 0.0
    assert health["status"] == "unhealthy"
    assert trainer.called == ["event"] * 3


@async_test
async def test_a_single_failure_is_recovered() -> None:
    """The dead letter is the retry: the handler gets its event again and nothing is lost."""
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


def test_a_failing_handler_is_suspended_and_returns(caplog: pytest.LogCaptureFixture) -> None:
    """After five failures it is not called, which is counted and published once; later one success closes the
    circuit."""
    trainer, clock = Trainer(), ManualClock()
    handler: Any = resilient(trainer._on_event, clock=clock)

    with caplog.at_level(logging.ERROR, "ringrift_compat.events.handler_resilience"):
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
@async_test
async def test_a_handler_that_hangs_ends(awaits: bool) -> None:
    """It is cancelled when its time is up, and that is a failure that counts."""
    ended = []

    async def hang(event: RouterEvent) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(event)

    config = ResilientHandlerConfig(timeout_seconds=0.01, max_consecutive_failures=1)
    handler: Any = resilient(hang if awaits else lambda event: hang(event), config=config)
    trying = asyncio.ensure_future(handler(EVENT))
    await asyncio.wait((trying,), timeout=2.0)

    assert trying.done()
    assert isinstance(trying.exception(), TimeoutError)
    assert (ended, handler.stats.error_count) == ([EVENT], 1)
    with pytest.raises(CircuitOpen):
        await handler(EVENT)


@async_test
async def test_a_cancelled_call_decides_nothing() -> None:
    """A call cancelled from outside counts neither as failure nor as success, and the next may try."""
    clock, waits, ends = ManualClock(), asyncio.Event(), [True]

    async def moody(event: RouterEvent) -> None:
        if ends[0]:
            raise ValueError("not today")
        await waits.wait()

    handler: Any = resilient(moody, config=ResilientHandlerConfig(max_consecutive_failures=1), clock=clock)
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
