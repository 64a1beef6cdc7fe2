"""The one way to hold a role: a lease in the store, with a term that grows at each change of holder.

One row in the store decides.  The holder renews it; every other process observes on its own clock whether the renewals
move, and takes the role over once they have stood still for its time.  The holder stops relying on it earlier, and
every effect of a role names its term in its transaction, so that a holder that was only paused changes nothing.
"""

from collections.abc import Iterable

from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import LeaseLost, NotLeader
from ringrift.kernel.stall_detector import Observation, StallDetector
from ringrift.store.ports import RoleRow, Tx

ROLE_PREFIX = "program."  # begins the name of every role that programs hold, beside those of nodes
_TRUST = 2 / 3  # the share of a role's seconds for which its holder relies on it


class RoleLeases:
    """The roles that one process holds, each for *seconds* after its last renewal."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._terms: dict[str, tuple[int, float]] = {}
        self._detector = StallDetector()

    def holds(self, role: str) -> bool:
        """Whether this process may act in *role* now."""
        return role in self._terms and self._clock.tick() < self._terms[role][1]

    def roles(self) -> list[str]:
        """The roles that were taken and not yet dropped; some may have been lost since."""
        return list(self._terms)

    async def require(self, tx: Tx, role: str) -> None:
        """Bind *tx* to our term of *role*: raises NotLeader, and nothing of the transaction happens, if it is over."""
        if role not in self._terms:
            raise NotLeader(role, "another node")
        await tx.require_role(role, self._terms[role][0])

    async def renew(self, tx: Tx, role: str) -> int | None:
        """Renew *role* in *tx*; its term if it is still ours."""
        if role not in self._terms:
            return None
        try:
            await tx.renew_role(role, self._terms[role][0])
        except LeaseLost:
            return None
        return self._terms[role][0]

    async def take(self, tx: Tx, role: str, holder: str, row: RoleRow | None) -> RoleRow | None:
        """Take *role* over from *row*; None if another process was faster."""
        return await tx.hold_role(role, holder, self._seconds, row)

    def trust(self, role: str, term: int, start: float) -> None:
        """Rely on *term* after its transaction, from *start* on, the tick before: the store may have answered late."""
        self._terms[role] = (term, start + _TRUST * self._seconds)

    def drop(self, role: str) -> bool:
        """Forget *role*; whether it was ours."""
        return self._terms.pop(role, None) is not None

    def stalled(self, rows: Iterable[RoleRow], tick: float) -> list[str]:
        """The roles of *rows* that were not renewed for their time, as this process has observed."""
        observations = [Observation(name=r.role, counter=(r.term << 32) + r.renewals, seconds=r.seconds) for r in rows]
        return [stalled.name for stalled in self._detector.stalled(observations, tick)]
