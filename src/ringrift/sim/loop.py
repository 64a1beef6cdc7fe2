"""SimLoop: an asyncio loop with a virtual clock, many hosts in one thread, and an order of events drawn from a seed.

A host stands for a process: order inside it is asyncio's, first in, first out; order between hosts is the seed's.
Draw a host that is ready, run its oldest callback; when none is ready, the clock jumps to the next timer.
"""

import asyncio
import gc
import hashlib
import logging
import sys
import warnings
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, TypeAlias, TypeVar, TypeVarTuple

T = TypeVar("T")
_Ts = TypeVarTuple("_Ts")
_Step: TypeAlias = Any  # an asyncio.Handle, in all the parts that its stub hides

_WORLD = "world"
_EPOCH_SECONDS = 1_700_000_000.0
_STEPS_MAX = 5_000_000
# A timer always moves the clock: a delay too short to do so would let code that waits for a slow clock spin for ever.
_TIMER_SECONDS_MIN = 1e-6
# Python's collector chooses its own moments; ours runs at the same steps in every run of a seed.
_STEPS_PER_COLLECTION = 50_000


class _SimFuture(asyncio.futures._PyFuture):  # type: ignore[name-defined, misc]  # hidden by the stubs
    """A future that hashes by its number, so that sets of futures iterate alike in every run."""

    def __hash__(self) -> int:
        return self.number  # type: ignore[no-any-return]  # set by the loop


class _SimTask(asyncio.tasks._PyTask):  # type: ignore[name-defined, misc]  # hidden by the stubs
    """A task that hashes by its number, and may be left pending without a complaint."""

    _log_destroy_pending = False
    __hash__ = _SimFuture.__hash__

    def __init__(self, number: int, coro: Any, *, name: object, **options: Any) -> None:
        self.number = number
        self.label = getattr(coro, "__qualname__", type(coro).__qualname__)
        super().__init__(coro, name=name or f"{self.label}-{number}", **options)


@dataclass(eq=False, slots=True)
class _HostProcess:
    """One process of a host, from its first task until it is killed."""

    host: str
    dead: bool = False
    paused: bool = False
    ready: deque[_Step] = field(default_factory=deque)


_HOST: ContextVar[_HostProcess] = ContextVar("HOST")


@dataclass
class _HostClock:
    """The clocks of one machine: both follow the loop's time, each with an error of its own."""

    loop: asyncio.AbstractEventLoop
    rate: float = 1.0
    ticks: float = 0.0
    ticks_at: float = 0.0
    offset: float = 0.0

    def now(self) -> float:
        """Seconds since the epoch, as far off as the wall clock was moved."""
        return _EPOCH_SECONDS + self.loop.time() + self.offset

    def tick(self) -> float:
        """Seconds on a clock that never goes back but may run fast or slow."""
        return self.ticks + (self.loop.time() - self.ticks_at) * self.rate


class SimLoop(asyncio.BaseEventLoop):
    """The loop of a simulated world, without signals, sockets or threads.  What escapes a plain callback ends it."""

    _stopping: bool

    def __init__(self, rng: Random, *, steps_max: int = _STEPS_MAX) -> None:
        super().__init__()
        self._rng, self.steps, self._steps_max = rng, 0, steps_max
        self._now = 0.0
        self._numbers = count(1)
        self._world = _HostProcess(_WORLD)
        self._processes = {_WORLD: self._world}
        self._dead: list[_HostProcess] = []
        self._tasks: list[_SimTask] = []
        self._clocks: dict[str, _HostClock] = {}
        self._runnable: list[_HostProcess] = []
        self._timers: list[tuple[float, int, _HostProcess, _Step]] = []
        self._trace: list[str] = []
        self._digest = hashlib.sha256()

    def spawn(self, host: str, coro: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Run *coro* on *host* in a fresh context; whatever it starts is on that host too."""
        context = Context()
        context.run(_HOST.set, self._process(host))
        return self.create_task(coro, name=name, context=context)

    def kill(self, host: str) -> None:
        """End *host* as SIGKILL does: nothing it had begun runs again, not even ``finally:``.

        A future that only its tasks wait for is cancelled, so that a queue shared with others can pass over it.
        """
        assert host != _WORLD
        process = self._process(host)
        process.dead = True
        self._dead.append(self._processes.pop(host))
        self._runnable[:] = [other for other in self._runnable if other is not process]
        for task in self._pending():
            if task.process is process and _waits_alone(process, task._fut_waiter):
                task._fut_waiter.cancel()

    def pause(self, host: str) -> None:
        """Stop *host* as SIGSTOP does: its callbacks, and timers that fall due, wait in order."""
        process = self._process(host)
        process.paused = True
        self._runnable[:] = [other for other in self._runnable if other is not process]

    def resume(self, host: str) -> None:
        process = self._process(host)
        if process.paused and process.ready:
            self._runnable.append(process)
        process.paused = False

    def clock(self, host: str) -> _HostClock:
        """The clocks of *host*; they outlive its processes."""
        return self._clocks.setdefault(host, _HostClock(self))

    def drift(self, host: str, rate: float) -> None:
        """Let the monotonic clock of *host* run at *rate* from here on."""
        assert rate > 0
        clock = self.clock(host)
        clock.ticks, clock.ticks_at, clock.rate = clock.tick(), self._now, rate

    def fingerprint(self) -> str:
        """A hash over host, callback and time of every step so far."""
        self._digest.update("".join(self._trace).encode())
        self._trace.clear()
        return self._digest.hexdigest()

    def time(self) -> float:
        return self._now

    def create_future(self) -> asyncio.Future[Any]:
        future = _SimFuture(loop=self)
        future.number = next(self._numbers)
        return future

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None) -> asyncio.Task[Any]:
        """A task with a number, held until it is done: asyncio would forget one that waits for nothing but itself."""
        task = _SimTask(next(self._numbers), coro, loop=self, name=name, context=context)
        task.process = task._context.get(_HOST, self._world)
        self._tasks.append(task)
        return task

    def run_in_executor(self, executor: object, func: Callable[[*_Ts], T], *args: *_Ts) -> asyncio.Future[T]:
        """Call *func* here and now, for there are no threads; an error is raised here too."""
        future = self.create_future()
        future.set_result(func(*args))
        return future

    def call_at(
        self, when: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> Any:
        """Call *callback* when the clock reads *when*; timers of one moment keep their order."""
        when = max(when, self._now + _TIMER_SECONDS_MIN)
        step: _Step = asyncio.TimerHandle(when, callback, args, self, context)
        heappush(self._timers, (when, next(self._numbers), step._context.get(_HOST, self._world), step))
        return step

    def close(self) -> None:
        """End the world: pending tasks are dropped without a warning; their ``finally:`` runs unobserved."""
        nothing = _nothing()
        nothing.close()
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        level = logging.root.manager.disable
        logging.disable()
        asyncio._set_running_loop(self)  # so that clean-up that waits does wait, and is dropped there
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            while self._tasks:
                self._tasks.pop()._coro = nothing
            super().close()
            for process in (*self._dead, *self._processes.values()):
                process.ready.clear()  # a context refers to its process, and an error in a log to its context
            self._dead, self._processes, self._runnable, self._timers = [], {}, [], []
            gc.collect()
        asyncio._set_running_loop(None)
        logging.disable(level)
        sys.unraisablehook = hook

    def _call_soon(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None) -> _Step:
        step: _Step = asyncio.TimerHandle(self._now, callback, args, self, context)
        self._make_ready(step._context.get(_HOST, self._world), step)
        return step

    def _write_to_self(self) -> None:
        """Nothing sleeps, so nothing needs waking."""

    def _process(self, host: str) -> _HostProcess:
        return self._processes.setdefault(host, _HostProcess(host))

    def _pending(self) -> list[_SimTask]:
        return [task for task in self._tasks if not task.done()]

    def _make_ready(self, process: _HostProcess, step: _Step) -> None:
        if not process.ready and not process.paused and not process.dead:
            self._runnable.append(process)
        process.ready.append(step)

    def _run_once(self) -> None:
        runnable, draw = self._runnable, self._rng.random
        while runnable and not self._stopping:
            index = int(draw() * len(runnable)) if len(runnable) > 1 else 0
            process = runnable[index]
            step = process.ready.popleft()
            if not process.ready:
                runnable[index] = runnable[-1]
                runnable.pop()
            if not step._cancelled:
                self._run(process, step)
        if not self._stopping:
            self._advance()

    def _run(self, process: _HostProcess, step: _Step) -> None:
        callback = step._callback
        task = getattr(callback, "__self__", None)
        name = task.label if type(task) is _SimTask else getattr(callback, "__qualname__", type(callback).__qualname__)
        self._trace.append(f"{process.host} {name} {self._now}\n")
        self.steps += 1
        if self.steps == self._steps_max:
            raise RuntimeError(f"no end after {self.steps} steps; the last were\n{''.join(self._trace[-10:])}")
        if self.steps % _STEPS_PER_COLLECTION == 0:
            self.fingerprint()
            self._tasks = self._pending()
            self._timers = sorted(timer for timer in self._timers if not timer[3]._cancelled)
            gc.collect()
        try:
            step._context.run(callback, *step._args)
        except BaseException as error:
            error.add_note(f"raised on {process.host} by {name} at {self._now} s")
            raise

    def _advance(self) -> None:
        timers, moment = self._timers, None
        while timers and moment in (None, timers[0][0]):
            when, _, process, step = heappop(timers)
            if not step._cancelled:
                self._make_ready(process, step)
                if not process.dead:
                    self._now = moment = when
        if moment is None:
            waiting = (f"{task.process.host}/{task.get_name()}" for task in self._pending() if not task.process.dead)
            raise RuntimeError(f"nothing is left to happen at {self._now} s; waiting: {', '.join(waiting)}")


def run(seed: int, main: Callable[[SimLoop], Coroutine[Any, Any, T]], *, steps_max: int = _STEPS_MAX) -> T:
    """Run ``main(loop)`` on host "world" of a new loop to its end, and close the loop."""
    loop = SimLoop(Random(seed), steps_max=steps_max)
    collecting = gc.isenabled()
    gc.disable()
    try:
        return loop.run_until_complete(loop.spawn(_WORLD, main(loop)))
    finally:
        loop.close()
        if collecting:
            gc.enable()


def _waits_alone(process: _HostProcess, future: Any) -> bool:
    # Tasks and gatherings pass a cancellation on, perhaps to a living host; plain futures do not.
    plain = type(future) in (_SimFuture, asyncio.Future) and not future.done()
    return plain and all(context.get(_HOST) is process for _, context in future._callbacks)


async def _nothing() -> None:
    """The body of every task once the world has ended."""
