"""The documented circuit breaker: one for each key, over the breaker of the kernel."""

import threading
from typing import Any

from ringrift.kernel import breaker as breakers
from ringrift.kernel.breaker import Breaker, Limits, State
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import InputError
from ringrift_compat.ambient import Embedded

CircuitState = State
KEPT = "circuits"
KEYS_MAX = 10_000
ERROR_CHARACTERS_MAX = 500


class CircuitBreaker:
    """Says whether something may be tried, by what came of the last tries; without a key it speaks for all of them."""

    def __init__(
        self, failure_threshold: int = 3, reset_timeout_seconds: float = 300.0, half_open_max: int = 1, *,
        clock: Clock | None = None,
    ) -> None:  # fmt: skip
        self.limits = Limits(
            failures_max=failure_threshold, reset_seconds=reset_timeout_seconds, tries_max=half_open_max
        )
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._all: dict[str, Breaker] = {}

    @property
    def state(self) -> CircuitState:
        """The worst state of any key."""
        return self.get_state()

    def get_state(self, key: str | None = None) -> CircuitState:
        """The state of *key*; without one, the worst of any."""
        tick = self._clock.tick()
        with self._lock:
            asked = list(self._all.values()) if key is None else [self._all.get(str(key), Breaker())]
        found = {breakers.state(one, self.limits, tick) for one in asked}
        return next((one for one in (State.OPEN, State.HALF_OPEN) if one in found), State.CLOSED)

    def can_execute(self, key: str | None = None) -> bool:
        """Whether *key* may be tried now; half open, each True takes one of the places.

        Without a key: whether every key may, and nothing is taken, for nobody knows which will be tried.
        """
        tick = self._clock.tick()
        with self._lock:
            if key is None:
                return all(breakers.would_allow(one, self.limits, tick) for one in self._all.values())
            self._all[str(key)], allowed = breakers.allow(self._of(key), self.limits, tick)
            return allowed

    def would_execute(self, key: str) -> bool:
        """Whether *key* may be tried now; takes nothing."""
        with self._lock:
            return breakers.would_allow(self._of(key), self.limits, self._clock.tick())

    def record_success(self, key: str | None = None) -> None:
        """A try of *key* went well."""
        with self._lock:
            self._all[str(key or "")] = breakers.succeeded(self._of(key))

    def record_failure(self, key: str | None = None, error: object = "") -> None:
        """A try of *key* failed with *error*."""
        text = str(error)[:ERROR_CHARACTERS_MAX]
        with self._lock:
            self._all[str(key or "")] = breakers.failed(self._of(key), self.limits, self._clock.tick(), text)

    def record_undecided(self, key: str | None = None) -> None:
        """A try of *key* told nothing: there was nothing to do."""
        with self._lock:
            self._all[str(key or "")] = breakers.undecided(self._of(key))

    def reset(self, key: str | None = None) -> None:
        """Forget the failures of *key*, or of all."""
        with self._lock:
            if key is None:
                self._all.clear()
            else:
                self._all.pop(str(key), None)

    def seconds_left(self, key: str) -> float:
        """How long *key* stays open; 0 if it is not."""
        with self._lock:
            return breakers.seconds_left(self._of(key), self.limits, self._clock.tick())

    def last_error(self, key: str) -> str:
        """The error of the last failure of *key*."""
        with self._lock:
            return self._of(key).error

    def get_status(self) -> dict[str, Any]:
        """The worst state, and that of each key with its failures, its last error and how long it stays open."""
        tick = self._clock.tick()
        with self._lock:
            known = dict(self._all)
        circuits = {
            key: {
                "state": breakers.state(one, self.limits, tick).value,
                "failures": one.failures,
                "last_error": one.error,
                "seconds_left": breakers.seconds_left(one, self.limits, tick),
            }
            for key, one in known.items()
        }
        return {"state": self.state.value, "circuits": circuits}

    def _of(self, key: str | None) -> Breaker:
        name = str(key or "")
        if name not in self._all and len(self._all) >= KEYS_MAX:
            raise InputError(f"a breaker has at most {KEYS_MAX} keys")
        return self._all.get(name, Breaker())


def of_stages(node: Embedded) -> CircuitBreaker:
    """The breaker of the stages that this program triggers, by their documented names."""
    found: CircuitBreaker = node.kept.get(KEPT) or node.kept.setdefault(KEPT, CircuitBreaker(clock=node.clock))
    return found
