"""The nodes of the cluster: the record that each writes with its heartbeat, and which nodes have fallen silent."""

from collections.abc import Collection, Sequence
from enum import StrEnum

from ringrift.cluster.activity import Activity
from ringrift.cluster.facts import NodeFacts
from ringrift.kernel.clock import Clock
from ringrift.kernel.value import Value, changed
from ringrift.store.ports import Reads, Store
from ringrift.store.records import Records

SILENT_BEATS = 3  # heartbeats that a node may miss before it counts as silent, and is lost
_SUSPECT_BEATS = 2  # heartbeats that it misses before it is suspected


class NodeBeat(Value):
    """The part of a node's record that shows whether it lives: of thousands it is read in milliseconds."""

    id: str
    beat: int  # milliseconds on the monotonic clock of its machine
    boot: str = ""  # of its process: another one means that it was started again
    ephemeral: bool = False
    gone: bool = False  # whether it has left in good order


class NodeRecord(NodeBeat):
    """The report of a node about itself, with each heartbeat."""

    profile: str
    address: str  # where its blobs can be reached; empty: they cannot
    wall: float = 0.0  # seconds that its wall clock is ahead of its monotonic one: a step shows
    pid: int = 0  # its process
    machine: str = ""  # nodes of one machine share its cores
    cores: int = 0  # that it may use
    activity: Activity = Activity()
    facts: NodeFacts = NodeFacts()
    labels: dict[str, str] = {}  # its own, for jobs to ask for; those of an operator are stored apart and win
    joined: float = 0.0  # when that process joined, by the wall clock, for people

    @property
    def has_files(self) -> bool:
        """Whether others reach its files; a worker of another machine has copies only, which no ledger lists."""
        return bool(self.address)


NODES = Records("node", NodeRecord, id="id", limit=10_000)
_BEATS = Records("node", NodeBeat, id="id", limit=10_000)


class GossipInvite(Value):
    """What a node needs to take part in gossip: the key of its packets, and the port of the coordinator."""

    key: bytes
    port: int


class NodeState(StrEnum):
    """The opinion about a node.  No safety rests on it: leases expire as ever."""

    STARTING = "starting"  # it has not reported since it or its observer was started
    ALIVE = "alive"
    SUSPECT = "suspect"
    LOST = "lost"
    LEFT = "left"  # in good order


class _Limits(Value):
    """How long a node may be silent, and how long nothing is suspected after a start of either side."""

    beat_seconds: float
    grace_seconds: float = 0.0

    @property
    def lost_seconds(self) -> float:
        return SILENT_BEATS * self.beat_seconds

    @property
    def suspect_seconds(self) -> float:
        return _SUSPECT_BEATS * self.beat_seconds


class _Sighting(Value):
    """What an observer has seen of a node, in ticks of its own clock."""

    beat: int
    boot: str
    moved: float  # when its beat was last seen to move; when it was first seen, if never
    began: float  # when the later one of the node and its observer was started, as far as this observer knows
    reported: bool  # whether its beat has moved since

    def after(self, record: NodeBeat, tick: float) -> "_Sighting":
        """The sighting once *record* was read at *tick*."""
        seen = self
        if record.boot != self.boot:
            seen = changed(seen, boot=record.boot, began=tick, reported=False)
        if record.beat != self.beat:
            seen = changed(seen, beat=record.beat, moved=tick, reported=True)
        return seen


def _judge(record: NodeBeat, sighting: _Sighting, limits: _Limits, tick: float, *, doubted: bool = False) -> NodeState:
    """The state of *record*.  Silence within the grace does not count.

    *doubted*: other nodes do not reach it either.  That makes a suspect lost at once, and nothing else: a node whose
    beat moves is alive, whatever others think.
    """
    if record.gone:
        return NodeState.LEFT
    silence = tick - max(sighting.moved, sighting.began + limits.grace_seconds)
    if silence >= (limits.suspect_seconds if doubted else limits.lost_seconds):
        return NodeState.LOST
    if silence >= limits.suspect_seconds:
        return NodeState.SUSPECT
    is_starting = limits.grace_seconds and not sighting.reported
    return NodeState.STARTING if is_starting else NodeState.ALIVE


class Roster:
    """Reads and writes node records.  Membership is an opinion: no safety decision rests on it."""

    def __init__(self, store: Store, clock: Clock, beat_seconds: float, grace_seconds: float = 0.0) -> None:
        self._store, self._clock = store, clock
        self._limits = _Limits(beat_seconds=beat_seconds, grace_seconds=grace_seconds)
        self._sightings: dict[str, _Sighting] | None = None
        self.doubted: Collection[str] = ()  # nodes that gossip holds for dead
        self.invite: GossipInvite | None = None  # to the gossip, for nodes that send heartbeats

    async def put(self, node: NodeRecord) -> None:
        async with self._store.begin() as tx:
            await NODES.put(tx, [node])

    async def all_nodes(self) -> list[NodeRecord]:
        async with self._store.read() as view:
            return await NODES.all(view)

    @property
    def silent_seconds_max(self) -> float:
        return self._limits.lost_seconds

    @property
    def suspect_seconds(self) -> float:
        return self._limits.suspect_seconds

    def lost_seconds(self, node: str) -> float:
        """After how much silence *node* is lost: sooner if other nodes do not reach it either."""
        return self._limits.suspect_seconds if node in self.doubted else self._limits.lost_seconds

    async def survey(self, view: Reads | None = None) -> tuple[list[NodeRecord], set[str]]:
        """All nodes, and the ids of those that are silent and have not left, on this observer's own clock.

        For choosing a node to work with: a start of either side gives no grace.
        """
        nodes = await (self.all_nodes() if view is None else NODES.all(view))
        sightings, tick = self._look(nodes), self._clock.tick()
        ids = [node.id for node in nodes if not node.gone]
        return nodes, {id for id in ids if tick - sightings[id].moved >= self._limits.lost_seconds}

    async def present(self, view: Reads | None = None) -> list[NodeRecord]:
        """Nodes whose beat has moved lately, on this observer's own clock; at first sight every node counts."""
        nodes, silent = await self.survey(view)
        return [node for node in nodes if not node.gone and node.id not in silent]

    async def all_beats(self) -> list[NodeBeat]:
        """Of every node what shows whether it lives."""
        async with self._store.read() as view:
            return await _BEATS.all(view)

    def judge(self, nodes: Sequence[NodeBeat]) -> dict[str, NodeState]:
        """The state of each of *nodes*, by what this observer has seen of them so far and sees now."""
        sightings, tick = self._look(nodes), self._clock.tick()
        return {
            node.id: _judge(node, sightings[node.id], self._limits, tick, doubted=node.id in self.doubted)
            for node in nodes
        }

    def _look(self, nodes: Sequence[NodeBeat]) -> dict[str, _Sighting]:
        """What this observer has seen of *nodes* up to now."""
        tick, before = self._clock.tick(), self._sightings
        sightings = {}
        for node in nodes:
            # A node that is first seen later than the others has come since, so its beat is a report.
            new = _Sighting(beat=node.beat, boot=node.boot, moved=tick, began=tick, reported=before is not None)
            sightings[node.id] = before[node.id].after(node, tick) if before and node.id in before else new
        self._sightings = sightings
        return sightings
