"""SqliteStore: one writer connection, bodies one at a time, one COMMIT for all that have finished meanwhile.

    begin ─▶ wait for the turn ─▶ SAVEPOINT · body · RELEASE ─▶ wait for COMMIT ─▶ return
                                   (SQL inline on the loop)      (one thread hop for the whole group)

Bodies queue in order.  The committer queues behind them, so bodies that waited when the first one finished share its
COMMIT: the fsync itself is the time in which a group gathers.  A body that fails undoes only its own savepoint.  If
COMMIT fails, the state on disk is unknown: every body of the group gets the error, and the store refuses all further
work, so that the process ends and recovers by starting again.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial

import apsw

from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Busy, NoRoom, Overdue, StoreError, Unreachable
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.settings import StoreSettings
from ringrift.store.ports import Tx
from ringrift.store.sqlite import forks, reads
from ringrift.store.sqlite.connect import WAL_BYTES_MAX, connect, translate
from ringrift.store.sqlite.reads import Offload, SqliteReads
from ringrift.store.sqlite.turns import Turns, settle
from ringrift.store.sqlite.tx import SqliteTx
from ringrift.store.sqlite.wake import Wake

_READERS_MAX = 4
_LIMIT_LOG_SECONDS = 5.0  # between attempts to empty SQLite's log
_EMPTY_LOG_SECONDS = 1.0  # how long one waits for views


class SqliteStore:
    """A store in one SQLite file.  Open it with :func:`ringrift.store.open.open_store`."""

    def __init__(
        self, settings: StoreSettings, clock: Clock, offload: Offload, vfs: str | None = None, *, existing: bool = False
    ) -> None:
        self._settings, self._clock, self._offload, self._vfs = settings, clock, offload, vfs
        self.loop, self.thread, self._pid = asyncio.get_running_loop(), threading.get_ident(), os.getpid()
        self._existing = self._is_disconnected = existing
        self._db = self._connect(read_only=existing)
        self._tx = self.make_tx(self._db)
        self._idle = [self._db] if existing else []
        self._views = 0
        self._reading = asyncio.Semaphore(_READERS_MAX)
        self._admitting = asyncio.Event()
        self._admitting.set()
        self._turns = Turns(settings, clock)
        self._open = self._closing = self._woken = False
        self._group: list[asyncio.Future[None]] = []
        self._committing: list[asyncio.Future[None]] | None = None
        self._committed = threading.Event()  # for a fork, which cannot wait on the loop
        self._finished = asyncio.Event()
        self._broken: Exception | None = None
        self._log_limit, self._limit_log_at = WAL_BYTES_MAX, 0.0
        self._changes = self._db.total_changes()
        self.position = reads.head(self._db)  #: The last durable position that this process has read.
        self._waiters: dict[asyncio.Future[None], int | None] = {}
        self._wake = Wake(settings.path, self._on_wake_up) if vfs is None else None
        self._refresh_task: asyncio.Task[None] | None = None

    def make_tx(self, db: apsw.Connection) -> SqliteTx:
        return SqliteTx(db)

    def _connect(self, *, read_only: bool = False) -> apsw.Connection:
        try:
            path, patience = self._settings.path, self._settings.busy_seconds_max
            return connect(path, read_only=read_only, vfs=self._vfs, existing=self._existing, patience=patience)
        except (apsw.Error, OSError) as bad:
            error = translate(bad, self._settings.path)
            if isinstance(bad, OSError) and not isinstance(error, Busy):
                raise
            raise error from bad

    def begin(self) -> AbstractAsyncContextManager[Tx]:
        return _Body(self)

    @asynccontextmanager
    async def read(self, *, brief: bool = False) -> AsyncIterator[SqliteReads]:
        if self._vfs is not None:
            # A simulated disk has one connection.  A read is a body, so the rows it returned are durable on return.
            async with _Body(self) as tx:
                yield tx
            return
        self._require_usable()
        async with self._reading:
            await self._admitting.wait()
            self._require_usable()
            db = self._idle.pop() if self._idle else self._connect(read_only=True)
            # A thread costs more than a lookup by key takes.
            view = SqliteReads(db, None if brief else self._offload)
            seconds = self._settings.view_seconds_max
            end = self.loop.call_later(seconds, view.end, seconds)
            self._views += 1
            try:
                db.execute("BEGIN")  # inline, like its end: only queries touch the file
                yield view
            except apsw.InterruptError as late:
                raise Overdue(seconds, "read") from late
            except apsw.Error as bad:
                raise translate(bad, self._settings.path) from bad
            finally:
                end.cancel()
                self._views -= 1
                if self._pid == os.getpid():
                    self._idle.append(db)
                    if db.in_transaction:
                        db.execute("ROLLBACK")

    def _require_usable(self) -> None:
        if self._pid != os.getpid():
            raise forks.refusal(self._settings.path)
        if self._broken is not None:
            raise Unreachable(f"the store stopped after: {self._broken}") from self._broken

    async def wait(self, after: int | None, seconds: float) -> int:
        if after is not None and self.position > after:
            return self.position
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = after
        try:
            await asyncio.wait((waiter,), timeout=seconds)
        finally:
            del self._waiters[waiter]
        if after is not None and not waiter.done() and self._vfs is None:
            await self._refresh()  # another process may have appended: a lost wake-up costs latency, never data
        return self.position

    async def _refresh(self) -> None:
        async with self.read() as view:
            self.position = max(self.position, await view.head())

    def _on_wake_up(self) -> None:
        """Another process has committed: read the position, and again if it commits meanwhile."""
        self._woken = True
        if self._refresh_task is None or self._refresh_task.done():
            task = self._refresh_and_wake()
            self._refresh_task = asyncio.get_running_loop().create_task(task, name="store-refresh")

    async def _refresh_and_wake(self) -> None:
        while self._woken and self._broken is None:
            self._woken = False
            with suppress(StoreError):  # every user of the store gets the error
                await self._refresh()
            self._wake_waiters()

    def _wake_waiters(self) -> None:
        for waiter, after in self._waiters.items():
            if not waiter.done() and (after is None or after < self.position):
                waiter.set_result(None)

    async def _take_turn(self, *, committing: bool = False) -> None:
        self._require_usable()
        await self._turns.take(committing=committing)
        try:
            self._require_usable()
        except Unreachable:
            self._turns.give()
            raise

    async def enter(self) -> SqliteTx:
        """Begin a body: the first of a group opens the transaction that all of them share."""
        await self._take_turn()
        try:
            if not self._open:
                await self._begin()
            self._db.execute("SAVEPOINT body")
        except BaseException as error:
            self._finished.set()  # an open transaction must end, or no other process could write
            self._turns.give()
            if isinstance(error, apsw.Error):
                raise translate(error, self._settings.path) from error
            raise
        self._turns.hold()
        return self._tx

    async def _begin(self) -> None:
        if self._is_disconnected:
            self._db = await self._offload(self._connect)
            self._tx, self._changes, self._is_disconnected = self.make_tx(self._db), 0, False
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            # Another process is writing.  Waiting for it happens off the loop, and has an end.
            begin = partial(self._db.execute, "BEGIN IMMEDIATE")
            await self._offload(_run_patiently, self._db, begin, self._settings.busy_seconds_max)
        finally:
            self._open = self._db.in_transaction  # a cancelled wait may have succeeded all the same

    def leave(self, error: BaseException | None) -> "asyncio.Future[None] | None":
        """End a body: undo it if it failed, otherwise return the future that COMMIT resolves."""
        rollback, self._tx.rollback = self._tx.rollback, None
        is_stale = error is None and self._turns.is_stale()
        try:
            if rollback is not None:
                self._db.execute("ROLLBACK")
                raise rollback
            if error is not None or is_stale:
                self._db.execute("ROLLBACK TO body")
            self._db.execute("RELEASE body")
        except apsw.Error as bad:
            # If the body itself ran out of room, SQLite has rolled back already: that is the error to raise.
            reason = error if isinstance(error, apsw.Error) else bad
            self._lose_group(reason)
            self._turns.give()
            raise translate(reason, self._settings.path) from bad
        done = None
        if error is None and not is_stale:
            done = asyncio.get_running_loop().create_future()
            self._group.append(done)
        self._finished.set()
        self._turns.give()
        if is_stale:
            raise Overdue(self._settings.busy_seconds_max)
        return done

    def _lose_group(self, bad: apsw.Error) -> None:
        """A full disk can make SQLite roll back the whole transaction; then every body of the group has failed."""
        if not self._db.in_transaction:
            group, self._open, self._group = self._group, False, []
            settle(group, translate(bad, self._settings.path))

    async def commit_forever(self) -> None:
        """Commit group by group until closed or broken.  Never cancelled: a COMMIT has no middle."""
        while self._broken is None:
            await self._finished.wait()
            await self._take_turn(committing=True)
            await self._commit()
            if self._closing:
                self._broken = self._broken or StoreError("closed")
            self._turns.give()

    async def _commit(self) -> None:
        """Commit the bodies that have finished, if any."""
        self._finished.clear()
        if not self._open:
            return
        group, self._group = self._group, []
        self._committing = group
        self._committed.clear()
        position, changes = self.position, self._db.total_changes()
        failpoint("store.before_commit")
        error: StoreError | NoRoom | None = None
        try:
            position = reads.head(self._db)
            await self._offload(self._run, "COMMIT")
        except apsw.Error as bad:
            error = translate(bad, self._settings.path)
            if not isinstance(error, Busy | NoRoom):
                self._broken = bad
            elif self._db.in_transaction:
                self._db.execute("ROLLBACK")
        failpoint("store.after_commit")
        self._open, self._committing = False, None
        if error is None:
            self.position = max(self.position, position)
        settle(group, error)
        # A claim without a result changes nothing and wakes no one: otherwise claims would wake claims for ever.
        if changes != self._changes:
            self._changes = changes
            self._wake_waiters()
            if self._wake is not None:
                self._wake.wake_others()
        await self._limit_log()

    def _run(self, statement: str) -> None:
        try:
            self._db.execute(statement)
        finally:
            self._committed.set()

    async def _limit_log(self) -> None:
        """Empty SQLite's log if it is too large: with views that overlap all the time it would grow for ever.

        Writers and new views wait meanwhile, a moment at most: SQLite waits for the place in its table of readers that
        an old view had, and a new view that took this place would be waited for as well.
        """
        if self._vfs is not None or self._broken is not None:
            return
        size, now = 0, self._clock.tick()
        try:
            size = os.stat(f"{self._settings.path}-wal").st_size
            if size > WAL_BYTES_MAX and (size > self._log_limit or now > self._limit_log_at):
                empty = partial(self._db.wal_checkpoint, mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                self._admitting.clear()
                await self._offload(_run_patiently, self._db, empty, _EMPTY_LOG_SECONDS)
                self._log_limit = WAL_BYTES_MAX
        except (OSError, apsw.Error):  # a view needs it, or the disk is full: nothing is lost
            self._log_limit, self._limit_log_at = size + WAL_BYTES_MAX, now + _LIMIT_LOG_SECONDS
        finally:
            self._admitting.set()

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """No transaction and no view is open while the body runs.  Raises TimeoutError if some do not end."""
        views = 0
        try:
            async with asyncio.timeout(forks.FORK_SECONDS_MAX):
                while views < _READERS_MAX:
                    await self._reading.acquire()
                    views += 1
                await self._take_turn(committing=True)
            try:
                await self._commit()
                yield
            finally:
                self._turns.give()
        finally:
            for _ in range(views):
                self._reading.release()

    def disconnect(self) -> None:
        """Close all connections; the next use opens them again."""
        self._is_disconnected = True
        for db in (*self._idle, self._db):
            db.close()
        self._idle.clear()

    def disconnect_at_once(self) -> None:
        """The same from the loop's own thread, unless a body or a view is open; a running COMMIT is waited for."""
        is_quiet = not (self._views or self._turns.is_taken or self._open)
        if is_quiet or (self._committing is not None and self._committed.wait(forks.FORK_SECONDS_MAX)):
            self.disconnect()

    def abandon(self) -> None:
        """In a forked child: refuse every further use, and fail those that wait."""
        if self._wake is not None:
            self._wake.abandon()
        self._turns.abandon(error := forks.refusal(self._settings.path))
        settle((*self._group, *(self._committing or ())), error)

    async def close(self, committer: "asyncio.Task[None]") -> None:
        """Commit what has finished and close the file."""
        forks.stores.discard(self)
        if self._pid != os.getpid():
            return
        self._closing = True
        self._finished.set()
        await asyncio.wait((committer,))
        if self._wake is not None:
            self._wake.close()
        if self._refresh_task is not None:
            await asyncio.wait((self._refresh_task,))
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.busy_seconds_max):
                for _ in range(_READERS_MAX):
                    await self._reading.acquire()  # running reads may end first
        for _ in range(_READERS_MAX):
            self._reading.release()  # later reads get the error that the store is closed
        self._turns.close()
        self.disconnect()


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
            self._store._turns.clear_overdue(error)
        if isinstance(error, apsw.Error):
            raise translate(error, self._store._settings.path) from error


def _run_patiently(db: apsw.Connection, call: Callable[[], object], seconds: float) -> None:
    """Call *call*, which waits up to *seconds* for the locks of others."""
    db.set_busy_timeout(int(seconds * 1000))
    try:
        call()
    finally:
        db.set_busy_timeout(0)
