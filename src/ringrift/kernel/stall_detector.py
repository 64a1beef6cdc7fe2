"""StallDetector: which counters have stood still for too long, on the observer's own monotonic clock.

Leases, paused jobs and parked deliveries all end by this rule.  No expiry time is ever written: wall clocks jump, and
monotonic clocks mean nothing on another machine.  After a restart every counter gets its full time again.
"""

from collections.abc import Iterable

from ringrift.kernel.value import Value


class Observation(Value, kw_only=False):
    """One observed thing: *counter* changes while it is alive, and may stand still for *seconds*."""

    name: str
    counter: int
    seconds: float


class StallDetector:
    """Remembers since when each counter has stood still."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[int, float]] = {}

    def stalled(self, observations: Iterable[Observation], tick: float) -> list[Observation]:
        """Those *observations* whose counter has not changed for their seconds.  What is not listed is forgotten."""
        since_now: dict[str, tuple[int, float]] = {}
        stalled = []
        for observation in observations:
            counter, since = self._since.get(observation.name, (observation.counter, tick))
            if counter != observation.counter:
                counter, since = observation.counter, tick
            since_now[observation.name] = (counter, since)
            if tick - since >= observation.seconds:
                stalled.append(observation)
        self._since = since_now
        return stalled


def recent(ticks: Iterable[float], tick: float, seconds: float) -> tuple[float, ...]:
    """Those of *ticks* that lie in the last *seconds*."""
    return tuple(t for t in ticks if tick - t < seconds)
