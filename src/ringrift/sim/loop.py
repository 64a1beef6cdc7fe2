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
Ts = TypeVarTuple("Ts")
Step: TypeAlias = Any  # an asyncio.Handle, in all the parts that its stub hides

WORLD = "world"
EPOCH_SECONDS = 1_700_000_000.0
STEPS_MAX = 5_000_000
# A timer always moves the clock: a delay too short to do so would let code that waits for a slow clock spin for ever.
TIMER_SECONDS_MIN = 1e-6
# Python's collector chooses its own moments; ours runs at the same steps in every run of a seed.
STEPS_PER_COLLECTION = 50_000


class SimFuture(asyncio.futures._PyFuture):  # type: ignore[name-defined, misc]  # hidden by the stubs
    """A future that hashes by its number, so that sets of futures iterate alike in every run."""

    def __hash__(self) -> int:
        return self.number  # type: ignore[no-any-return]  # set by the loop


class SimTask(asyncio.tasks._PyTask):  # type: ignore[name-defined, misc]  # hidden by the stubs
    """A task that hashes by its number, and may be left pending without a complaint."""

    _log_destroy_pending = False
    __hash__ = SimFuture.__hash__

    def __init__(self, number: int, coro: Any, *, name: object, **options: Any) -> None:
        self.number = number
        self.label = getattr(coro, "__qualname__", type(coro).__qualname__)
        super().__init__(coro, name=name or f"{self.label}-{number}", **options)


@dataclass(eq=False, slots=True)
class Life:
    """One process of a host, from its first task until it is killed; afterwards its own grave."""

    host: str
    dead: bool = False
    paused: bool = False
    ready: deque[Step] = field(default_factory=deque)


HOST: ContextVar[Life] = ContextVar("HOST")


@dataclass
class HostClock:
    """The clocks of one machine: both follow the loop's time, each with an error of its own."""

    loop: asyncio.AbstractEventLoop
    rate: float = 1.0
    ticks: float = 0.0
    ticks_at: float = 0.0
    offset: float = 0.0

    def now(self) -> float:
        """Seconds since the epoch, as far off as the wall clock was moved."""
        return EPOCH_SECONDS + self.loop.time() + self.offset

    def tick(self) -> float:
        """Seconds on a clock that never goes back but may run fast or slow."""
        return self.ticks + (self.loop.time() - self.ticks_at) * self.rate


class SimLoop(asyncio.BaseEventLoop):
    """The loop of a simulated world, without signals, sockets or threads.  What escapes a plain callback ends it."""

    _stopping: bool

    def __init__(self, rng: Random, *, steps_max: int = STEPS_MAX) -> None:
        super().__init__()
        self._rng, self.steps, self._steps_max = rng, 0, steps_max
        self._now = 0.0
        self._numbers = count(1)
        self._world = Life(WORLD)
        self._lives = {WORLD: self._world}
        self._graves: list[Life] = []
        self._tasks: list[SimTask] = []
        self._clocks: dict[str, HostClock] = {}
        self._runnable: list[Life] = []
        self._timers: list[tuple[float, int, Life, Step]] = []
        self._trace: list[str] = []
        self._digest = hashlib.sha256()

    def spawn(self, host: str, coro: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Run *coro* on *host* in a fresh context; whatever it starts is on that host too."""
        context = Context()
        context.run(HOST.set, self._life(host))
        return self.create_task(coro, name=name, context=context)

    def kill(self, host: str) -> None:
        """Silence *host* as SIGKILL does: nothing it had begun runs again, not even ``finally:``.

        A future that only its tasks wait for is cancelled, so that a queue shared with others can pass over it.
        """
        assert host != WORLD
        life = self._life(host)
        life.dead = True
        self._graves.append(self._lives.pop(host))
        self._runnable[:] = [other for other in self._runnable if other is not life]
        for task in self._pending():
            if task.life is life and _waits_alone(life, task._fut_waiter):
                task._fut_waiter.cancel()

    def pause(self, host: str) -> None:
        """Stop *host* as SIGSTOP does: what it has to do, and timers that fall due, wait in order."""
        life = self._life(host)
        life.paused = True
        self._runnable[:] = [other for other in self._runnable if other is not life]

    def resume(self, host: str) -> None:
        """Let a paused *host* go on."""
        life = self._life(host)
        if life.paused and life.ready:
            self._runnable.append(life)
        life.paused = False

    @property
    def host(self) -> str:
        """The host whose callback is running."""
        return HOST.get(self._world).host

    def clock(self, host: str) -> HostClock:
        """The clocks of *host*; they outlive its processes."""
        return self._clocks.setdefault(host, HostClock(self))

    def drift(self, host: str, rate: float) -> None:
        """Let the monotonic clock of *host* run at *rate* from here on."""
        assert rate > 0
        clock = self.clock(host)
        clock.ticks, clock.ticks_at, clock.rate = clock.tick(), self._now, rate

    def step_wall(self, host: str, seconds: float) -> None:
        """Move the wall clock of *host* by *seconds*."""
        self.clock(host).offset += seconds

    def fingerprint(self) -> str:
        """A hash over host, callback and time of every step so far."""
        self._digest.update("".join(self._trace).encode())
        self._trace.clear()
        return self._digest.hexdigest()

    def time(self) -> float:
        """Virtual seconds since the beginning."""
        return self._now

    def create_future(self) -> asyncio.Future[Any]:
        """A future with a number."""
        future = SimFuture(loop=self)
        future.number = next(self._numbers)
        return future

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None) -> asyncio.Task[Any]:
        """A task with a number, held until it is done: asyncio would forget one that waits for nothing but itself."""
        task = SimTask(next(self._numbers), coro, loop=self, name=name, context=context)
        task.life = task._context.get(HOST, self._world)
        self._tasks.append(task)
        return task

    def run_in_executor(self, executor: object, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Call *func* here and now, for there are no threads; an error is raised here too."""
        future = self.create_future()
        future.set_result(func(*args))
        return future

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Any:
        """Call *callback* when the clock reads *when*; timers of one moment keep their order."""
        when = max(when, self._now + TIMER_SECONDS_MIN)
        step: Step = asyncio.TimerHandle(when, callback, args, self, context)
        heappush(self._timers, (when, next(self._numbers), step._context.get(HOST, self._world), step))
        return step

    def close(self) -> None:
        """End the world: what still waited is given up in silence, and runs its ``finally:`` when nobody watches."""
        nothing = _nothing()
        nothing.close()
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        level = logging.root.manager.disable
        logging.disable()
        asyncio._set_running_loop(self)  # so that clean-up which waits does wait, and is given up there
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            while self._tasks:
                self._tasks.pop()._coro = nothing
            super().close()
            self._graves, self._lives, self._runnable, self._timers, self._world = [], {}, [], [], Life(WORLD)
            gc.collect()
        asyncio._set_running_loop(None)
        logging.disable(level)
        sys.unraisablehook = hook

    def _call_soon(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None) -> Step:
        step: Step = asyncio.TimerHandle(self._now, callback, args, self, context)
        self._make_ready(step._context.get(HOST, self._world), step)
        return step

    def _write_to_self(self) -> None:
        """Nothing sleeps, so nothing needs waking."""

    def _life(self, host: str) -> Life:
        return self._lives.setdefault(host, Life(host))

    def _pending(self) -> list[SimTask]:
        return [task for task in self._tasks if not task.done()]

    def _make_ready(self, life: Life, step: Step) -> None:
        if not life.ready and not life.paused and not life.dead:
            self._runnable.append(life)
        life.ready.append(step)

    def _run_once(self) -> None:
        runnable, draw = self._runnable, self._rng.random
        while runnable and not self._stopping:
            index = int(draw() * len(runnable)) if len(runnable) > 1 else 0
            life = runnable[index]
            step = life.ready.popleft()
            if not life.ready:
                runnable[index] = runnable[-1]
                runnable.pop()
            if not step._cancelled:
                self._run(life, step)
        if not self._stopping:
            self._advance()

    def _run(self, life: Life, step: Step) -> None:
        callback = step._callback
        owner = getattr(callback, "__self__", None)
        name = owner.label if type(owner) is SimTask else getattr(callback, "__qualname__", type(callback).__qualname__)
        self._trace.append(f"{life.host} {name} {self._now}\n")
        self.steps += 1
        if self.steps == self._steps_max:
            raise RuntimeError(f"no end after {self.steps} steps; the last were\n{''.join(self._trace[-10:])}")
        if self.steps % STEPS_PER_COLLECTION == 0:
            self.fingerprint()
            self._tasks = self._pending()
            self._timers = sorted(timer for timer in self._timers if not timer[3]._cancelled)
            gc.collect()
        try:
            step._context.run(callback, *step._args)
        except BaseException as error:
            error.add_note(f"raised on {life.host} by {name} at {self._now} s")
            raise

    def _advance(self) -> None:
        timers, moment = self._timers, None
        while timers and moment in (None, timers[0][0]):
            when, _, life, step = heappop(timers)
            if not step._cancelled:
                self._make_ready(life, step)
                if not life.dead:
                    self._now = moment = when
        if moment is None:
            waiting = (f"{task.life.host}/{task.get_name()}" for task in self._pending() if not task.life.dead)
            raise RuntimeError(f"nothing is left to happen at {self._now} s; waiting: {', '.join(waiting)}")


def run(seed: int, main: Callable[[SimLoop], Coroutine[Any, Any, T]], *, steps_max: int = STEPS_MAX) -> T:
    """Run ``main(loop)`` on host "world" of a new loop to its end, and close the loop."""
    loop = SimLoop(Random(seed), steps_max=steps_max)
    collecting = gc.isenabled()
    gc.disable()
    try:
        return loop.run_until_complete(loop.spawn(WORLD, main(loop)))
    finally:
        loop.close()
        if collecting:
            gc.enable()


def _waits_alone(life: Life, future: Any) -> bool:
    # Tasks and gatherings hand a cancellation on, perhaps to a host that lives; plain futures do not.
    plain = type(future) in (SimFuture, asyncio.Future) and not future.done()
    return plain and all(context.get(HOST) is life for _, context in future._callbacks)


async def _nothing() -> None:
    """What a task is about once the world has ended."""
