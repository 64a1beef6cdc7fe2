"""Watch: what has not changed for how long, on the observer's own monotonic clock.

Leases, paused jobs and parked deliveries all end by the same rule: nobody writes an expiry time, because wall clocks
jump and monotonic clocks mean nothing on another machine.  The observer remembers when it last saw each counter
change; after a restart every one gets its full time again.
"""

from collections.abc import Iterable

from ringrift.kernel.value import Value


class Seen(Value):
    """One thing under watch: *mark* changes when it is alive, *seconds* is how long it may stand still."""

    name: str
    mark: int
    seconds: float


class Watch:
    """Remembers since when each mark has stood still."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[int, float]] = {}

    def overdue(self, things: Iterable[Seen], tick: float) -> list[Seen]:
        """Those of *things* whose mark has not changed for their seconds.  What is no longer listed is forgotten."""
        kept: dict[str, tuple[int, float]] = {}
        late = []
        for thing in things:
            mark, since = self._since.get(thing.name, (thing.mark, tick))
            if mark != thing.mark:
                mark, since = thing.mark, tick
            kept[thing.name] = (mark, since)
            if tick - since >= thing.seconds:
                late.append(thing)
        self._since = kept
        return late


def recent(ticks: Iterable[float], tick: float, seconds: float) -> tuple[float, ...]:
    """Those of *ticks* that lie in the last *seconds*."""
    return tuple(t for t in ticks if tick - t < seconds)
