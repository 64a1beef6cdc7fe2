"""The circuit breaker: one of the kernel's breakers for each key."""

import threading
from typing import Any

from ringrift.kernel import breaker as breakers
from ringrift.kernel.breaker import Breaker, BreakerLimits, BreakerState
from ringrift.kernel.clock import Clock, SystemClock
from ringrift_compat.embedded_node import EmbeddedNode

CircuitState = BreakerState
_KEYS_MAX = 10_000
"""Keys with failures that are remembered; the oldest goes."""
_ERROR_CHARACTERS_MAX = 500


class CircuitBreaker:
    """Decides from the last results whether something may be tried; without a key it answers for all keys."""

    def __init__(
        self,
        failure_threshold: int = 3,
        reset_timeout_seconds: float = 300.0,
        half_open_max: int = 1,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._limits = BreakerLimits(
            failures_max=failure_threshold, reset_seconds=reset_timeout_seconds, tries_max=half_open_max
        )
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._breakers: dict[str, Breaker] = {}

    @property
    def state(self) -> CircuitState:
        """The worst state of any key."""
        states = {circuit["state"] for circuit in self.get_circuits().values()}
        worst = [state for state in (CircuitState.OPEN, CircuitState.HALF_OPEN) if state in states]
        return worst[0] if worst else CircuitState.CLOSED

    def get_state(self, key: str) -> CircuitState:
        """The state of *key*."""
        with self._lock:
            return breakers.state(self._get(key), self._limits, self._clock.tick())

    def can_execute(self, key: str | None = None) -> bool:
        """Whether *key* may be tried now; half open, each True takes one of the places.

        Without a key: whether every key may, and no place is taken.
        """
        tick = self._clock.tick()
        with self._lock:
            if key is None:
                return all(breakers.would_allow(breaker, self._limits, tick) for breaker in self._breakers.values())
            breaker, allowed = breakers.allow(self._get(key), self._limits, tick)
            self._put(key, breaker)
            return allowed

    def record_success(self, key: str | None = None) -> None:
        """Record that a try of *key* succeeded."""
        with self._lock:
            self._put(key, breakers.succeeded(self._get(key)))

    def record_failure(self, key: str | None = None, error: object = "") -> None:
        """Record that a try of *key* failed with *error*."""
        text = str(error)[:_ERROR_CHARACTERS_MAX]
        with self._lock:
            self._put(key, breakers.failed(self._get(key), self._limits, self._clock.tick(), text))

    def record_undecided(self, key: str | None = None) -> None:
        """Record that a try of *key* showed nothing: there was nothing to do."""
        with self._lock:
            self._put(key, breakers.undecided(self._get(key)))

    def explain(self, key: str) -> str:
        """Why *key* may not be tried now, and when it may again."""
        with self._lock:
            breaker, tick = self._get(key), self._clock.tick()
        left = breakers.seconds_left(breaker, self._limits, tick)
        return f"the circuit of {key} is open for another {left:.0f} s: {breaker.error}"

    def get_circuits(self) -> dict[str, dict[str, Any]]:
        """State, failures, last error and seconds left open of every key that has failed since its last success."""
        tick = self._clock.tick()
        with self._lock:
            items = list(self._breakers.items())
        return {
            key: {
                "state": breakers.state(breaker, self._limits, tick).value,
                "failures": breaker.failures,
                "last_error": breaker.error,
                "seconds_left": breakers.seconds_left(breaker, self._limits, tick),
            }
            for key, breaker in items
        }

    def _get(self, key: str | None) -> Breaker:
        return self._breakers.get(str(key or ""), Breaker())

    def _put(self, key: str | None, breaker: Breaker) -> None:
        self._breakers.pop(str(key or ""), None)
        if breaker.failures:
            self._breakers[str(key or "")] = breaker
        if len(self._breakers) > _KEYS_MAX:
            del self._breakers[next(iter(self._breakers))]


def stage_breaker(node: EmbeddedNode) -> CircuitBreaker:
    """A breaker for the stages that this program triggers, by their documented names: an extension of *node*."""
    return CircuitBreaker(clock=node.clock)
