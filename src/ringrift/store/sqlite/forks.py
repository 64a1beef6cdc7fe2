"""Forks: no connection to a database crosses one.

SQLite notes the locks of a process in its memory.  A forked child has the notes but not the locks, so that parent and
child would write at once: acknowledged writes vanish and the file is damaged.  So every store closes its connections
before a fork and opens them again at the next use.  Where that cannot be waited for, because a transaction or a view
is open, or where a fork escaped Python's notice, the child refuses the file as long as it lives.
"""

import asyncio
import ctypes
import os
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Never

import apsw

from ringrift.kernel.errors import Unreachable

if TYPE_CHECKING:
    from ringrift.store.sqlite.engine import SqliteStore

FORK_SECONDS_MAX = 5.0  # how long a fork waits for the transactions and views that are open


stores: set["SqliteStore"] = set()  #: Those that are open: each is closed before every fork.
_connections: set["Connection"] = set()
_here = threading.local()  # what ends the pause of each store: several threads may fork at once


class Connection(apsw.Connection):
    """A connection to *file* that belongs to the process that opened it: another one neither uses nor closes it."""

    def __init__(self, path: str, *, flags: int, vfs: str | None = None, statementcachesize: int = 100) -> None:
        self._file, self._pid = os.path.realpath(path), os.getpid()
        if any(db._file == self._file and db._pid != self._pid for db in tuple(_connections)):
            raise refusal(path)
        if vfs is None:  # a simulated disk has no locks
            _connections.add(self)  # before SQLite makes its first note
        try:
            super().__init__(path, flags=flags, vfs=vfs, statementcachesize=statementcachesize)
        except BaseException:
            _connections.discard(self)
            raise

    def close(self, force: bool = False) -> None:
        if self._pid == os.getpid():
            super().close(force)
            _connections.discard(self)


class _Inherited(Connection):
    """What a connection becomes in a forked child."""

    in_transaction = False

    def execute(self, *args: object, **options: object) -> Never:
        raise refusal(self._file)

    executemany = execute


def refusal(path: str) -> Unreachable:
    """The error in a child that inherited an open connection to the store at *path*."""
    remedy = "fork before the store is used, or start the child anew (multiprocessing: spawn)"
    return Unreachable(f"{path} was open when this process was forked, so it cannot be used here: {remedy}")


def _before_fork() -> None:
    _here.resumes = resumes = []
    for store in tuple(stores):
        if threading.get_ident() == store.thread:
            store.disconnect_at_once()
            continue
        closed, resumed = threading.Event(), asyncio.Event()
        pause = _pause(store, closed, resumed)
        try:
            asyncio.run_coroutine_threadsafe(pause, store.loop)
        except RuntimeError:  # its loop has ended, and it was not closed: the child will refuse
            pause.close()
            continue
        closed.wait(FORK_SECONDS_MAX)
        resumes.append(partial(store.loop.call_soon_threadsafe, resumed.set))


async def _pause(store: "SqliteStore", closed: threading.Event, resumed: asyncio.Event) -> None:
    try:
        async with store.quiet():
            store.disconnect()
            closed.set()
            await resumed.wait()
    finally:
        closed.set()


def _after_fork_in_parent() -> None:
    for resume in _here.__dict__.pop("resumes"):
        with suppress(RuntimeError):  # its loop ended meanwhile
            resume()


def _after_fork_in_child() -> None:
    for store in tuple(stores):
        store.abandon()
    for db in _connections:
        db.__class__ = _Inherited
        # Never collected, not even at the end: closing a connection here would write with the parent's notes.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))
    stores.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
