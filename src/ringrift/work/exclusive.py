"""Exclusive: roles that one process at a time holds, as leases of the store that its process renews.

A role is free again when its holder gives it back, when its process is gone, or when its renewals have stood still for
their time on the observer's own clock.  Beside the lease a record tells who it is, for people and for that check.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import LeaseLost
from ringrift.kernel.value import Value
from ringrift.kernel.watch import Seen, Watch
from ringrift.store.ports import Put, Reads, RoleRow, Store, Tx
from ringrift.work.processes import Process, is_gone
from ringrift.work.tasks import plain

KIND = "role_holder"
PREFIX = "program."
"""Begins the name of every role that programs hold, beside those of nodes."""
SECONDS = 90.0
"""How long a holder may stand still."""
TRUST = 2 / 3
log = logging.getLogger(__name__)


class Holding(Value):
    """Who holds a role, since when, and what it says of itself."""

    role: str
    holder: str
    process: Process
    node: str
    since: float
    metadata: dict[str, Any] = {}


class Held(Value):
    """A role of ours: its term, and until which tick we may trust that."""

    term: int
    until: float


def is_free(
    row: RoleRow | None, told: Holding | None, *, late: Collection[str], gone: Callable[[Process], bool]
) -> bool:
    """Whether a role may be taken: nobody holds it, or who does is *gone* or *late*.

    A row without a holder is no proof, for a coordinator that starts frees every row: who gave it back took its record
    away as well.
    """
    if row is None or row.role in late:
        return True
    if told is not None and (told.holder == row.holder or not row.holder):
        return gone(told.process)
    return not row.holder


class Exclusive:
    """The roles of one process."""

    def __init__(self, store: Store, clock: Clock, me: Process, node: str, *, seconds: float = SECONDS) -> None:
        self._store, self._clock, self._me, self._node, self._seconds = store, clock, me, node, seconds
        self._held: dict[str, Held] = {}
        self._watch = Watch()
        self._lock = asyncio.Lock()
        """Two who take, renew or give one role at once would mix up its terms."""

    def holds(self, role: str) -> bool:
        """Whether this process may act in *role* now."""
        held = self._held.get(role)
        return held is not None and self._clock.tick() < held.until

    def held(self) -> list[str]:
        """The roles that this process has."""
        return [role for role in self._held if self.holds(role)]

    async def take(self, role: str, *, force: bool = False, metadata: Mapping[str, Any] | None = None) -> bool:
        """Hold *role*; False if another process does.  With *force* it is taken from whoever holds it."""
        notes = plain(metadata or {})
        async with self._lock:
            return await self._take(role, force, notes)

    async def _take(self, role: str, force: bool, notes: dict[str, Any]) -> bool:
        start = self._clock.tick()
        async with self._store.begin() as tx:
            if await self._kept(tx, role):
                self._trust(role, self._held[role].term, start)
                return True
            rows = {row.role: row for row in await tx.roles() if row.role.startswith(PREFIX)}
            row, told = rows.get(PREFIX + role), await _told(tx, role)
            mine = told is not None and told.process == self._me
            late = self._late(rows.values(), start)
            if not (force or mine or is_free(row, told, late=late, gone=self._gone)):
                return False
            taken = await tx.hold(PREFIX + role, self._name(role), self._seconds, row)
            if taken is None:
                return False
            body = Holding(
                role=role, holder=taken.holder, process=self._me, node=self._node, since=self._clock.now(),
                metadata=notes,
            )  # fmt: skip
            await tx.put([Put(kind=KIND, id=role, body=msgspec.json.encode(body))])
        self._trust(role, taken.term, start)
        return True

    async def renew(self) -> list[str]:
        """Renew what we hold and look at what others do; the roles that were lost."""
        async with self._lock:
            return await self._renew()

    async def _renew(self) -> list[str]:
        start, lost = self._clock.tick(), []
        async with self._store.begin() as tx:
            kept = {role: await self._kept(tx, role) for role in self._held}
            self._late([row for row in await tx.roles() if row.role.startswith(PREFIX)], start)
        for role, ours in kept.items():
            if ours:
                self._trust(role, self._held[role].term, start)
            elif await self._again(role, start):
                log.warning("role %s was freed by somebody else and has been taken again", role)
            else:
                self._held.pop(role, None)
                lost.append(role)
        return lost

    async def _again(self, role: str, start: float) -> bool:
        """Take a role again whose row was freed while we held it, if nobody else has it."""
        async with self._store.begin() as tx:
            row = next((row for row in await tx.roles() if row.role == PREFIX + role), None)
            told = await _told(tx, role)
            if row is None or row.holder or told is None or told.process != self._me:
                return False
            taken = await tx.hold(row.role, self._name(role), self._seconds, row)
        if taken is not None:
            self._trust(role, taken.term, start)
        return taken is not None

    async def give(self, role: str) -> bool:
        """Give *role* back; whether we held it."""
        async with self._lock, self._store.begin() as tx:
            if self._held.pop(role, None) is None:
                return False
            told = await _told(tx, role)
            if told is None or told.holder != self._name(role):
                return False
            await tx.drop(told.holder)
            await tx.delete(KIND, [role])
        return True

    async def close(self) -> None:
        """Give everything back, so that nobody has to wait for it."""
        for role in tuple(self._held):
            await self.give(role)

    async def holder(self, role: str) -> Holding | None:
        """Who holds *role* now; None if it may be taken."""
        start = self._clock.tick()
        async with self._store.read() as view:
            rows = {row.role: row for row in await view.roles() if row.role.startswith(PREFIX)}
            told = await _told(view, role)
        late = self._late(rows.values(), start)
        return None if is_free(rows.get(PREFIX + role), told, late=late, gone=self._gone) else told

    async def _kept(self, tx: Tx, role: str) -> bool:
        """Whether *role* is ours still; then it is renewed."""
        held = self._held.get(role)
        if held is None:
            return False
        try:
            await tx.keep(PREFIX + role, held.term)
        except LeaseLost:
            return False
        return True

    def _trust(self, role: str, term: int, start: float) -> None:
        """We hold *role*; that counts from before the attempt, for the store may have answered late."""
        self._held[role] = Held(term=term, until=start + TRUST * self._seconds)

    def _late(self, rows: Collection[RoleRow], tick: float) -> list[str]:
        things = [Seen(name=row.role, mark=(row.term << 32) + row.renewals, seconds=row.seconds) for row in rows]
        return [thing.name for thing in self._watch.overdue(things, tick)]

    def _gone(self, process: Process) -> bool:
        return is_gone(process, self._me.host)

    def _name(self, role: str) -> str:
        """A holder of one role only, so that giving one back leaves the others."""
        return f"{self._node}/{self._me.pid}/{self._me.mark}/{role}"


async def _told(view: Reads, role: str) -> Holding | None:
    body = (await view.get(KIND, [role])).get(role)
    return None if body is None else msgspec.json.decode(body, type=Holding)
