"""Turns: the bodies of a store and its committer, one at a time and in order."""

import asyncio
from collections import deque
from collections.abc import Iterable
from contextvars import copy_context
from typing import Any

from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Backpressure, Overdue
from ringrift.kernel.settings import StoreSettings
from ringrift.store.ports import RESERVED

_RESERVED_PLACES = 1_000  # transactions that may wait beyond store.waiting_max where RESERVED is true


def settle(futures: "Iterable[asyncio.Future[None]]", error: Exception | None) -> None:
    """End all that wait for *futures*, with *error* if there is one."""
    for future in futures:
        if not future.done():
            future.set_result(None) if error is None else future.set_exception(error)


class Turns:
    """The queue of a store."""

    def __init__(self, settings: StoreSettings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.is_taken = False  #: Whether a body or a COMMIT is running, or about to.
        self._granted: asyncio.Future[None] | None = None
        self._context = copy_context()
        self._overdue: asyncio.Task[Any] | None = None
        self._since = 0.0
        self._watchdog: asyncio.TimerHandle | None = None
        self.holder: asyncio.Task[Any] | None = None  #: The task whose body runs.

    async def take(self, *, committing: bool = False) -> None:
        """Wait until no body and no COMMIT is running.  Raises Backpressure, but never for the committer."""
        while self.is_taken:
            waiting_max = self._settings.waiting_max + (_RESERVED_PLACES if RESERVED.get() else 0)
            if len(self._waiting) >= waiting_max and not committing:
                raise Backpressure("store", waiting_max)
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            if self._watchdog is None:
                self._watch()
            try:
                await turn
            except asyncio.CancelledError:
                if self._granted is turn:
                    self.give()
                elif turn in self._waiting:
                    self._waiting.remove(turn)
                raise
            if self._granted is turn:
                break  # otherwise the turn was passed on, and we have to queue again
        self.is_taken, self._granted = True, None

    def hold(self) -> None:
        """The body of the current task begins."""
        self.holder, self._since = asyncio.current_task(), self._clock.tick()

    def give(self) -> None:
        """Pass the turn on.  Cancelled waiters are skipped."""
        self.holder = self._granted = None
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                self._granted = turn  # stays taken, so that no other task takes the turn in between
                turn.set_result(None)
                return
        self.is_taken = False

    def is_stale(self) -> bool:
        """Whether the body took so long that other processes gave up waiting: this one was stopped, or slept."""
        limit = max(self._settings.tx_seconds_max, self._settings.busy_seconds_max)
        return self._clock.tick() - self._since > limit

    def _watch(self) -> None:
        """While tasks wait, cancel a body that takes too long, and pass on a turn that is not taken."""
        limit = self._settings.tx_seconds_max
        holder, granted, since = self.holder, self._granted, self._since

        def check() -> None:
            self._watchdog = None
            if holder is not None and (self.holder, self._since) == (holder, since):
                self._overdue = holder
                holder.cancel()
            elif granted is not None and self._granted is granted:
                self.give()
            if self._waiting:
                self._watch()

        # In the store's own context: the task that waits first may have ended before the timer fires.
        self._watchdog = asyncio.get_running_loop().call_later(limit, check, context=self._context)

    def clear_overdue(self, cancelled: asyncio.CancelledError) -> None:
        """Raise Overdue in place of *cancelled* if the watchdog cancelled the body, and no other caller did."""
        task, overdue = asyncio.current_task(), self._overdue
        if task is not None and task is overdue:
            self._overdue = None
            if task.uncancel() == 0:
                raise Overdue(self._settings.tx_seconds_max) from cancelled

    def close(self) -> None:
        """Stop the watchdog."""
        if self._watchdog is not None:
            self._watchdog.cancel()

    def abandon(self, error: Exception) -> None:
        """Raise *error* in all that wait, and in no order any more."""
        self.is_taken = False
        settle(self._waiting, error)
        self._waiting.clear()
