"""The peers that are present and what they have ready, in memory: every fetch of every worker asks."""

from collections.abc import Sequence

from ringrift.cluster.peers import PEERS, PeerRecord
from ringrift.cluster.roster import NodeState, Roster
from ringrift.coordinator.sources import Sources
from ringrift.kernel.clock import Clock
from ringrift.pipeline.line import LINES
from ringrift.pipeline.prefetch import wanted_models
from ringrift.store.ports import Store
from ringrift.work.limits import QUARANTINES

_SECONDS = 2.0
_AWAY = frozenset({NodeState.LOST, NodeState.LEFT})


class PeerTable:
    """At most _SECONDS out of date, but for what this process was told itself."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._read = clock, float("-inf")
        self.sources = Sources(clock)
        self.rows: dict[str, PeerRecord] = {}
        self.models: Sequence[str] = ()  #: Models that every node that plays should have, the rarest first.

    async def refresh(self, store: Store, roster: Roster) -> None:
        """Read the store, unless that was done a moment ago.  A node in quarantine is nobody's source."""
        if self._clock.tick() - self._read < _SECONDS:
            return
        self._read = self._clock.tick()
        async with store.read() as view:
            rows, lines, quarantines = await PEERS.scan(view), await LINES.all(view), await QUARANTINES.scan(view)
        states = roster.judge(await roster.all_beats())
        away = {node for node in rows if states.get(node, NodeState.LEFT) in _AWAY}
        self.rows = {node: row for node, row in rows.items() if node not in away and node not in quarantines}
        self.models = wanted_models(lines, self.rows.values())

    async def put(self, row: PeerRecord, store: Store) -> None:
        """Store *row* if it says something new."""
        if self.rows.get(row.node) != row:
            async with store.begin() as tx:
                await PEERS.put(tx, [row])
            self.rows[row.node] = row
