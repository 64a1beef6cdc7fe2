"""SqliteStore: one writer connection, bodies one at a time, one COMMIT for all that have finished meanwhile.

    begin ─▶ wait for the turn ─▶ SAVEPOINT · body · RELEASE ─▶ wait for COMMIT ─▶ return
                                   (SQL inline on the loop)      (one thread hop for the whole group)

Bodies queue in order.  The committer queues behind them, so bodies that waited when the first one finished share its
COMMIT: the fsync itself is the time in which a group gathers.  A body that fails undoes only its own savepoint.  If
COMMIT fails, the state on disk is unknown: every body of the group gets the error, and the store refuses all further
work, so that the process ends and recovers by starting again.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import copy_context
from typing import Any

import apsw

from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Backpressure, NoRoom, Overdue, StoreError, Unreachable
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.settings import StoreSettings
from ringrift.store.ports import Tx
from ringrift.store.sqlite import reads
from ringrift.store.sqlite.connect import BUSY_SECONDS_MAX, connect, translate
from ringrift.store.sqlite.reads import Offload, SqliteReads
from ringrift.store.sqlite.tx import SqliteTx
from ringrift.store.sqlite.wake import Wake

_READERS_MAX = 4


class SqliteStore:
    """A store in one SQLite file.  Open it with :func:`ringrift.store.open.open_store`."""

    def __init__(self, settings: StoreSettings, clock: Clock, offload: Offload, vfs: str | None = None) -> None:
        self._settings, self._clock, self._offload, self._vfs = settings, clock, offload, vfs
        self._db = self._connect()
        self._tx = self.make_tx(self._db)
        self._idle: list[apsw.Connection] = []
        self._reading = asyncio.Semaphore(_READERS_MAX)
        self._turns: deque[asyncio.Future[None]] = deque()
        self._busy = self._open = self._closing = self._woken = False
        self._granted: asyncio.Future[None] | None = None
        self._context = copy_context()
        self._holder: asyncio.Task[Any] | None = None
        self._overdue: asyncio.Task[Any] | None = None
        self._since = 0.0
        self._watchdog: asyncio.TimerHandle | None = None
        self._group: list[asyncio.Future[None]] = []
        self._finished = asyncio.Event()
        self._broken: Exception | None = None
        self._changes = self._db.total_changes()
        self._position = reads.head(self._db)
        self._waiters: dict[asyncio.Future[None], int | None] = {}
        self._wake: Wake | None = None
        self._refresh_task: asyncio.Task[None] | None = None

    def make_tx(self, db: apsw.Connection) -> SqliteTx:
        return SqliteTx(db)

    def _connect(self, *, read_only: bool = False) -> apsw.Connection:
        try:
            return connect(self._settings.path, read_only=read_only, vfs=self._vfs)
        except apsw.Error as bad:
            raise translate(bad, self._settings.path) from bad

    @property
    def position(self) -> int:
        return self._position

    def begin(self) -> AbstractAsyncContextManager[Tx]:
        return _Body(self)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[SqliteReads]:
        if self._vfs is not None:
            # A simulated disk has one connection.  A read is a body, so the rows it returned are durable on return.
            async with _Body(self) as tx:
                yield tx
            return
        async with self._reading:
            if self._broken is not None:
                raise Unreachable(f"the store stopped after: {self._broken}") from self._broken
            db = self._idle.pop() if self._idle else self._connect(read_only=True)
            try:
                db.execute("BEGIN")  # inline, like its end: only queries touch the file
                yield SqliteReads(db, self._offload)
            except apsw.Error as bad:
                raise translate(bad, self._settings.path) from bad
            finally:
                self._idle.append(db)
                if db.in_transaction:
                    db.execute("ROLLBACK")

    async def wait(self, after: int | None, seconds: float) -> int:
        if after is not None and self._position > after:
            return self._position
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = after
        try:
            await asyncio.wait((waiter,), timeout=seconds)
        finally:
            del self._waiters[waiter]
        if after is not None and not waiter.done() and self._vfs is None:
            await self._refresh()  # another process may have appended: a lost wake-up costs latency, never data
        return self._position

    async def _refresh(self) -> None:
        async with self.read() as view:
            self._position = max(self._position, await view.head())

    def enable_wake_ups(self) -> None:
        """Wake up when another process commits to the same file, and wake the others."""
        self._wake = Wake(self._settings.path, self._on_wake_up)

    def _on_wake_up(self) -> None:
        """Another process has committed: read the position, and again if it commits meanwhile."""
        self._woken = True
        if self._refresh_task is None or self._refresh_task.done():
            task = self._refresh_and_wake()
            self._refresh_task = asyncio.get_running_loop().create_task(task, name="store-refresh")

    async def _refresh_and_wake(self) -> None:
        while self._woken and self._broken is None:
            self._woken = False
            with suppress(Unreachable):  # every user of the store gets the error
                await self._refresh()
            self._wake_waiters()

    def _wake_waiters(self) -> None:
        for waiter, after in self._waiters.items():
            if not waiter.done() and (after is None or after < self._position):
                waiter.set_result(None)

    async def take_turn(self, *, committing: bool = False) -> None:
        """Wait until no body and no COMMIT is running.  Raises Backpressure, but never for the committer."""
        while self._busy:
            if len(self._turns) >= self._settings.waiting_max and not committing:
                raise Backpressure("store", self._settings.waiting_max)
            turn = asyncio.get_running_loop().create_future()
            self._turns.append(turn)
            if self._watchdog is None:
                self._watch()
            try:
                await turn
            except asyncio.CancelledError:
                if self._granted is turn:
                    self.give_turn()
                elif turn in self._turns:
                    self._turns.remove(turn)
                raise
            if self._granted is turn:
                break  # otherwise the turn was passed on, and we have to queue again
        self._busy, self._granted = True, None
        if self._broken is not None:
            self.give_turn()
            raise Unreachable(f"the store stopped after: {self._broken}") from self._broken

    def give_turn(self) -> None:
        """Pass the turn on.  Cancelled waiters are skipped."""
        self._holder = self._granted = None
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                self._granted = turn  # stays busy, so that no other task takes the turn in between
                turn.set_result(None)
                return
        self._busy = False

    def _watch(self) -> None:
        """While tasks wait, cancel a body that takes too long, and pass on a turn that is not taken."""
        limit = self._settings.tx_seconds_max
        holder, granted, since = self._holder, self._granted, self._since

        def check() -> None:
            self._watchdog = None
            if holder is not None and (self._holder, self._since) == (holder, since):
                self._overdue = holder
                holder.cancel()
            elif granted is not None and self._granted is granted:
                self.give_turn()
            if self._turns:
                self._watch()

        # In the store's own context: the task that waits first may have ended before the timer fires.
        self._watchdog = asyncio.get_running_loop().call_later(limit, check, context=self._context)

    async def enter(self) -> SqliteTx:
        """Begin a body: the first of a group opens the transaction that all of them share."""
        await self.take_turn()
        try:
            if not self._open:
                await self._begin()
            self._db.execute("SAVEPOINT body")
        except BaseException as error:
            self._finished.set()  # an open transaction must end, or no other process could write
            self.give_turn()
            if isinstance(error, apsw.Error):
                raise translate(error, self._settings.path) from error
            raise
        self._holder, self._since = asyncio.current_task(), self._clock.tick()
        return self._tx

    async def _begin(self) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            # Another process is writing.  Waiting for it happens off the loop, and has an end.
            await self._offload(_begin_patiently, self._db)
        finally:
            self._open = self._db.in_transaction  # a cancelled wait may have succeeded all the same

    def leave(self, error: BaseException | None) -> "asyncio.Future[None] | None":
        """End a body: undo it if it failed, otherwise return the future that COMMIT resolves."""
        rollback, self._tx.rollback = self._tx.rollback, None
        try:
            if rollback is not None:
                self._db.execute("ROLLBACK")
                raise rollback
            if error is not None:
                self._db.execute("ROLLBACK TO body")
            self._db.execute("RELEASE body")
        except apsw.Error as bad:
            # If the body itself ran out of room, SQLite has rolled back already: that is the error to raise.
            reason = error if isinstance(error, apsw.Error) else bad
            self._lose_group(reason)
            self.give_turn()
            raise translate(reason, self._settings.path) from bad
        done = None
        if error is None:
            done = asyncio.get_running_loop().create_future()
            self._group.append(done)
        self._finished.set()
        self.give_turn()
        return done

    def clear_busy(self, cancelled: asyncio.CancelledError) -> None:
        """Raise Overdue in place of *cancelled* if the watchdog cancelled the body, and no other caller did."""
        task, overdue = asyncio.current_task(), self._overdue
        if task is not None and task is overdue:
            self._overdue = None
            if task.uncancel() == 0:
                raise Overdue(self._settings.tx_seconds_max) from cancelled

    def _lose_group(self, bad: apsw.Error) -> None:
        """A full disk can make SQLite roll back the whole transaction; then every body of the group has failed."""
        if not self._db.in_transaction:
            self._open = False
            error = translate(bad, self._settings.path)
            group, self._group = self._group, []
            for done in group:
                if not done.done():
                    done.set_exception(error)

    async def commit_forever(self) -> None:
        """Commit group by group until closed or broken.  Never cancelled: a COMMIT has no middle."""
        while self._broken is None:
            await self._finished.wait()
            await self.take_turn(committing=True)
            self._finished.clear()
            group, self._group = self._group, []
            if self._open:
                await self._commit(group)
            if self._closing:
                self._broken = self._broken or StoreError("closed")
            self.give_turn()

    async def _commit(self, group: "list[asyncio.Future[None]]") -> None:
        position, changes = self._position, self._db.total_changes()
        failpoint("store.before_commit")
        error: StoreError | NoRoom | None = None
        try:
            position = reads.head(self._db)
            await self._offload(self._db.execute, "COMMIT")
        except apsw.Error as bad:
            error = translate(bad, self._settings.path)
            if isinstance(bad, apsw.FullError):
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
            else:
                self._broken = bad
        failpoint("store.after_commit")
        self._open = False
        if error is None:
            self._position = max(self._position, position)
        for done in group:
            if not done.done():
                done.set_result(None) if error is None else done.set_exception(error)
        # A claim without a result changes nothing and wakes no one: otherwise claims would wake claims for ever.
        if changes != self._changes:
            self._changes = changes
            self._wake_waiters()
            if self._wake is not None:
                self._wake.wake_others()

    async def close(self, committer: "asyncio.Task[None]") -> None:
        """Commit what has finished and close the file."""
        self._closing = True
        self._finished.set()
        await asyncio.wait((committer,))
        if self._wake is not None:
            self._wake.close()
        if self._refresh_task is not None:
            await asyncio.wait((self._refresh_task,))
        with suppress(TimeoutError):
            async with asyncio.timeout(BUSY_SECONDS_MAX):
                for _ in range(_READERS_MAX):
                    await self._reading.acquire()  # running reads may end first
        for _ in range(_READERS_MAX):
            self._reading.release()  # later reads get the error that the store is closed
        if self._watchdog is not None:
            self._watchdog.cancel()
        for db in (*self._idle, self._db):
            db.close()


class _Body:
    """One body of a transaction, as a context manager without a generator's cost."""

    __slots__ = ("_store",)

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def __aenter__(self) -> SqliteTx:
        return await self._store.enter()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        done = self._store.leave(error)
        if done is not None:
            await done
        if isinstance(error, asyncio.CancelledError):
            self._store.clear_busy(error)
        if isinstance(error, apsw.Error):
            raise translate(error, self._store._settings.path) from error


def _begin_patiently(db: apsw.Connection) -> None:
    db.set_busy_timeout(int(BUSY_SECONDS_MAX * 1000))
    try:
        db.execute("BEGIN IMMEDIATE")
    finally:
        db.set_busy_timeout(0)
