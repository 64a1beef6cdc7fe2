"""The documented boundary around handlers: a time limit and a circuit breaker for each."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from ringrift.bus.delivery import attempt
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import DeliveryError
from ringrift.kernel.foreign import attempt_sync
from ringrift_compat.events.handler_base import HandlerStats
from ringrift_compat.health.circuit_breaker import CircuitBreaker, CircuitState

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResilientHandlerConfig:
    """How long a handler may take, and when it is not called for a while.

    Retries are not set here: what failed is a dead letter, and ``bus.redelivery`` sets how often it is tried again.
    """

    timeout_seconds: float = 30.0
    """For async handlers; a plain one runs in a thread, which cannot be stopped."""
    max_consecutive_failures: int = 5
    """Failures in a row that open the circuit: the handler is not called …"""
    reset_seconds: float = 60.0
    """… for so long; then one event shows whether it works again."""


class CircuitOpen(DeliveryError):
    """A handler has failed too often in a row and is not called for a while: its events are dead letters until then."""

    def __init__(self, name: str, seconds: float, error: str) -> None:
        self.name, self.seconds, self.error = name, seconds, error
        super().__init__(f"{name} is not called for another {seconds:.0f} s: {error}")


class _Boundary:
    """Around one handler: counts its results, and opens its circuit."""

    def __init__(self, name: str, config: ResilientHandlerConfig, clock: Clock | None) -> None:
        self.name, self.config, self.stats = name, config, HandlerStats()
        self.breaker = CircuitBreaker(config.max_consecutive_failures, config.reset_seconds, clock=clock)
        self._is_logged = False

    def enter(self) -> None:
        """Raise CircuitOpen, and count it, if the handler is not to be called now."""
        if not self.breaker.can_execute(self.name):
            circuit = self.breaker.get_circuits()[self.name]
            self.stats.refused_count += 1
            raise CircuitOpen(self.name, circuit["seconds_left"], circuit["last_error"])

    def leave(self, error: Exception | None) -> None:
        """Count one call; raises its error."""
        self.stats.record(self.name, error)
        if error is None:
            self.breaker.record_success(self.name)
            self._is_logged = False
            return
        self.breaker.record_failure(self.name, self.stats.last_error)
        if not self._is_logged and self.breaker.get_state(self.name) is CircuitState.OPEN:
            self._is_logged = True
            log.error("%s fails again and again and is not called for a while", self.name, exc_info=error)
        raise error

    async def run(self, call: Callable[[], Awaitable[Any]]) -> None:
        """Await what *call* returns, within the time limit."""

        async def within_limit() -> None:
            async with asyncio.timeout(self.config.timeout_seconds):
                await call()

        try:
            error = await attempt(within_limit)
        except asyncio.CancelledError:
            self.breaker.record_undecided(self.name)
            raise
        self.leave(error)


def _make_resilient(call: Callable[..., Any], boundary: _Boundary) -> Callable[..., Any]:
    """*call* behind *boundary*.  Its errors are counted and raised: swallowed, the event would be lost."""

    @wraps(call)
    def plain(*args: Any) -> Any:
        boundary.enter()
        result, error = attempt_sync(call, *args)
        if error is None and inspect.isawaitable(result):
            return boundary.run(lambda: result)
        boundary.leave(error)
        return result

    @wraps(call)
    async def bounded(*args: Any) -> None:
        boundary.enter()
        await boundary.run(lambda: call(*args))

    wrapped: Any = bounded if inspect.iscoroutinefunction(call) else plain
    wrapped.stats, wrapped.breaker = boundary.stats, boundary.breaker
    return wrapped  # type: ignore[no-any-return]  # one of the two above


def make_handlers_resilient(
    owner: object, name: str = "", prefix: str = "_on_", config: ResilientHandlerConfig | None = None,
    *, clock: Clock | None = None,
) -> dict[str, Callable[..., Any]]:  # fmt: skip
    """Put every method of *owner* whose name begins with *prefix* behind a boundary of its own; these, by their names.

    *name* is the owner's name in errors and counts.
    """
    own, limits = name or type(owner).__name__, config or ResilientHandlerConfig()
    methods = {method: getattr(owner, method) for method in dir(type(owner)) if method.startswith(prefix)}
    handlers = {
        method: _make_resilient(call, _Boundary(f"{own}.{method}", limits, clock))
        for method, call in methods.items()
        if callable(call)
    }
    for method, handler in handlers.items():
        setattr(owner, method, handler)
    return handlers
