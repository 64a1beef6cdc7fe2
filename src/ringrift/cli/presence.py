"""Presence: which nodes are running, for an observer that has just begun to look: those whose beat it sees move."""

from collections.abc import Iterable

from ringrift.cluster.liveness import LOST_NODES
from ringrift.cluster.roster import NODES, SILENT_BEATS, NodeRecord
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import NodeAway, require_name
from ringrift.kernel.value import Value, changed
from ringrift.store.follow import wait_for
from ringrift.store.ports import Reads, Store


class Presence(Value):
    """The nodes that have not left, with their last reports."""

    present: tuple[NodeRecord, ...] = ()
    silent: tuple[NodeRecord, ...] = ()  # nodes whose beat did not move while we looked, or that were lost before
    departed: tuple[str, ...] = ()  # the ids of nodes that have left in good order
    seconds: float = 0.0  # how long a node may be silent

    def only(self, node: str | None) -> "Presence":
        """The presence of *node* alone; of all nodes for None.  Raises UnknownName, or NodeAway if it has left."""
        if node is None:
            return self
        if node in self.departed:
            raise NodeAway(node)
        require_name("node", node, [record.id for record in self.present + self.silent])
        present, silent = (tuple(row for row in rows if row.id == node) for rows in (self.present, self.silent))
        return changed(self, present=present, silent=silent)


def disabled_lines(nodes: Iterable[NodeRecord]) -> list[str]:
    """A line for each of *nodes* that has not left and has daemons that its settings forbid to start."""
    remedy = "take them out of node.disabled_daemons, set RINGRIFT_EXTRACTED_LOOPS=true, and start the node again"
    disabled = {node.id: node.activity.daemons.disabled for node in nodes if not node.gone}
    return [f"off by settings on node {id}: {', '.join(names)} ({remedy})" for id, names in disabled.items() if names]


async def observe(store: Store, clock: Clock, beat_seconds: float) -> Presence:
    """Wait until the beat of every node has moved, or for as long as a node may be silent.

    One beat alone may be an old one, and wall clocks of other machines prove nothing.  Lost nodes are not waited for.
    """
    seconds = SILENT_BEATS * beat_seconds
    first: dict[str, int] | None = None
    presence = Presence()

    async def everyone_moved(view: Reads) -> Presence | None:
        nonlocal first, presence
        nodes = list((await NODES.scan(view)).values())
        lost = await LOST_NODES.scan(view)
        staying = [node for node in nodes if not node.gone]
        # The beat of a node that joins while we look has moved.
        first = {node.id: node.beat if first is None else first.get(node.id, -1) for node in staying}
        silent = tuple(node for node in staying if node.beat == first[node.id])
        present = tuple(node for node in staying if node not in silent)
        departed = tuple(node.id for node in nodes if node.gone)
        presence = Presence(present=present, silent=silent, departed=departed, seconds=seconds)
        return presence if all(lost.get(node.id) == node.beat for node in silent) else None

    await wait_for(store, everyone_moved, clock, seconds)
    return presence
