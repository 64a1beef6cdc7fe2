"""Leadership: which roles this node holds, in which term, and for how long it may trust that.

One row in the store decides.  A holder renews it; everybody else watches whether the renewals move, on their own clock,
and takes the role over once they have stood still for its time.  The holder stops trusting itself earlier, and every
effect of a role names its term in its transaction, so that a holder who only slept changes nothing.
"""

from collections.abc import Sequence

from ringrift.bus.scribe import Scribe
from ringrift.events.cluster import RoleTaken
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import LeaseLost, NotLeader
from ringrift.kernel.value import Value
from ringrift.kernel.watch import Seen, Watch
from ringrift.store.ports import RoleRow, Store, Tx

TRUST = 2 / 3


class Term(Value):
    """A role held, and until which tick it may be trusted."""

    term: int
    until: float


def takeable(
    rows: Sequence[RoleRow], overdue: Sequence[str], wanted: Sequence[str]
) -> list[tuple[str, RoleRow | None]]:
    """Those of *wanted* that are free or have stood still, each with the row it may be taken over from."""
    known = {row.role: row for row in rows}
    free = [role for role in wanted if role not in known or not known[role].holder or role in overdue]
    return [(role, known.get(role)) for role in free]


class Roles:
    """The roles of one node."""

    def __init__(
        self, node: str, store: Store, clock: Clock, wanted: Sequence[str], seconds: float, *, scribe: Scribe
    ) -> None:
        self._node, self._store, self._clock, self._scribe = node, store, clock, scribe
        self._wanted, self._seconds = tuple(wanted), seconds
        self._held: dict[str, Term] = {}
        self._watch = Watch()

    def want(self, role: str) -> None:
        """Stand for *role* too, from the next election on."""
        if role not in self._wanted:
            self._wanted = (*self._wanted, role)

    def holds(self, role: str) -> bool:
        """Whether this node may act in *role* now."""
        held = self._held.get(role)
        return held is not None and self._clock.tick() < held.until

    async def check(self, role: str, tx: Tx) -> None:
        """Bind *tx* to our term of *role*: raises NotLeader, and nothing of the transaction happens, if it is over."""
        held = self._held.get(role)
        if held is None:
            raise NotLeader(role, "another node")
        await tx.under(role, held.term)

    async def elect(self) -> None:
        """Renew what we hold, take what is free, and say what we took."""
        start = self._clock.tick()  # trust counts from before the attempt: the store may have answered late
        held: dict[str, Term] = {}
        async with self._store.begin() as tx:
            for role, term in self._held.items():
                try:
                    await tx.keep(role, term.term)
                    held[role] = Term(term=term.term, until=start + TRUST * self._seconds)
                except LeaseLost:
                    continue
            rows = await tx.roles()
            others = [row for row in rows if row.holder and row.role not in held]
            things = [Seen(name=r.role, mark=(r.term << 32) + r.renewals, seconds=r.seconds) for r in others]
            overdue = [thing.name for thing in self._watch.overdue(things, start)]
            said = []
            for role, over in takeable(rows, overdue, [r for r in self._wanted if r not in held]):
                taken = await tx.hold(role, self._node, self._seconds, over)
                if taken is not None:
                    held[role] = Term(term=taken.term, until=start + TRUST * self._seconds)
                    said.append(RoleTaken(role=role, node=self._node, term=taken.term))
            await tx.append([self._scribe.wrap(event, source="elect") for event in said])
        self._held = held

    async def resign(self) -> None:
        """Give every role back, so that nobody has to wait for it."""
        self._held = {}
        async with self._store.begin() as tx:
            await tx.drop(self._node)
