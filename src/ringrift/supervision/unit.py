"""One daemon under supervision: its state, its counts, and what it does from its start until it ends or fails."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from ringrift.bus.delivery import Reader
from ringrift.bus.router import Router
from ringrift.child import DRAIN_SECONDS_MAX, KILL_SECONDS_MAX
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import TRANSIENT, Discard, NotLeader, Retry, SupervisionError, printable
from ringrift.kernel.health import Health, Status
from ringrift.kernel.stall_detector import recent
from ringrift.store.ports import Tx
from ringrift.supervision.spec import Daemon
from ringrift.supervision.status import LATE_TICKS, RESTING, DaemonFailure, DaemonStatus, Vitals, assess

ERROR_CHARACTERS_MAX = 500
_HISTORY_MAX = 20
_OFTEN_WAITS, _OFTEN_SECONDS = 3, 30.0  #: So many waits within so many seconds are often.
_ROLE_SECONDS = 0.25  #: Between looks whether a serving daemon's role is held; its holder trusts it for much longer.
_NO_FAILURE = (NotLeader, *TRANSIENT, Retry, Discard)  #: Errors that end a run and are no fault of the daemon.


class Unit:
    """State and counts of one daemon; the supervisor decides about starts and ends."""

    def __init__(self, spec: Daemon, settings: Any, clock: Clock) -> None:
        """*settings* hold the values that *spec* names."""
        self.spec, self._clock = spec, clock
        self.seconds, self.stop_seconds = spec.seconds_between(settings), spec.stop_seconds(settings)
        self.body: Callable[..., Awaitable[Any]] | None = None
        self.check: Callable[..., Awaitable[Health]] | None = None
        self.task: asyncio.Task[None] | None = None
        self.check_task: asyncio.Future[Health] | None = None
        self.scope: asyncio.Timeout | None = None  #: Around the body while it runs: expires when the daemon hangs.
        self.cancelled_at: float | None = None  #: Tick at which a hanging body was cancelled.
        self.ready = asyncio.Event()
        self.disabled = False  #: Whether the settings of the node forbid it to start.
        self.reserved = False  #: Whether its transactions have places of their own in the store's queue.
        self.given_up = False  #: Whether it was given up and has made no progress since.
        self.on_recovery: Callable[[], None] = lambda: None  #: Called at its first progress after it was given up.
        self.should_run = False  #: False for one that an operator stopped: a restart that is under way leaves it alone.
        self.is_yielding = False  #: Whether its body is being ended because another node holds its role now.
        self.is_stopping = False  #: Whether it was told to stop: errors of its body start nothing from then on.
        self.is_left = False  #: Whether it ran on when its time to stop was over.
        self.state, self.since = RESTING, clock.now()
        self.started_at = clock.tick()
        self.progress: float | None = None
        self.failures: tuple[float, ...] = ()
        self.error = self.waits = self.stall = ""
        self.stalled_at = self.waits_since = 0.0
        self.reported: Health | None = None
        self.checked: Health | None = None
        self.history: deque[DaemonFailure] = deque(maxlen=_HISTORY_MAX)
        self._latest_waits: deque[tuple[float, str]] = deque(maxlen=_OFTEN_WAITS)
        self.runs = self.failed_runs = self.starts = self.wait_count = self.stall_count = 0
        self.last_error = ""
        self.pid: int | None = None  #: Process id of a program, while it runs.
        self._last_status: tuple[Status, float] | None = None

    def enter(self, state: str) -> None:
        """Be in *state* from now on."""
        if state != self.state:
            self.state, self.since = state, self._clock.now()

    def patience(self) -> float:
        """Seconds this daemon may go without progress: several ticks, and its own limit."""
        return self.spec.seconds_max + LATE_TICKS * (self.seconds or 0.0)

    @property
    def stop_seconds_max(self) -> float:
        """How long stopping may take; a program that is killed at the end of its time is gone a little later."""
        return self.stop_seconds + (KILL_SECONDS_MAX + DRAIN_SECONDS_MAX if self.spec.process else 0.0)

    def expect_start(self) -> None:
        """It should run from now on."""
        self.should_run, self.is_stopping, self.progress = True, False, None
        self.ready.clear()
        self.enter("starting")

    def record_start(self) -> None:
        """It starts, for the first time or again."""
        self.enter("waiting" if self.waits else "running")
        self.started_at, self.starts, self.cancelled_at = self._clock.tick(), self.starts + 1, None

    def mark_progress(self) -> None:
        """It has made progress."""
        self.progress, self.waits = self._clock.tick(), ""
        self.ready.set()
        if self.state == "waiting":
            self.enter("running")
        if self.given_up:
            self.given_up = False
            self.on_recovery()

    def clear(self) -> None:
        """Forget failures and health; counts stay."""
        self.failures, self.error, self.progress, self.waits, self.stall = (), "", None, "", ""
        self.reported = self.checked = None

    def record_failure(self, failures: tuple[float, ...], error: BaseException) -> None:
        """It ended with *error*; *failures* are the ticks that count for a restart."""
        self.failures = failures
        self.error = self.last_error = printable(f"{type(error).__name__}: {error}", ERROR_CHARACTERS_MAX)
        self.history.append(DaemonFailure(time=self._clock.now(), error=self.error))

    def give_up(self, error: str) -> None:
        """It does not start again because of *error*, until it is cleared."""
        self.error, self.waits, self.given_up = error, "", True
        self.enter("failed")

    def wait(self, error: Exception) -> None:
        """It cannot go on because of *error*, which is not its own and is waited for."""
        if not self.waits:
            self.waits_since = max(self.started_at, self.progress or 0.0)
        self.waits = printable(str(error), ERROR_CHARACTERS_MAX)
        self.wait_count += 1
        self._latest_waits.append((self._clock.tick(), self.waits))
        self.enter("waiting")

    def waits_often(self) -> str:
        """The reason of its last wait if it has to wait again and again, however short each wait is; else nothing."""
        is_often = len(self._latest_waits) == _OFTEN_WAITS
        if is_often and self._clock.tick() - self._latest_waits[0][0] <= _OFTEN_SECONDS:
            return self._latest_waits[-1][1]
        return ""

    def is_running(self) -> bool:
        """Whether it has a task that has not ended."""
        return self.task is not None and not self.task.done()

    def report_health(self, health: Health) -> None:
        """A program reports its health, which is progress."""
        self.reported = health
        self.mark_progress()

    def record_stall(self, stall: str) -> None:
        """It blocked the event loop."""
        self.stall, self.stalled_at = stall, self._clock.tick()
        self.stall_count += 1

    async def run_once(self, *args: Any) -> Any:
        """Run the body once, and count it."""
        assert self.body is not None
        self.runs += 1
        try:
            result = await self.body(*args)
        except _NO_FAILURE:
            raise
        except BaseException as error:
            is_cut_off = isinstance(error, asyncio.CancelledError)
            if not (is_cut_off and (self.is_stopping or self.is_yielding)):
                self.failed_runs += 1
                text = "TimeoutError: it was cut off" if is_cut_off else f"{type(error).__name__}: {error}"
                self.last_error = printable(text, ERROR_CHARACTERS_MAX)
            raise
        self.reported = result if isinstance(result, Health) else None
        return result

    def recent_failures(self, tick: float) -> tuple[float, ...]:
        """Failures that still count: one that has worked long enough since is well again."""
        return recent(self.failures, tick, self.spec.restart.seconds)

    def vitals(self, awake: float) -> Vitals:
        """The facts about it now; before the tick *awake* no daemon could make progress."""
        tick = self._clock.tick()
        same = "state progress error waits waits_since disabled"
        facts: dict[str, Any] = {name: getattr(self, name) for name in same.split()}
        facts |= {"started": max(self.started_at, awake), "left": self.is_left and self.is_running()}
        failures = len(self.recent_failures(tick))
        reports = tuple(report for report in (self.reported, self.checked) if report is not None)
        stall = self.stall if tick - self.stalled_at < self.spec.restart.seconds else ""
        return Vitals(patience=self.patience(), failures=failures, stall=stall, reports=reports, **facts)

    def health(self, awake: float) -> Health:
        """Its health, and since when it has had this status."""
        status, reason = assess(self.vitals(awake), self._clock.tick())
        if self._last_status is None or self._last_status[0] is not status:
            self._last_status = (status, self._clock.now())
        return Health(part=self.spec.name, status=status, reason=reason, since=self._last_status[1])

    def status(self, awake: float) -> DaemonStatus:
        """Everything about it that others may read."""
        same = "state since should_run disabled runs last_error pid"
        facts: dict[str, Any] = {name: getattr(self.spec, name) for name in ("name", "category", "critical")}
        facts |= {name: getattr(self, name) for name in same.split()}
        facts |= {"failures": self.failed_runs, "restarts": max(0, self.starts - 1), "waits": self.wait_count}
        ready = self.progress is not None and self.state == "running"
        facts |= {"stalls": self.stall_count, "history": tuple(self.history), "waits_often": self.waits_often()}
        return DaemonStatus(health=self.health(awake), ready=ready, **facts)


HoldsRole = Callable[[str], bool]  #: Whether this node believes that it holds a role.
CheckRole = Callable[[str, Tx], Awaitable[None]]  #: Binds a transaction to a role.  Raises NotLeader.


async def run_daemon(unit: Unit, router: Router, readers: Mapping[str, Reader], holds: HoldsRole) -> None:
    """Tick, react or serve for ever.  Returns only when it was told to stop, and raises every error of the body."""
    if unit.spec.on:
        await _react(unit, router, readers[unit.spec.name], holds)
    elif unit.spec.every is not None:
        await _tick(unit, holds)
    else:
        await _serve(unit, holds)


def make_reader(unit: Unit, check: CheckRole) -> Reader:
    """The reader of a daemon that reacts, each transaction of which is bound to its role."""
    role = unit.spec.role

    async def guard(tx: Tx) -> None:
        unit.mark_progress()  # the transaction before this one has ended
        if role is not None:
            await check(role, tx)

    event_names = frozenset(event.name() for event in unit.spec.on)
    return Reader(name=unit.spec.name, event_names=event_names, react=unit.run_once, guard=guard)


async def _tick(unit: Unit, holds: HoldsRole) -> None:
    role = unit.spec.role
    assert unit.seconds is not None
    while not unit.is_stopping:
        if role is None or holds(role):
            await _tick_once(unit)
        unit.mark_progress()
        await asyncio.sleep(unit.seconds)


async def _tick_once(unit: Unit) -> None:
    seconds = unit.spec.seconds_max
    try:
        async with asyncio.timeout(seconds) as limit:
            with suppress(NotLeader):  # another node holds the role: nothing happened
                await unit.run_once()
    except TimeoutError as late:
        if not limit.expired():
            raise
        raise TimeoutError(f"a tick took longer than {seconds:g} s") from late


async def _serve(unit: Unit, holds: HoldsRole) -> None:
    """Run the body, with a role only while it is held: it is cancelled when the role has passed on."""
    role = unit.spec.role
    while role is not None and not unit.is_stopping:
        if holds(role):
            await _serve_in(role, unit, holds)
        unit.mark_progress()
        await asyncio.sleep(_ROLE_SECONDS)
    if role is None:
        await unit.run_once()
        _require_stopping(unit)


async def _serve_in(role: str, unit: Unit, holds: HoldsRole) -> None:
    """Run the body until *role* is lost.  A body that does not end then makes no progress, and counts as hanging."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    body = loop.create_task(unit.run_once(), name=task.get_name() if task else None)
    try:
        while not body.done() and holds(role):
            await asyncio.wait((body,), timeout=_ROLE_SECONDS)
        if not body.done():
            unit.is_yielding = True
            body.cancel()
            await asyncio.wait((body,))
        if not (unit.is_yielding and body.cancelled()):
            body.result()
            _require_stopping(unit)
    finally:
        body.cancel()
        while not body.done():  # a second one beside it would be worse than none
            with suppress(asyncio.CancelledError):
                await asyncio.wait((body,))
        unit.is_yielding = False


def _require_stopping(unit: Unit) -> None:
    if not (unit.is_stopping or unit.is_yielding):
        raise SupervisionError(f"daemon {unit.spec.name} is to serve, but ended by itself")


async def _react(unit: Unit, router: Router, reader: Reader, holds: HoldsRole) -> None:
    role = unit.spec.role
    while not unit.is_stopping:
        try:
            await router.serve(reader, unit.mark_progress, (lambda: True) if role is None else (lambda: holds(role)))
        except NotLeader:  # another node reads on: there is nothing to do here
            await asyncio.sleep(unit.spec.restart.first_seconds)
