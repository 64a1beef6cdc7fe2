"""Roles that one program at a time holds, as leases of the store that its process renews.

A role is free again when its holder releases it, when its process is gone, or when its renewals have stood still for
their time on the observer's own clock.  Beside the lease a record names the holder, for people and for that check.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from ringrift.kernel.clock import Clock
from ringrift.kernel.value import Value
from ringrift.store.ports import Reads, RoleRow, Store
from ringrift.store.records import Records
from ringrift.store.roles import ROLE_PREFIX, RoleLeases
from ringrift.work.processes import Process, is_gone
from ringrift_compat.tasks.task_limits import copy_metadata

_SECONDS = 90.0
"""How long a holder may go without a renewal."""
log = logging.getLogger(__name__)


class _RoleHolder(Value):
    """The holder of a role, since when, and its own metadata."""

    role: str
    holder: str
    process: Process
    node: str
    since: float
    metadata: dict[str, Any] = {}


_HOLDERS = Records("role_holder", _RoleHolder, id="role")


def _is_free(
    row: RoleRow | None, holder: _RoleHolder | None, *, late: Collection[str], has_died: Callable[[Process], bool]
) -> bool:
    """Whether a role may be taken: it has no holder, or its holder has died or is *late*.

    A row without a holder is no proof, for a coordinator that starts frees every row: a release deletes the record too.
    """
    if row is None or row.role in late:
        return True
    if holder is not None and (holder.holder == row.holder or not row.holder):
        return has_died(holder.process)
    return not row.holder


class ProgramRoles:
    """The roles of one process."""

    def __init__(self, store: Store, clock: Clock, process: Process, node: str, *, seconds: float = _SECONDS) -> None:
        self._store, self._clock, self._process, self._node = store, clock, process, node
        self._leases = RoleLeases(clock, seconds)
        self._lock = asyncio.Lock()
        """Two calls that take, renew or release one role at once would mix up its terms."""

    def holds(self, role: str) -> bool:
        """Whether this process may act in *role* now."""
        return self._leases.holds(ROLE_PREFIX + role)

    def current(self) -> list[str]:
        """The roles that this process may act in now."""
        return [role.removeprefix(ROLE_PREFIX) for role in self._leases.roles() if self._leases.holds(role)]

    async def take(self, role: str, *, force: bool = False, metadata: Mapping[str, Any] | None = None) -> bool:
        """Hold *role*; False if another process does.  With *force* it is taken from that one."""
        metadata = copy_metadata(metadata or {})
        async with self._lock:
            start, leases, name = self._clock.tick(), self._leases, ROLE_PREFIX + role
            async with self._store.begin() as tx:
                if (term := await leases.renew(tx, name)) is not None:
                    leases.trust(name, term, start)
                    return True
                rows, holder = await _program_rows(tx), await _HOLDERS.get(tx, role)
                is_ours = holder is not None and holder.process == self._process
                late = leases.stalled(rows.values(), start)
                if not (force or is_ours or _is_free(rows.get(name), holder, late=late, has_died=self._has_died)):
                    return False
                row = await leases.take(tx, name, self._holder_name(role), rows.get(name))
                if row is None:
                    return False
                now = self._clock.now()
                holder = _RoleHolder(role=role, holder=row.holder, process=self._process, node=self._node, since=now)
                await _HOLDERS.put(tx, [msgspec.structs.replace(holder, metadata=metadata)])
            leases.trust(name, row.term, start)
            return True

    async def renew(self) -> list[str]:
        """Renew our roles and observe those of others; the roles that were lost."""
        async with self._lock:
            start, leases, lost = self._clock.tick(), self._leases, []
            async with self._store.begin() as tx:
                terms = {name: await leases.renew(tx, name) for name in leases.roles()}
                leases.stalled((await _program_rows(tx)).values(), start)
            for name, term in terms.items():
                role = name.removeprefix(ROLE_PREFIX)
                if term is not None:
                    leases.trust(name, term, start)
                elif await self._retake(role, start):
                    log.warning("role %s was freed by another process and has been taken again", role)
                else:
                    leases.drop(name)
                    lost.append(role)
            return lost

    async def _retake(self, role: str, start: float) -> bool:
        """Take a role again whose row was freed while we held it, if no other process has it."""
        async with self._store.begin() as tx:
            row, holder = (await _program_rows(tx)).get(ROLE_PREFIX + role), await _HOLDERS.get(tx, role)
            if row is None or row.holder or holder is None or holder.process != self._process:
                return False
            new_row = await self._leases.take(tx, row.role, self._holder_name(role), row)
        if new_row is not None:
            self._leases.trust(row.role, new_row.term, start)
        return new_row is not None

    async def release(self, role: str) -> bool:
        """Release *role*; whether we held it."""
        async with self._lock, self._store.begin() as tx:
            if not self._leases.drop(ROLE_PREFIX + role):
                return False
            holder = await _HOLDERS.get(tx, role)
            if holder is None or holder.holder != self._holder_name(role):
                return False
            await tx.release_roles(holder.holder)
            await _HOLDERS.delete(tx, [role])
        return True

    async def close(self) -> None:
        """Release every role, so that no other process has to wait for it."""
        for name in self._leases.roles():
            await self.release(name.removeprefix(ROLE_PREFIX))

    def _has_died(self, process: Process) -> bool:
        return is_gone(process, self._process.host)

    def _holder_name(self, role: str) -> str:
        """The name of a holder of one role only, so that releasing one role keeps the others."""
        return f"{self._node}/{self._process.pid}/{self._process.mark}/{role}"


async def _program_rows(view: Reads) -> dict[str, RoleRow]:
    return {row.role: row for row in await view.roles() if row.role.startswith(ROLE_PREFIX)}
