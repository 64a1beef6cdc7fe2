"""The circuit breaker: one of the kernel's breakers for each key, timed on the clock of this process.

The breakers of the pipeline's stages are not of this class: the loop keeps them in the store, and this reads them.
"""

import threading
from dataclasses import dataclass
from typing import Any

from ringrift.kernel import breaker as rules
from ringrift.kernel.breaker import Breaker, BreakerLimits, BreakerState
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.store.ports import Reads
from ringrift.work import breakers

CircuitState = BreakerState
_KEYS_MAX = 10_000
"""Keys with failures that are remembered; the oldest goes."""
_ERROR_CHARACTERS_MAX = 500


@dataclass(frozen=True)
class _TimedBreaker:
    """A breaker, and the tick at which it opened or let its last call through."""

    breaker: Breaker
    tick: float

    def at(self, tick: float, limits: BreakerLimits) -> Breaker:
        """The breaker at *tick*: half open once its time is over.

        A call without an outcome blocks the others no longer than the breaker stays open.
        """
        if tick < self.tick + limits.reset_seconds:
            return self.breaker
        rested = rules.rested(self.breaker)
        return rested if rested.tries < limits.tries_max else rules.undecided(rested)


_NEW = _TimedBreaker(Breaker(), 0.0)


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
        self._breakers: dict[str, _TimedBreaker] = {}

    @property
    def state(self) -> CircuitState:
        """The worst state of any key."""
        states = {circuit["state"] for circuit in self.get_circuits().values()}
        worst = [state for state in (CircuitState.OPEN, CircuitState.HALF_OPEN) if state in states]
        return worst[0] if worst else CircuitState.CLOSED

    def get_state(self, key: str) -> CircuitState:
        """The state of *key*."""
        with self._lock:
            return self._get(key).state

    def can_execute(self, key: str | None = None) -> bool:
        """Whether *key* may be tried now; half open, each True takes one of the places.

        Without a key: whether every key may, and no place is taken.
        """
        with self._lock:
            if key is None:
                return all(rules.would_allow(self._get(name), self._limits) for name in self._breakers)
            breaker, allowed = rules.allow(self._get(key), self._limits)
            if allowed:
                self._put(key, breaker, timed=breaker.state is CircuitState.HALF_OPEN)
            return allowed

    def record_success(self, key: str | None = None) -> None:
        """Record that a try of *key* succeeded."""
        with self._lock:
            self._put(key, rules.succeeded(self._get(key)))

    def record_failure(self, key: str | None = None, error: object = "") -> None:
        """Record that a try of *key* failed with *error*."""
        text = str(error)[:_ERROR_CHARACTERS_MAX]
        with self._lock:
            before = self._get(key)
            breaker = rules.failed(before, self._limits, text)
            self._put(key, breaker, timed=breaker.opened > before.opened)

    def record_undecided(self, key: str | None = None) -> None:
        """Record that a try of *key* showed nothing: there was nothing to do, or it was cancelled."""
        with self._lock:
            self._put(key, rules.undecided(self._get(key)))

    def get_circuits(self) -> dict[str, dict[str, Any]]:
        """State, failures, last error and seconds left open of every key that has failed since its last success."""
        with self._lock:
            rows = [(key, self._get(key), self._seconds_left(key)) for key in self._breakers]
        return {
            key: {
                "state": breaker.state.value,
                "failures": breaker.failures,
                "last_error": breaker.error,
                "seconds_left": left,
            }
            for key, breaker, left in rows
        }

    def _get(self, key: str | None) -> Breaker:
        return self._breakers.get(str(key or ""), _NEW).at(self._clock.tick(), self._limits)

    def _seconds_left(self, key: str) -> float:
        timed = self._breakers.get(key)
        if timed is None or timed.breaker.state is not CircuitState.OPEN:
            return 0.0
        return max(timed.tick + self._limits.reset_seconds - self._clock.tick(), 0.0)

    def _put(self, key: str | None, breaker: Breaker, *, timed: bool = False) -> None:
        name = str(key or "")
        before = self._breakers.pop(name, None)
        if breaker.failures:
            tick = self._clock.tick() if timed or before is None else before.tick
            self._breakers[name] = _TimedBreaker(breaker, tick)
        if len(self._breakers) > _KEYS_MAX:
            del self._breakers[next(iter(self._breakers))]


_STAGES = {
    "selfplay": "selfplay", "data_sync": "sync", "npz_export": "export", "training": "train",
    "evaluation": "evaluate", "promotion": "distribute",
}  # fmt: skip
"""The documented name of each stage of the pipeline → the stage whose stored breaker it obeys."""


async def read_stage_circuits(view: Reads) -> dict[str, dict[str, Any]]:
    """The stored breakers of the pipeline's stages that have failures, by their documented names.

    The loop opens and closes them; every program and every node of this home obeys the same.
    """
    names = {f"{breakers.STAGE}:{stage}": name for name, stage in _STAGES.items()}
    rows = await breakers.BREAKERS.get_many(view, list(names))
    return {
        names[subject]: {
            "state": row.state.value,
            "failures": row.failures,
            "last_error": row.error,
            "reset_seconds": row.seconds,
        }
        for subject, row in rows.items()
    }


async def refuse_stage(view: Reads, stage: str) -> str:
    """Why the stage with this documented name is not to be triggered now; empty if it may be."""
    row = await breakers.BREAKERS.get(view, f"{breakers.STAGE}:{_STAGES[stage]}")
    verdict = row.verdict("trigger") if row else None
    if row is None or verdict is None or verdict.allowed:
        return ""
    return f"{verdict.rule} ({row.failures} failures in a row; one job is tried after {row.seconds:g} s)"
