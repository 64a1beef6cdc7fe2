"""Unit: one daemon under supervision, and everything that is counted of it."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Discard, NoRoom, NotLeader, Retry, told
from ringrift.kernel.health import Health, Status
from ringrift.kernel.watch import recent
from ringrift.supervision import child, probe
from ringrift.supervision.report import HISTORY_MAX, DaemonReport, Ending
from ringrift.supervision.spec import Daemon

ERROR_CHARACTERS_MAX = 500
RESTING = "resting"
"""The state of one that nobody has started yet."""
NO_FAILURE = (NotLeader, NoRoom, Retry, Discard)
"""What ends a run and says nothing against the daemon."""


class Unit:
    """State and counts; the supervisor decides what becomes of it."""

    def __init__(self, spec: Daemon, settings: Any, clock: Clock) -> None:
        """*settings* have what the declaration names."""
        self.spec, self._clock = spec, clock
        self.seconds, self.stop_seconds = spec.seconds_between(settings), spec.stop_seconds(settings)
        self.body: Callable[..., Awaitable[Any]] | None = None
        self.check: Callable[..., Awaitable[Health]] | None = None
        self.task: asyncio.Task[None] | None = None
        self.asking: asyncio.Task[Health] | None = None
        self.scope: asyncio.Timeout | None = None
        """Around the body while it lives: expires when the daemon is found to hang."""
        self.ended_at: float | None = None
        """Tick at which a hanging body was told to end."""
        self.ready = asyncio.Event()
        self.wanted = False
        """Whether it is to run: a restart that is under way leaves alone what was stopped by hand."""
        self.ending = False
        """Whether it was told to stop: what its body raises from then on starts nothing."""
        self.state, self.since = RESTING, clock.now()
        self.began = clock.tick()
        self.progress: float | None = None
        self.failures: tuple[float, ...] = ()
        self.error = self.waits = self.stall = ""
        self.stalled = 0.0
        self.said: Health | None = None
        self.checked: Health | None = None
        self.history: deque[Ending] = deque(maxlen=HISTORY_MAX)
        self.runs = self.failed = self.starts = self.times_waited = self.stalls = 0
        self.last_error = ""
        self.last_error_time: float | None = None
        self.last_success: float | None = None
        self.last_seconds: float | None = None
        self.pid: int | None = None
        self._judged: tuple[Status, float] | None = None

    def turn(self, state: str) -> None:
        """Be in *state* from now on."""
        if state != self.state:
            self.state, self.since = state, self._clock.now()

    def patience(self) -> float:
        """Seconds this daemon may go without progress: several ticks, and its own limit."""
        return self.spec.seconds_max + probe.LATE_TICKS * (self.seconds or 0.0)

    @property
    def stop_seconds_max(self) -> float:
        """How long stopping may take; a program that is killed at the end of its time is gone a little later."""
        extra = child.KILL_SECONDS_MAX + child.LAST_WORDS_SECONDS_MAX if self.spec.process else 0.0
        return self.stop_seconds + extra

    def expect(self) -> None:
        """It is to run from now on."""
        self.wanted, self.ending, self.progress = True, False, None
        self.ready.clear()
        self.turn("starting")

    def begin(self) -> None:
        """It starts, for the first time or again."""
        self.turn("running")
        self.began, self.starts, self.ended_at = self._clock.tick(), self.starts + 1, None

    def alive(self) -> None:
        """It has made progress."""
        self.progress, self.waits = self._clock.tick(), ""
        self.ready.set()

    def forget(self) -> None:
        """Start with a clean record; what was counted stays counted."""
        self.failures, self.error, self.progress, self.waits, self.stall = (), "", None, "", ""
        self.said = self.checked = None

    def fail(self, failures: tuple[float, ...], wrong: BaseException) -> None:
        """It ended with *wrong*, and these *failures* are on its record."""
        self.failures = failures
        self.error = told(f"{type(wrong).__name__}: {wrong}", ERROR_CHARACTERS_MAX)
        self.last_error, self.last_error_time = self.error, self._clock.now()
        self.history.append(Ending(time=self._clock.now(), error=self.error))

    def give_up(self, error: str) -> None:
        """It rests because of *error* until it is cleared."""
        self.error, self.waits = error, ""
        self.turn("failed")

    def wait(self, reason: str) -> float:
        """It cannot go on for a *reason* that is not its own; seconds until it may try again."""
        self.waits = told(reason, ERROR_CHARACTERS_MAX)
        self.times_waited += 1
        self.turn("waiting")
        return self.spec.restart.seconds_max

    def is_running(self) -> bool:
        """Whether it has a task that has not ended."""
        return self.task is not None and not self.task.done()

    def is_cancelled(self) -> bool:
        """Whether somebody wants its task to end; otherwise something that the body awaited was cancelled."""
        return self.task is None or self.task.cancelling() > 0

    def hung(self) -> TimeoutError | None:
        """What is to be said of a body that had to be ended because it hung."""
        return None if self.ended_at is None else TimeoutError(f"no progress for more than {self.patience():g} s")

    def hear(self, word: Health) -> None:
        """A program says how it is, which is a sign of life."""
        self.said = word
        self.alive()

    def took_pid(self, pid: int | None) -> None:
        """The program runs as process *pid*, or is gone."""
        self.pid = pid

    def hold_up(self, how: str) -> None:
        """It held up everybody else, as *how* says."""
        self.stall, self.stalled = how, self._clock.tick()
        self.stalls += 1

    async def measured(self, *args: Any) -> Any:
        """Run the body once, and count it."""
        assert self.body is not None
        begun = self._clock.tick()
        self.runs += 1
        try:
            result = await self.body(*args)
        except NO_FAILURE:
            raise
        except BaseException as wrong:
            if not (self.ending and isinstance(wrong, asyncio.CancelledError)):
                self._note(wrong)
            raise
        finally:
            self.last_seconds = self._clock.tick() - begun
        self.last_success = self._clock.now()
        self.said = result if isinstance(result, Health) else None
        return result

    def _note(self, wrong: BaseException) -> None:
        """A run ended with *wrong*; one that is cancelled and was not told to stop took longer than it may."""
        cut_off = isinstance(wrong, asyncio.CancelledError)
        error = "TimeoutError: it was cut off" if cut_off else f"{type(wrong).__name__}: {wrong}"
        self.failed += 1
        self.last_error, self.last_error_time = told(error, ERROR_CHARACTERS_MAX), self._clock.now()

    def recent_failures(self, tick: float) -> tuple[float, ...]:
        """Failures that still count: one that has worked long enough since is well again."""
        return recent(self.failures, tick, self.spec.restart.seconds)

    def vitals(self, awake: float) -> probe.Vitals:
        """What is known of it now; nobody could be heard before *awake*."""
        tick = self._clock.tick()
        return probe.Vitals(
            name=self.spec.name, state=self.state, progress=self.progress, started=max(self.began, awake),
            patience=self.patience(), failures=len(self.recent_failures(tick)), error=self.error, waits=self.waits,
            left=self.state == "stopped" and self.is_running(),
            stall=self.stall if tick - self.stalled < self.spec.restart.seconds else "",
            said=tuple(one for one in (self.said, self.checked) if one is not None),
        )  # fmt: skip

    def health(self, awake: float) -> Health:
        """How it is, and since when it has been seen like that."""
        found = probe.judge(self.vitals(awake), self._clock.tick())
        if self._judged is None or self._judged[0] is not found.status:
            self._judged = (found.status, self._clock.now())
        return Health(part=found.part, status=found.status, reason=found.reason, since=self._judged[1])

    def report(self, awake: float) -> DaemonReport:
        """Everything that is known of it."""
        spec = self.spec
        return DaemonReport(
            name=spec.name, category=spec.category, critical=spec.critical, group=spec.group, state=self.state,
            since=self.since, health=self.health(awake), ready=self.progress is not None and self.state == "running",
            wanted=self.wanted, runs=self.runs, failures=self.failed, restarts=max(0, self.starts - 1),
            waits=self.times_waited, stalls=self.stalls, last_error=self.last_error,
            last_error_time=self.last_error_time, last_success=self.last_success,
            last_seconds=self.last_seconds, history=tuple(self.history), pid=self.pid,
        )  # fmt: skip
