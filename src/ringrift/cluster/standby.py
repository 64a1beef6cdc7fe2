"""Standby: a second coordinator process of a store waits for the end of the first, and watches whether it still works.

The lock beside the store decides, and nothing else: the kernel frees it when its holder has died, never before, so that
no effect of an old holder can follow the first of a new one.  A holder that is stopped or hung still has the lock: the
standby raises an alert, and kills it first if it may.  A copy of the store has a lock of its own, so the store itself
records where it lies, and a coordinator refuses one that lies elsewhere until a person adopts it.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster import alerts
from ringrift.events.alert import Cleared, Raised
from ringrift.events.base import Event
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import TRANSIENT, CopiedStore, NotLeader
from ringrift.kernel.settings import ClusterSettings, StoreSettings
from ringrift.kernel.stall_detector import Observation, StallDetector
from ringrift.store.open import find_coordinator, store_place
from ringrift.store.ports import RoleRow, Store
from ringrift.store.records import Records
from ringrift.store.roles import ROLE_PREFIX

_LOCK_POLL_SECONDS = 0.2  #: Between two tries for the lock: a small part of the 3 s within which a standby takes over.
_LOOKS_PER_ROLE = 5  #: Looks at the holder while a role lasts.
_KIND = "coordinator_hung"
_SOURCE = "alert"  #: As the daemon of alerts, which the holder cannot run now: its events are applied already.
_PLACES, _ID = Records("store_place", str), "coordinator"


async def require_own_place(store: Store, settings: StoreSettings, *, adopt: bool = False) -> None:
    """Record where the store of a coordinator lies.  Raises CopiedStore if it is a copy, unless a person adopts it."""
    place = store_place(settings)
    async with store.read() as view:
        before = await _PLACES.get(view, _ID)
    if before not in (None, place) and not adopt:
        raise CopiedStore(settings.path)
    if before != place:
        async with store.begin() as tx:
            await _PLACES.put_at(tx, {_ID: place})


def _progress_of(rows: Sequence[RoleRow]) -> int:
    """A number that changes whenever the coordinator renews or takes a role."""
    return sum((row.term << 32) + row.renewals for row in rows if not row.role.startswith(ROLE_PREFIX))


class _ProgressWatch:
    """Whether the holder of the lock still works, by its progress on this process's clock.

    One that has not moved since it was first seen may be starting, or just be slow to be seen: it gets the grace time.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self._role_seconds, self._grace_seconds = settings.role_seconds, settings.grace_seconds
        self._detector = StallDetector()
        self._first: tuple[int, int] | None = None  # process and progress at first sight
        self._has_moved = False

    def is_stalled(self, pid: int, progress: int, tick: float) -> bool:
        """Whether process *pid* stands still for too long at *progress*."""
        if self._first is None or self._first[0] != pid:
            self._first, self._has_moved = (pid, progress), False
        self._has_moved = self._has_moved or progress != self._first[1]
        seconds = self._role_seconds if self._has_moved else max(self._role_seconds, self._grace_seconds)
        return bool(self._detector.stalled([Observation(str(pid), progress, seconds)], tick))


_Find = Callable[[], tuple[str, int] | None]


class HolderWatch:
    """Looks at the holder of the lock of a store that is open for reading.

    *find* returns the name and the process of the holder, and *kill* ends one; both are replaced in simulations.
    """

    def __init__(
        self,
        store: Store,
        settings: tuple[StoreSettings, ClusterSettings],
        clock: Clock,
        envelopes: EnvelopeFactory,
        *,
        kill_hung: bool,
        report: Callable[[str], None],
        find: _Find | None = None,
        kill: Callable[[int], None] | None = None,
    ) -> None:
        self._store, (own, cluster), self._clock = store, settings, clock
        self._envelopes, self._kill_hung, self._report = envelopes, kill_hung, report
        self._find: _Find = find or partial(find_coordinator, own)
        self._kill = kill or partial(_kill_holder, self._find)
        self._stalls, self._seconds = _ProgressWatch(cluster), cluster.role_seconds
        self._hung: Raised | None = None  # the alert about the holder, while it stands still
        self._is_published = False
        self.killed: list[Event] = []  #: To be published by the coordinator that takes over: the alert and its end.

    async def run(self) -> None:
        """Look again and again.  A store that cannot be read is no sign of a hung holder."""
        while True:
            with suppress(*TRANSIENT):
                await self.look()
            await asyncio.sleep(self._seconds / _LOOKS_PER_ROLE)

    async def look(self) -> None:
        """Look once: raise the alert about a holder that stands still, or kill it; clear the alert when it goes on."""
        holder = self._find()
        if holder is None:
            return
        async with self._store.read() as view:
            progress = _progress_of(await view.roles())
        if not self._stalls.is_stalled(holder[1], progress, self._clock.tick()):
            await self._clear(holder[0])
            return
        if self._hung is None or self._hung.subject != holder[0]:
            detail = self._describe(*holder)
            self._hung = Raised(kind=_KIND, subject=holder[0], level="critical", detail=detail)
            self._is_published = False
            self._report(detail)
        if self._kill_hung:
            try:
                self._kill(holder[1])
            except OSError as error:
                self._report(f"cannot kill process {holder[1]}: {error.strerror}: end it yourself")
            else:
                self.killed += [self._hung, Cleared(kind=_KIND, subject=holder[0], detail="killed by its standby")]
                self._hung = None
                return
        if not self._is_published:
            await self._publish(self._hung)
            self._is_published = True

    async def _clear(self, holder: str) -> None:
        """Publish that *holder* works: the end of an alert, or what another standby that has taken over cannot know."""
        while self.killed:
            await self._publish(self.killed[0])
            del self.killed[0]
        if self._hung is not None and self._is_published:
            await self._publish(Cleared(kind=_KIND, subject=self._hung.subject))
        if self._hung is not None:
            self._report(f"the coordinator works again: {holder}")
            self._hung = None

    def _describe(self, name: str, pid: int) -> str:
        seen = f"the coordinator {name} is {_process_state(pid)}: it renewed no role for {self._seconds:g} s"
        if self._kill_hung:
            return f"{seen}; its standby kills it and takes over"
        return f"{seen}; its standby cannot take over while it lives: end process {pid}, or use --kill-hung"

    async def _publish(self, event: Event) -> None:
        """Publish *event* and apply it to the list of open alerts: the daemon that does this hangs with the holder."""
        async with self._store.begin() as tx:
            await alerts.apply(tx, alerts.judge(event), self._clock.now())
            await tx.append([self._envelopes.make(event, source=_SOURCE)])


def _kill_holder(find: _Find, pid: int) -> None:
    """Kill process *pid* if it still has the lock: its number may be another's by now.  Raises OSError."""
    handle = os.pidfd_open(pid)
    try:
        holder = find()
        if holder is not None and holder[1] == pid:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)


def _process_state(pid: int) -> str:
    """``stopped`` or ``hung``, for people."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "hung"
    return "stopped" if state in "tT" else "hung"


async def end_alerts(store: Store, killed: Sequence[Event], envelopes: EnvelopeFactory) -> None:
    """Publish *killed*, and that alerts about coordinators before this one are over: it has their lock."""
    async with store.begin() as tx:
        hung = [alert.subject for alert in await alerts.open_alerts(tx) if alert.kind == _KIND]
        over = [Cleared(kind=_KIND, subject=subject, detail="another coordinator has taken over") for subject in hung]
        await tx.append([envelopes.make(event, source="standby") for event in (*killed, *over)])


async def wait_for_lock(take: Callable[[], Awaitable[Store]]) -> Store:
    """What *take* returns once it raises NotLeader no more: it opens the store with its lock."""
    while True:
        with suppress(NotLeader):
            return await take()
        await asyncio.sleep(_LOCK_POLL_SECONDS)
