"""The nodes of the cluster: the record that each writes with its heartbeat, and which nodes have fallen silent."""

from ringrift.cluster.activity import Activity
from ringrift.kernel.clock import Clock
from ringrift.kernel.stall_detector import Observation, StallDetector
from ringrift.kernel.value import Value
from ringrift.store.ports import Reads, Store
from ringrift.store.records import Records

SILENT_BEATS = 3  # heartbeats that a node may miss before it counts as silent


class NodeRecord(Value):
    """The report of a node about itself, with each heartbeat."""

    id: str
    profile: str
    address: str  # where its blobs can be reached
    beat: int  # milliseconds on the monotonic clock of its machine
    wall: float = 0.0  # seconds that its wall clock is ahead of its monotonic one: a step shows
    pid: int = 0  # its process
    machine: str = ""  # nodes of one machine share its cores
    cores: int = 0  # that it may use
    ephemeral: bool = False
    gone: bool = False  # whether it has left in good order
    activity: Activity = Activity()


NODES = Records("node", NodeRecord, id="id", limit=10_000)


class Roster:
    """Reads and writes node records.  Membership is an opinion: no safety decision rests on it."""

    def __init__(self, store: Store, clock: Clock, beat_seconds: float) -> None:
        self._store, self._clock, self._beat_seconds = store, clock, beat_seconds
        self._detector = StallDetector()

    async def put(self, node: NodeRecord) -> None:
        async with self._store.begin() as tx:
            await NODES.put(tx, [node])

    async def all_nodes(self) -> list[NodeRecord]:
        async with self._store.read() as view:
            return await NODES.all(view)

    @property
    def silent_seconds_max(self) -> float:
        return SILENT_BEATS * self._beat_seconds

    async def survey(self, view: Reads | None = None) -> tuple[list[NodeRecord], set[str]]:
        """All nodes, and the ids of those that are silent and have not left, on this observer's own clock."""
        nodes, seconds = await (self.all_nodes() if view is None else NODES.all(view)), self.silent_seconds_max
        observations = [Observation(name=n.id, counter=n.beat, seconds=seconds) for n in nodes if not n.gone]
        return nodes, {node.name for node in self._detector.stalled(observations, self._clock.tick())}

    async def present(self, view: Reads | None = None) -> list[NodeRecord]:
        """Nodes whose beat has moved lately, on this observer's own clock; at first sight every node counts."""
        nodes, silent = await self.survey(view)
        return [node for node in nodes if not node.gone and node.id not in silent]
