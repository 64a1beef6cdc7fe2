"""Leadership: which roles this node holds and stands for."""

from collections import Counter
from collections.abc import Sequence

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.served import SERVED
from ringrift.events.cluster import RoleTaken
from ringrift.kernel.clock import Clock
from ringrift.kernel.value import Value
from ringrift.store.ports import Reads, RoleRow, Store, Tx
from ringrift.store.roles import ROLE_PREFIX, RoleLeases


class Leader(Value):
    """The node that leads, empty if none does, and its addresses."""

    node: str = ""
    addresses: tuple[str, ...] = ()


async def find_leader(view: Reads) -> Leader:
    """The node that holds the roles of nodes, most of them if they are spread, and where it serves."""
    holders = Counter(row.holder for row in await view.roles() if row.holder and not row.role.startswith(ROLE_PREFIX))
    if not holders:
        return Leader()
    node = max(sorted(holders), key=holders.__getitem__)
    address = await SERVED.get(view, node)
    return Leader(node=node, addresses=(address,) if address else ())


def _available_roles(
    rows: Sequence[RoleRow], stalled: Sequence[str], candidates: Sequence[str]
) -> list[tuple[str, RoleRow | None]]:
    """Those of *candidates* that are free or were not renewed, each with the row that it is taken over from."""
    by_role = {row.role: row for row in rows}
    free = [role for role in candidates if role not in by_role or not by_role[role].holder or role in stalled]
    return [(role, by_role.get(role)) for role in free]


def _taken(lease: RoleRow, row: RoleRow | None) -> RoleTaken:
    """The event that *lease* was taken over from *row*, or for the first time."""
    before = row.holder if row else ""
    reason = "first" if row is None else "expired" if before else "released"
    return RoleTaken(role=lease.role, node=lease.holder, term=lease.term, before=before, reason=reason)


class Roles:
    """The roles of one node."""

    def __init__(
        self, node: str, store: Store, clock: Clock, roles: Sequence[str], seconds: float, *, envelopes: EnvelopeFactory
    ) -> None:
        self._node, self._store, self._clock, self._envelopes = node, store, clock, envelopes
        self._candidates = tuple(roles)
        self._leases = RoleLeases(clock, seconds)
        self.holds = self._leases.holds

    def stand_for(self, role: str) -> None:
        """Stand for *role* too, from the next election on."""
        if role not in self._candidates:
            self._candidates = (*self._candidates, role)

    async def check(self, role: str, tx: Tx) -> None:
        """Bind *tx* to our term of *role*: raises NotLeader, and nothing of the transaction happens, if it is over."""
        await self._leases.require(tx, role)

    async def elect(self) -> None:
        """Renew the roles of this node, take those that are free, and publish what was taken."""
        start, leases = self._clock.tick(), self._leases
        events = []
        async with self._store.begin() as tx:
            terms = {role: term for role in leases.roles() if (term := await leases.renew(tx, role)) is not None}
            rows = await tx.roles()
            stalled = leases.stalled([row for row in rows if row.holder and row.role not in terms], start)
            for role, row in _available_roles(rows, stalled, [r for r in self._candidates if r not in terms]):
                lease = await leases.take(tx, role, self._node, row)
                if lease is not None:
                    terms[role] = lease.term
                    events.append(_taken(lease, row))
            await tx.append([self._envelopes.make(event, source="elect") for event in events])
        self._drop_all()
        for role, term in terms.items():
            leases.trust(role, term, start)

    async def resign(self) -> tuple[str, ...]:
        """Release every role, so that no other node has to wait for it; the roles that it held."""
        roles = tuple(role for role in self._leases.roles() if self.holds(role))
        self._drop_all()
        async with self._store.begin() as tx:
            await tx.release_roles(self._node)
        return roles

    def _drop_all(self) -> None:
        for role in self._leases.roles():
            self._leases.drop(role)
