"""Queue pressure: how far each queue of the loop slows down what fills it, measured in seconds until it is drained.

A queue of a million games that is empty in a minute presses on nothing; ten exports that take a day do.  So a level
follows from the depth of the queue divided by the rate at which it was drained lately; counts of items stand in where
nothing was ever drained.  Everything here is a pure function: the daemon ``measure_queues`` reads the store and the
clock, and everything that asks for more work obeys what it stores.
"""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ringrift.events.work import PressureChanged
from ringrift.jobs import JOBS
from ringrift.kernel.value import Value, changed
from ringrift.kernel.verdict import Verdict
from ringrift.store.records import Records

# Every level in order, with the share of its usual rate that production keeps.  From *hard* on the loop asks for no
# more self-play; the shares are for programs that cannot stop.
_LEVELS = {"none": 1, "low": 0.75, "soft": 0.5, "medium": 0.25, "hard": 0.1, "high": 0.05, "critical": 0.01, "stop": 0}
NONE, LOW, SOFT, HARD, STOP = "none", "low", "soft", "hard", "stop"
_ORDER = tuple(_LEVELS)
_PRESSING = _ORDER[1:]
_COUNT_SHARES = {"low": (0.5, 0.0), "soft": (0.75, 0.0), "medium": (1.0, 0.0)}  # of the soft and of the hard bound
_COUNT_SHARES |= {"hard": (0.0, 0.5), "high": (0.0, 0.75), "critical": (0.0, 0.9), "stop": (0.0, 1.0)}
_FALL_SHARE = 0.8  # a level falls only when the queue is below this share of the bound at which the level begins
_TREND_SHARE = 0.1  # a depth further than this from the mean of the older half of the window rises or falls
_SAMPLES_PER_WINDOW, _SAMPLES_MAX = 60, 64


class _Bounds(NamedTuple):
    """How deep a queue may be, in items; *per_hour*, which it is built to drain, turns both bounds into seconds."""

    soft: int  # slows production
    hard: int  # stops it
    per_hour: int


BOUNDS = {"training_data": _Bounds(100_000, 500_000, 10_000), "pending_games": _Bounds(1000, 5000, 500)}
BOUNDS |= {"evaluation": _Bounds(50, 200, 20), "promotion": _Bounds(10, 50, 5)}
BOUNDS |= {"sync": _Bounds(100, 500, 100), "export": _Bounds(20, 100, 10)}
PLAY_QUEUES = ("training_data", "pending_games", "sync", "export")  # queues that self-play fills
MATCH_QUEUES = ("evaluation", "promotion")  # queues that matches fill: their own, and the promotions they lead to
EXPORT_QUEUES = ("export",)


class QueueReading(Value):
    """One look at a queue."""

    depth: int
    drained: int  # items that ever left it, done or given up; falls only if some come back, as after a failed export
    running: int = 0  # items that are being worked on, and no longer wait
    idle: int = 0  # items of *depth* that press on nothing: they wait for something else than their turn


class QueuePressure(Value):
    """The pressure of one queue."""

    queue: str
    depth: int
    drain_seconds: float | None  # how long it takes to drain; None where no rate is known, and then counts decide
    level: str
    trend: str  # rising, steady or falling
    since: float  # when it came to this level
    limit: float = 0.0  # where the level *stop* begins: seconds if *drain_seconds* is known, otherwise items
    rate: float | None = None  # items drained a second while there were any


_UNMEASURED = QueuePressure(queue="", depth=0, drain_seconds=None, level=NONE, trend="steady", since=0.0)
_Last = QueuePressure | None  # the pressure of the measurement before, if there was one
PRESSURES = Records("queue_pressure", QueuePressure, id="queue")


class _Sample(Value):
    tick: float
    busy: float  # seconds up to *tick* in which there was anything to drain
    drained: float
    depth: int
    is_busy: bool


class DrainWindow(Value):
    """What an observer has seen of one queue: the last *seconds*, and further back to the drain before the last one.

    A queue that stands still keeps a rate, which falls for as long as nothing is drained: no forgotten rate ever lets
    its level fall.
    """

    seconds: float
    samples: tuple[_Sample, ...] = ()

    def after(self, reading: QueueReading, tick: float, rate: float | None = None) -> "DrainWindow":
        """The window with another *reading*.  A new observer begins with the *rate* of the one before it."""
        is_busy = reading.depth > reading.idle or reading.running > 0
        sample = _Sample(tick=tick, busy=0.0, drained=reading.drained, depth=reading.depth, is_busy=is_busy)
        if not self.samples:
            seconds, drained = self.seconds, reading.drained - (rate or 0.0) * self.seconds
            seed = changed(sample, tick=tick - seconds, busy=-seconds, drained=drained)
            return changed(self, samples=(sample,) if rate is None else (seed, sample))
        last, samples = self.samples[-1], list(self.samples)
        was_busy = last.is_busy or reading.drained > last.drained
        sample = changed(sample, busy=last.busy + (tick - last.tick) * was_busy)
        if len(samples) > 1 and last.tick - samples[-2].tick < self.seconds / _SAMPLES_PER_WINDOW:
            samples.pop()
        samples.append(sample)
        starts = [i for i in range(1, len(samples)) if self._may_start(samples[i - 1], samples[i], sample)]
        del samples[: max(starts, default=0)]
        if len(samples) > _SAMPLES_MAX:
            del samples[1]
        return changed(self, samples=tuple(samples))

    def _may_start(self, before: _Sample, sample: _Sample, last: _Sample) -> bool:
        """Whether a window up to *last* may start at *sample*: it is old, and there were drains before and after it."""
        is_old = last.tick - sample.tick >= self.seconds
        # A start between two drains would count the second without the time that it took.
        return is_old and before.drained != sample.drained != last.drained

    @property
    def rate(self) -> float | None:
        """Items drained a second while there were any; None if none was drained."""
        first, last = self.samples[0], self.samples[-1]
        drained, busy = last.drained - first.drained, last.busy - first.busy
        return drained / busy if drained > 0.0 and busy > 0.0 else None

    @property
    def trend(self) -> str:
        """Whether the depth rises or falls against the older half of the window."""
        last = self.samples[-1]
        older = [sample.depth for sample in self.samples if last.tick - sample.tick >= self.seconds / 2]
        mean = sum(older) / len(older) if older else float(last.depth)
        if abs(last.depth - mean) <= _TREND_SHARE * mean:
            return "steady"
        return "rising" if last.depth > mean else "falling"


def read_jobs(tally: Mapping[tuple[str, str], int]) -> dict[str, QueueReading]:
    """The queues that hold jobs, from the *tally* of jobs by kind and state.  A job that was claimed waits no more."""

    def read(queue: str) -> QueueReading:
        kinds, states = [job.kind() for job in JOBS if job.queue == queue], ("ready", "claimed", "done", "dead")
        ready, claimed, done, dead = (sum(tally.get((kind, state), 0) for kind in kinds) for state in states)
        return QueueReading(depth=ready, drained=done + dead, running=claimed)

    return {queue: read(queue) for queue in ("evaluation", "promotion", "sync", "export")}


def judge(
    queue: str, reading: QueueReading, before: _Last, *, patience: float, now: float, window: DrainWindow | None = None
) -> QueuePressure:
    """The pressure of *queue* after *reading*, by the rate of *window*; without one, by the rate *before*.

    *patience* multiplies the seconds that a queue may take.  The level rises at once, and falls only when the queue is
    clearly below the bound of its level.
    """
    source = before if window is None else window
    rate, trend = (None, "steady") if source is None else (source.rate, source.trend)
    due = reading.depth - reading.idle
    value, bounds = due if rate is None else due / rate, _bounds(queue, None if rate is None else patience)
    old = NONE if before is None else before.level
    level = _level(value, bounds)
    if _rank(level) < _rank(old):
        level = min(old, _level(value / _FALL_SHARE, bounds), key=_rank)
    since, seconds = now if before is None or level != old else before.since, None if rate is None else value
    after = changed(_UNMEASURED, queue=queue, depth=reading.depth, drain_seconds=seconds, level=level, trend=trend)
    return changed(after, since=since, limit=bounds[STOP], rate=rate)


def _bounds(queue: str, patience: float | None) -> dict[str, float]:
    """Where each level begins: by items, or with *patience* by seconds of drain, from soft to hard in equal steps."""
    soft, hard, per_hour = BOUNDS[queue]
    if patience is None:
        return {level: of_soft * soft + of_hard * hard for level, (of_soft, of_hard) in _COUNT_SHARES.items()}
    first, last = (3600.0 * patience * items / per_hour for items in (soft, hard))
    steps = len(_PRESSING) - 1
    return {level: first + (last - first) * step / steps for step, level in enumerate(_PRESSING)}


def _level(value: float, bounds: Mapping[str, float]) -> str:
    return next((level for level in reversed(_PRESSING) if value >= bounds[level]), NONE)


def _rank(level: str) -> int:
    return _ORDER.index(level)


def hardest(pressures: Iterable[QueuePressure]) -> QueuePressure:
    """The pressure with the highest level; none before the first measurement."""
    return max(pressures, key=lambda pressure: _rank(pressure.level), default=_UNMEASURED)


def change(before: _Last, after: QueuePressure) -> PressureChanged | None:
    """The event of a level that has changed, if it has."""
    old = NONE if before is None else before.level
    if after.level == old:
        return None
    was_active, is_active = _rank(old) >= _rank(HARD), _rank(after.level) >= _rank(HARD)
    backpressure = "" if was_active is is_active else "activated" if is_active else "released"
    values = {name: getattr(after, name) for name in ("queue", "level", "depth", "drain_seconds")}
    return PressureChanged(before=old, limit=math.ceil(after.limit), backpressure=backpressure, **values)


def require_room(gate: str, pressure: QueuePressure, level: str, now: float) -> Verdict:
    """Whether *gate* may ask for more work of a queue: not while it presses as hard as *level* or harder."""
    seconds = pressure.drain_seconds
    value, unit = (pressure.depth, "items that wait") if seconds is None else (seconds, "seconds until it is drained")
    place = f"the queue {pressure.queue} is at {pressure.level}, {unit}"
    rule = place if pressure.queue else "no queue is measured yet"
    allowed = _rank(pressure.level) < _rank(level)
    return Verdict(gate=gate, allowed=allowed, rule=rule, value=value, limit=pressure.limit, since=now)


def scaled(count: int, pressure: QueuePressure) -> int:
    """*count* as far as *pressure* leaves it: at least 1 while anything is left of it."""
    return math.ceil(count * _LEVELS[pressure.level])
