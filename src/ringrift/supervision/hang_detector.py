"""The hang detector: looks at every daemon from time to time, ends those that hang, and runs the checks of the rest.

Blocking code cannot be noticed from inside the loop that it blocks.  A thread sends the loop a call and waits; if the
loop does not make the call in time, the thread looks which task runs and where.  A simulated loop has no threads and
gets no such watch.
"""

import asyncio
import logging
import math
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType

from ringrift.events.daemon import Stalled
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import printable
from ringrift.kernel.health import Health, Status
from ringrift.kernel.value import Value
from ringrift.supervision.status import ACTIVE
from ringrift.supervision.unit import ERROR_CHARACTERS_MAX, Unit
from ringrift.threads import call_soon

_READY_SECONDS_MAX = 30.0
STALL_SECONDS_MAX = 1.0  #: How long a node's loop may be blocked before a daemon is blamed for it.
_CHECK_SECONDS_MAX = 5.0
_OVERSLEPT = 2.0  #: A sleep that takes this many times too long means that the process itself was suspended.
_OVERSLEPT_SECONDS_MIN = 0.1  #: Seconds that a busy machine may add to a short sleep.
_PING_SECONDS = 0.25  #: Between an answer and the next call.
_PLACE_CHARACTERS_MAX = 200
_FOREIGN = ("asyncio", "threading", "selectors", "concurrent")  #: A blocking call may end there; they never cause it.
log = logging.getLogger(__name__)


class _StallWatch:
    """Watches the running loop from a thread of its own until :meth:`stop`."""

    def __init__(self, clock: Clock, seconds_max: float, on_end: Callable[[str, str, float], None]) -> None:
        """A stall is logged while the loop is still blocked; *on_end* is called in the loop when it runs on.

        It gets the task that blocked the loop, its place in the code, and how long the loop took to answer.
        """
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        self._clock, self._seconds_max, self._on_end = clock, seconds_max, on_end
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ringrift-stall", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread without waiting for it: it may wait for this very loop."""
        self._stopping.set()

    def _watch(self) -> None:
        while not self._stopping.wait(_PING_SECONDS):
            answered = threading.Event()
            start = self._clock.tick()
            if not call_soon(self._loop, answered.set):
                return
            if answered.wait(self._seconds_max):
                continue
            task, frame = asyncio.current_task(self._loop), sys._current_frames().get(self._loop_thread)
            name, place = "no task" if task is None else task.get_name(), _place(frame)
            log.error("the event loop has been blocked for %.1f s by %s at %s", self._clock.tick() - start, name, place)
            while not answered.wait(self._seconds_max):
                if self._stopping.is_set():
                    return
            call_soon(self._loop, partial(self._on_end, name, place, self._clock.tick() - start))


def _place(frame: FrameType | None) -> str:
    """The innermost line of *frame* that is not the loop's own or a lock's: file, line and function."""
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _FOREIGN and frame.f_back:
        frame = frame.f_back
    if frame is None:
        return "an unknown place"
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"[-_PLACE_CHARACTERS_MAX:]


class CheckIntervals(Value):
    """How often daemons are looked at, and how long a start may take."""

    critical_seconds: float = 15.0
    routine_seconds: float = 30.0
    ready_seconds_max: float = _READY_SECONDS_MAX
    stall_seconds_max: float | None = None  #: How long the loop may be blocked; None: not watched, as in a simulation.


class HangDetector:
    """Watches *units* while :meth:`watching`, and writes what it sees into them."""

    def __init__(
        self, node: str, units: Mapping[str, Unit], clock: Clock, intervals: CheckIntervals, *,
        give_up: Callable[[Unit], Awaitable[None]], publish: Callable[[Stalled], object],
    ) -> None:  # fmt: skip
        self._node, self._units, self._clock, self._intervals = node, units, clock, intervals
        self._give_up, self._publish = give_up, publish
        self._last_looks: dict[str, float] = {}
        self._changed = asyncio.Event()
        self.awake = clock.tick()  #: Since then this process has run: suspended, no daemon could make progress.

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch while the body runs."""
        task = asyncio.get_running_loop().create_task(self._watch(), name=f"{self._node}:hang_detector")
        limit = self._intervals.stall_seconds_max
        stall_watch = None if limit is None else _StallWatch(self._clock, limit, self._record_stall)
        try:
            yield
        finally:
            task.cancel()
            if stall_watch is not None:
                stall_watch.stop()

    def on_start(self) -> None:
        """A daemon starts that may have to be looked at more often than the others."""
        self._changed.set()

    async def _watch(self) -> None:
        intervals = self._intervals
        while True:
            own = [unit.spec.check_seconds or math.inf for unit in self._units.values() if unit.should_run]
            step = min([intervals.critical_seconds, intervals.routine_seconds, *own])
            start = self._clock.tick()
            with suppress(TimeoutError):
                async with asyncio.timeout(step):
                    await self._changed.wait()
            is_cut_short = self._changed.is_set()  # a daemon has started
            self._changed.clear()
            tick = self._clock.tick()
            if tick - start > max(_OVERSLEPT * step, step + _OVERSLEPT_SECONDS_MIN):
                self.awake = tick
            if is_cut_short:
                continue
            due = [unit for unit in self._units.values() if self._is_due(unit, tick, step)]
            for unit in due:
                self._last_looks[unit.spec.name] = tick
                await self._end_if_it_hangs(unit, tick)
            await self._run_checks([unit for unit in due if unit.check is not None and unit.state == "running"])

    def _is_due(self, unit: Unit, tick: float, step: float) -> bool:
        last, usual = self._last_looks.get(unit.spec.name), self._intervals
        seconds = unit.spec.check_seconds or (usual.critical_seconds if unit.spec.critical else usual.routine_seconds)
        # Half a step early is near enough: a timer that fires a moment too soon must not cost a whole step.
        return last is None or tick - last >= seconds - step / 2

    async def _end_if_it_hangs(self, unit: Unit, tick: float) -> None:
        if unit.cancelled_at is not None:
            if unit.state in ACTIVE and tick - unit.cancelled_at > unit.stop_seconds_max:
                await self._give_up(unit)
        elif unit.scope is not None and unit.vitals(self.awake).is_hanging(tick):
            unit.cancelled_at = tick
            unit.scope.reschedule(asyncio.get_running_loop().time())

    async def _run_checks(self, units: Sequence[Unit]) -> None:
        """Run the checks of *units* all at once; one that hangs must not keep the others waiting."""
        tasks = []
        for unit in units:
            assert unit.check is not None
            if unit.check_task is None or unit.check_task.done():
                unit.check_task = asyncio.ensure_future(unit.check())
            tasks.append(unit.check_task)
        if tasks:
            await asyncio.wait(tasks, timeout=_CHECK_SECONDS_MAX)
        for unit, task in zip(units, tasks, strict=True):
            unit.checked = _check_result(unit.spec.name, task)
            if not task.done():
                task.cancel()

    def _record_stall(self, task: str, place: str, seconds: float) -> None:
        """The loop runs on: record the stall at the daemon that blocked it."""
        self.awake = self._clock.tick()  # no daemon could make progress meanwhile
        unit = self._units.get(task.removeprefix(f"{self._node}:"))
        if unit is not None:
            unit.record_stall(f"blocked the event loop for {seconds:.1f} s at {place}")
        daemon = "" if unit is None else unit.spec.name
        self._publish(Stalled(node=self._node, daemon=daemon, place=place, seconds=seconds))


def _check_result(name: str, task: "asyncio.Future[Health]") -> Health:
    if not task.done() or task.cancelled():
        reason = f"its check did not answer within {_CHECK_SECONDS_MAX:g} s"
    elif (error := task.exception()) is not None:
        reason = printable(f"its check failed: {type(error).__name__}: {error}", ERROR_CHARACTERS_MAX)
    else:
        return task.result()
    return Health(part=name, status=Status.UNHEALTHY, reason=reason)
