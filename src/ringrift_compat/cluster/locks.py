"""Locks by name: one holder at a time, with a fence that grows with every holder.

An engine stores one row for each name and changes it atomically: in the store, in a folder of files, or in a Redis.
The rule is the same for all.  No expiry time is written: whoever waits observes on its own monotonic clock whether the
holder renews, and takes the lock over once the renewals have stood still for their time.  The holder stops relying on
the lock earlier; what it protects compares fences, so that a holder that was only paused changes nothing.
"""

import asyncio
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

import msgspec

from ringrift.blobs.locks import opened
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Busy
from ringrift.kernel.extras import require_module
from ringrift.kernel.ids import check_name
from ringrift.kernel.stall_detector import Observation, StallDetector
from ringrift.kernel.value import Value, changed
from ringrift.store.ports import Store
from ringrift.store.records import Records
from ringrift.threads import to_its_end

_SECONDS = 30.0  # a holder may go so long without a renewal
_TRUST = 2 / 3  # the share of that time for which the holder relies on its lock
_POLL_SECONDS = 0.25  # between two tries of one that waits
_ROUNDS_MAX = 100  # tries to change a row of a Redis that others change at the same time
_REDIS_SECONDS_MAX = 5.0
_SWAP = (
    "if (redis.call('GET', KEYS[1]) or '') == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) return 1 end return 0"
)


class _LockRow(Value):
    """The state of a lock; *owner* is empty while it is free."""

    owner: str = ""
    fence: int = 0
    renewals: int = 0
    seconds: float = 0.0


_Change = Callable[[_LockRow], _LockRow]
_LOCKS = Records("lock", _LockRow)


class LockEngine(Protocol):
    """Where the rows are."""

    async def update(self, name: str, change: _Change) -> _LockRow:
        """Replace the row of *name* by what *change* makes of it, atomically; the row afterwards.

        *change* may be called several times.  Raises Busy if the rows cannot be reached.
        """

    async def close(self) -> None:
        """Release what the engine has open."""


class Lock:
    """One lock for one holder.  *owner* must be unique; *has_died* says whether another owner certainly has ended."""

    def __init__(
        self,
        engine: LockEngine,
        name: str,
        owner: str,
        clock: Clock,
        *,
        seconds: float = _SECONDS,
        has_died: Callable[[str], bool] = lambda owner: False,
    ) -> None:
        self.name, self.fence = check_name("lock", name), 0  #: *fence* is 0 until it was taken.
        self.holder = ""  #: The owner that a try has met.
        self.owner, self._engine, self._clock, self._seconds = owner, engine, clock, seconds
        self._has_died, self._detector, self._trusted_until = has_died, StallDetector(), 0.0

    @property
    def is_held(self) -> bool:
        """Whether the holder may rely on it now."""
        return self.fence > 0 and self._clock.tick() < self._trusted_until

    async def take(self) -> bool:
        """Take it if it is free, was not renewed in time or its owner has died; whether we hold it."""
        start, self.fence = self._clock.tick(), 0

        def take(row: _LockRow) -> _LockRow:
            if not row.owner or row.owner == self.owner or self._is_late(row, start) or self._has_died(row.owner):
                return _LockRow(owner=self.owner, fence=row.fence + 1, seconds=self._seconds)
            return row

        row = await self._engine.update(self.name, take)
        self.holder = row.owner
        return self._trust(row, start)

    async def take_within(self, seconds: float) -> bool:
        """Try for so long; whether we hold it."""
        deadline = self._clock.tick() + seconds
        while not await self.take():
            left = deadline - self._clock.tick()
            if left <= 0:
                return False
            await asyncio.sleep(min(_POLL_SECONDS, left))
        return True

    async def renew(self) -> bool:
        """Renew it; False if it is no longer ours."""
        start = self._clock.tick()
        return self._trust(await self._update_own(lambda row: changed(row, renewals=row.renewals + 1)), start)

    async def release(self) -> bool:
        """Free it; whether it was still ours."""
        was_ours, fence = self.fence > 0, self.fence
        row = await self._update_own(lambda row: changed(row, owner=""))
        self.fence = 0
        return was_ours and not row.owner and row.fence == fence

    async def _update_own(self, change: _Change) -> _LockRow:
        own = (self.owner, self.fence)
        return await self._engine.update(self.name, lambda row: change(row) if (row.owner, row.fence) == own else row)

    def _is_late(self, row: _LockRow, tick: float) -> bool:
        counter = (row.fence << 32) + row.renewals
        return bool(self._detector.stalled([Observation(self.name, counter, row.seconds)], tick))

    def _trust(self, row: _LockRow, start: float) -> bool:
        """Rely on *row* if it is ours, from *start* on, the tick before it was written."""
        is_ours = row.owner == self.owner and self.fence in (0, row.fence)
        self.fence = row.fence if is_ours else 0
        self._trusted_until = start + _TRUST * self._seconds
        return is_ours


class _StoreLocks:
    """Rows in the store: as durable as everything else, and for whoever can reach it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def update(self, name: str, change: _Change) -> _LockRow:
        """Change the row in a transaction."""
        async with self._store.begin() as tx:
            before = await _LOCKS.get(tx, name) or _LockRow()
            if (after := change(before)) != before:
                await _LOCKS.put_at(tx, {name: after})
        return after

    async def close(self) -> None:
        """The store is not ours to close."""


class _FileLocks:
    """Rows in files of a folder, for the processes of one machine, or of a network file system that has locks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def update(self, name: str, change: _Change) -> _LockRow:
        """Change the row in a thread, under a lock of the kernel."""
        return await to_its_end(None, self._update, quote(name, safe=""), change)

    def _update(self, name: str, change: _Change) -> _LockRow:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with opened(self._folder / f"{name}.guard", os.O_RDWR | os.O_CREAT) as guard:
                fcntl.flock(guard, fcntl.LOCK_EX)  # a file system without locks is an error here
                path = self._folder / f"{name}.json"
                before = msgspec.json.decode(path.read_bytes(), type=_LockRow) if path.exists() else _LockRow()
                if (after := change(before)) != before:
                    _replace(path, msgspec.json.encode(after))
                return after
        except (OSError, msgspec.DecodeError) as error:
            raise Busy(f"the locks in {self._folder}", str(error)) from error

    async def close(self) -> None:
        """Nothing is open between two changes."""


def _replace(path: Path, content: bytes) -> None:
    """Write *content* so that *path* has it whole or not at all, whatever crashes."""
    new = path.with_suffix(".new")
    with opened(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
        os.write(descriptor, content)
        os.fsync(descriptor)
    new.replace(path)
    with opened(path.parent, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


class _RedisLocks:
    """Rows in a Redis, as durable as that is configured to be."""

    def __init__(self, url: str) -> None:
        """Raises MissingExtra without the package ``redis``."""
        redis: Any = require_module("redis.asyncio", "redis")
        self._place, self._error = f"the locks in Redis at {_without_password(url)}", require_module("redis", "redis")
        limits = {"socket_timeout": _REDIS_SECONDS_MAX, "socket_connect_timeout": _REDIS_SECONDS_MAX}
        self._redis = redis.Redis.from_url(url, **limits)

    async def update(self, name: str, change: _Change) -> _LockRow:
        """Change the row if it is still the one that was read; otherwise read it again."""
        key = f"ringrift:lock:{name}"
        try:
            for _ in range(_ROUNDS_MAX):
                body = await self._redis.get(key) or b""
                before = msgspec.json.decode(body, type=_LockRow) if body else _LockRow()
                after = change(before)
                if after == before or await self._redis.eval(_SWAP, 1, key, body, msgspec.json.encode(after)):
                    return after
        except (self._error.RedisError, OSError, msgspec.DecodeError) as error:
            raise Busy(self._place, str(error)) from error
        raise Busy(self._place, f"{name} was changed by others {_ROUNDS_MAX} times in a row")

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or 6379}" if parts.hostname else parts.path


def open_locks(kind: str, store: Store, folder: Path) -> LockEngine:
    """The engine that the setting *cluster.locks* names: ``store``, ``file`` (in *folder*) or the URL of a Redis."""
    if kind == "store":
        return _StoreLocks(store)
    return _FileLocks(folder) if kind == "file" else _RedisLocks(kind)
