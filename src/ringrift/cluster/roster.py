"""Roster: the nodes there are, as they say themselves, and which of them have fallen silent."""

import msgspec

from ringrift.cluster.activity import Doing
from ringrift.kernel.clock import Clock
from ringrift.kernel.value import Value
from ringrift.kernel.watch import Seen, Watch
from ringrift.store.ports import Put, Store

KIND = "node"
NODES_MAX = 10_000
SILENT_BEATS = 3


class NodeRecord(Value):
    """What a node says of itself with every beat."""

    id: str
    profile: str
    address: str
    """Where its blobs can be reached."""
    beat: int
    ephemeral: bool = False
    gone: bool = False
    doing: Doing = Doing()


class Roster:
    """Reads and writes node records.  Membership is an opinion: no safety decision rests on it."""

    def __init__(self, store: Store, clock: Clock, beat_seconds: float) -> None:
        self._store, self._clock, self._beat_seconds = store, clock, beat_seconds
        self._watch = Watch()

    async def say(self, node: NodeRecord) -> None:
        """Say that *node* lives, or that it goes."""
        async with self._store.begin() as tx:
            await tx.put([Put(kind=KIND, id=node.id, body=msgspec.json.encode(node))])

    async def everyone(self) -> list[NodeRecord]:
        """Every node that ever said something."""
        async with self._store.read() as view:
            records = await view.scan(KIND, "", NODES_MAX)
        return [msgspec.json.decode(record.body, type=NodeRecord) for record in records]

    @property
    def patience_seconds(self) -> float:
        """How long a node may be silent."""
        return SILENT_BEATS * self._beat_seconds

    async def look(self) -> tuple[list[NodeRecord], set[str]]:
        """Everyone, and the ids of those who have not gone but fallen silent, on this observer's own clock."""
        everyone = await self.everyone()
        things = [Seen(name=n.id, mark=n.beat, seconds=self.patience_seconds) for n in everyone if not n.gone]
        return everyone, {thing.name for thing in self._watch.overdue(things, self._clock.tick())}

    async def present(self) -> list[NodeRecord]:
        """Nodes whose beat has moved lately, on this observer's own clock; at first sight everybody counts."""
        everyone, silent = await self.look()
        return [node for node in everyone if not node.gone and node.id not in silent]
