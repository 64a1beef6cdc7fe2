"""Lookout: looks at every daemon from time to time, ends those that hang, and asks those that have more to say."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import told
from ringrift.kernel.health import Health, Status
from ringrift.kernel.value import Value
from ringrift.supervision import probe
from ringrift.supervision.stall import Stall, StallWatch
from ringrift.supervision.unit import ERROR_CHARACTERS_MAX, Unit

CRITICAL_SECONDS = 15.0
"""Between two looks at a critical daemon."""
ROUTINE_SECONDS = 30.0
READY_SECONDS_MAX = 30.0
STALL_SECONDS_MAX = 1.0
"""How long a node's loop may be held up before somebody is blamed for it."""
CHECK_SECONDS_MAX = 5.0
OVERSLEPT = 2.0
"""A rest that takes this many times too long means that the process itself slept."""
OVERSLEPT_SECONDS_MIN = 0.1
"""What a busy machine may add to a short one."""
STALLS_MAX = 20


class Pace(Value):
    """How often daemons are looked at, and how long is waited for one that starts."""

    critical_seconds: float = CRITICAL_SECONDS
    routine_seconds: float = ROUTINE_SECONDS
    ready_seconds_max: float = READY_SECONDS_MAX
    stall_seconds_max: float | None = None
    """How long the event loop may be held up; None where nobody watches it, as in a simulation."""


class Lookout:
    """Looks while :meth:`looking`; what it finds is written into the units."""

    def __init__(
        self, node: str, units: Mapping[str, Unit], clock: Clock, pace: Pace, *,
        give_up: Callable[[Unit], Awaitable[None]],
    ) -> None:  # fmt: skip
        self._node, self._units, self._clock, self._pace, self._give_up = node, units, clock, pace, give_up
        self._looked: dict[str, float] = {}
        self._changed = asyncio.Event()
        self.awake = clock.tick()
        """Since when daemons could be heard: who slept cannot blame others for their silence."""
        self.stalls: deque[Stall] = deque(maxlen=STALLS_MAX)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look while the body runs."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._look_for_ever(), name=f"{self._node}:lookout")
        limit = self._pace.stall_seconds_max
        watch = None if limit is None else StallWatch(loop, self._clock, limit, over=self._blame)
        if watch is not None:
            watch.start()
        try:
            yield
        finally:
            task.cancel()
            if watch is not None:
                watch.stop()

    def notice(self) -> None:
        """A daemon begins that may have to be looked at more often than the others."""
        self._changed.set()

    async def _look_for_ever(self) -> None:
        while True:
            step = min([self._pace.critical_seconds, self._pace.routine_seconds, *self._own_steps()])
            begun = self._clock.tick()
            cut_short = await self._rest(step)
            tick = self._clock.tick()
            if tick - begun > max(OVERSLEPT * step, step + OVERSLEPT_SECONDS_MIN):
                self.awake = tick
            if cut_short:
                continue
            due = [unit for unit in self._units.values() if self._is_due(unit, tick, step)]
            for unit in due:
                self._looked[unit.spec.name] = tick
                await self._end_if_it_hangs(unit, tick)
            await self._ask([unit for unit in due if unit.check is not None and unit.state == "running"])

    async def _rest(self, seconds: float) -> bool:
        """Let *seconds* pass; whether it was cut short because a daemon has begun."""
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return False
        self._changed.clear()
        return True

    def _own_steps(self) -> list[float]:
        """The seconds of those that have a pace of their own and are to run."""
        return [unit.spec.look_seconds for unit in self._units.values() if unit.spec.look_seconds and unit.wanted]

    def _is_due(self, unit: Unit, tick: float, step: float) -> bool:
        seconds = self._pace.critical_seconds if unit.spec.critical else self._pace.routine_seconds
        seconds = unit.spec.look_seconds or seconds
        looked = self._looked.get(unit.spec.name)
        # Half a step early is near enough: a timer that comes a moment too soon must not cost a whole step.
        return looked is None or tick - looked >= seconds - step / 2

    async def _end_if_it_hangs(self, unit: Unit, tick: float) -> None:
        if unit.ended_at is not None:
            if unit.state == "running" and tick - unit.ended_at > unit.stop_seconds_max:
                await self._give_up(unit)
        elif unit.scope is not None and probe.hangs(unit.vitals(self.awake), tick):
            unit.ended_at = tick
            unit.scope.reschedule(asyncio.get_running_loop().time())

    async def _ask(self, units: Sequence[Unit]) -> None:
        """Ask each how it is, all at once; one that does not answer must not keep the others waiting."""
        for unit in units:
            assert unit.check is not None
            if unit.asking is None or unit.asking.done():
                asked = _answer(unit.check)
                unit.asking = asyncio.get_running_loop().create_task(asked, name=f"{self._node}:{unit.spec.name}:check")
        asking = [unit.asking for unit in units if unit.asking is not None]
        if asking:
            await asyncio.wait(asking, timeout=CHECK_SECONDS_MAX)
        for unit in units:
            assert unit.asking is not None
            unit.checked = _checked(unit.spec.name, unit.asking)
            if not unit.asking.done():
                unit.asking.cancel()

    def _blame(self, stall: Stall) -> None:
        """The loop goes on after *stall*: write it down where it belongs."""
        self.stalls.append(stall)
        self.awake = self._clock.tick()  # nobody could be heard meanwhile
        unit = self._units.get(stall.task.removeprefix(f"{self._node}:"))
        if unit is not None:
            unit.hold_up(f"held up the event loop for {stall.seconds:.1f} s at {stall.place}")


async def _answer(check: Callable[[], Awaitable[Health]]) -> Health:
    return await check()


def _checked(name: str, asking: "asyncio.Task[Health]") -> Health:
    """What came of a check."""
    if not asking.done() or asking.cancelled():
        reason = f"its check did not answer within {CHECK_SECONDS_MAX:g} s"
        return Health(part=name, status=Status.UNHEALTHY, reason=reason)
    if (wrong := asking.exception()) is not None:
        reason = told(f"its check failed: {type(wrong).__name__}: {wrong}", ERROR_CHARACTERS_MAX)
        return Health(part=name, status=Status.UNHEALTHY, reason=reason)
    return asking.result()
