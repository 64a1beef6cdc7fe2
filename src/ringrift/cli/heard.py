"""Heard: which nodes are here, for somebody who only begins to look: those whose beat moves under our eyes."""

import msgspec

from ringrift.cluster.roster import KIND as NODE
from ringrift.cluster.roster import NODES_MAX, SILENT_BEATS, NodeRecord
from ringrift.daemons.watch import LOST
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import NodeAway, UnknownName
from ringrift.kernel.value import Value
from ringrift.store.ports import Reads, Store

LOOK_SECONDS = 0.1


class Heard(Value):
    """Nodes that have not said good-bye, with what their last beat says."""

    here: tuple[NodeRecord, ...] = ()
    silent: tuple[NodeRecord, ...] = ()
    """Those that were not heard of while somebody looked, or for longer already."""
    gone: tuple[str, ...] = ()
    """The ids of those that have said good-bye."""
    seconds: float = 0.0
    """How long a node may be silent."""

    def only(self, node: str | None) -> "Heard":
        """What was heard of *node* alone, of all without one.  Raises UnknownName, and NodeAway for one that left."""
        if node is None:
            return self
        here = tuple(one for one in self.here if one.id == node)
        silent = tuple(one for one in self.silent if one.id == node)
        if node in self.gone:
            raise NodeAway(node)
        if not here and not silent:
            raise UnknownName("node", node, [one.id for one in self.here + self.silent])
        return msgspec.structs.replace(self, here=here, silent=silent)


async def look(store: Store, clock: Clock, beat_seconds: float) -> Heard:
    """Listen until every node was heard, for as long as one may be silent; who is known to be lost is not waited for.

    One beat alone may be an old one, and the wall clock of another machine says nothing.
    """
    seconds = SILENT_BEATS * beat_seconds
    end = clock.tick() + seconds
    first: dict[str, int] | None = None
    while True:
        async with store.read() as view:
            known, lost = await _known(view)
        staying = [node for node in known if not node.gone]
        beats = {node.id: node.beat for node in staying}
        # One that joins while we look has just been heard.
        first = beats if first is None else {id: first.get(id, -1) for id in beats}
        silent = [node for node in staying if node.beat == first[node.id]]
        if clock.tick() >= end or all(lost.get(node.id) == node.beat for node in silent):
            return Heard(
                here=tuple(node for node in staying if node not in silent), silent=tuple(silent),
                gone=tuple(node.id for node in known if node.gone), seconds=seconds,
            )  # fmt: skip
        await store.wait(None, LOOK_SECONDS)


async def _known(view: Reads) -> tuple[list[NodeRecord], dict[str, int]]:
    """Every node that ever said something, and the last beat of those that are written down as lost."""
    nodes = [msgspec.json.decode(one.body, type=NodeRecord) for one in await view.scan(NODE, "", NODES_MAX)]
    return nodes, {one.id: int(one.body) for one in await view.scan(LOST, "", NODES_MAX)}
