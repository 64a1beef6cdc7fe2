"""The documented ranking of nodes: which can do a kind of work now, the strongest and least busy first."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ringrift.cluster.liveness import stored_states
from ringrift.cluster.placement import Offer, find_misfit, load_offer, missing_workloads
from ringrift.cluster.roster import NODES, NodeRecord, NodeState
from ringrift.jobs import GAME_KINDS, STAGES
from ringrift.kernel.errors import require_name
from ringrift.kernel.settings import Requirement
from ringrift.kernel.verdict import Verdict
from ringrift.store.ports import Reads
from ringrift.work.limits import KINDS, QUARANTINES
from ringrift.work.run_states import RunStates, load_run_states
from ringrift.work.tasks import LIMITED_KINDS
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.types import TaskType

_GPU_TYPES = frozenset({TaskType.GPU_SELFPLAY, TaskType.HYBRID_SELFPLAY})
_NOT_PRESENT = (NodeState.LEFT, NodeState.LOST, NodeState.SUSPECT)


@dataclass(frozen=True)
class RankedNode:
    """A node that can do the work, with what the ranking rests on."""

    node_id: str
    gpu_memory_gb: float
    cores: int
    jobs_running: int

    @property
    def order(self) -> tuple[float, float, float, str]:
        """The smallest is the best: GPU memory, then cores, each shared with the jobs that run there."""
        shared = 1 + self.jobs_running
        return (-self.gpu_memory_gb / shared, -self.cores / shared, self.jobs_running, self.node_id)


def _kinds_of(task_type: str) -> tuple[str, ...]:
    """The kinds of job that a documented type of task is.  Raises UnknownName."""
    require_name("task type", task_type, [str(type) for type in TaskType])
    type = TaskType.SELFPLAY if task_type in _GPU_TYPES else TaskType(task_type)
    return LIMITED_KINDS.get(type.value, ())


class Placement:
    """Whether nodes can take a kind of work, as one view of the store sees it."""

    def __init__(
        self,
        nodes: Mapping[str, NodeRecord],
        offers: Mapping[str, Offer | None],
        states: Mapping[str, NodeState],
        run_states: RunStates,
        quarantines: Mapping[str, Verdict],
        requires: Mapping[str, Requirement],
    ) -> None:
        self.nodes, self._offers, self._states = nodes, offers, states
        self._run_states, self._quarantines, self._requires = run_states, quarantines, requires

    @classmethod
    async def load(cls, view: Reads, requires: Mapping[str, Requirement]) -> "Placement":
        """Read what it rests on; *requires* are the settings of that name."""
        records = await NODES.all(view)
        offers = {record.id: await load_offer(view, record.id) for record in records}
        states, run_states = await stored_states(view, records), await load_run_states(view)
        nodes = {record.id: record for record in records}
        return cls(nodes, offers, states, run_states, await QUARANTINES.scan(view), requires)

    def obstacle(self, node: str, task_type: str, now: float) -> str:
        """Why *node* cannot do *task_type* now; "" if it can.  Raises UnknownName."""
        require_name("node", node, self.nodes)
        kinds, profile, state = _kinds_of(task_type), self.nodes[node].profile, self._states[node]
        kind = kinds[0] if kinds else ""
        if state in _NOT_PRESENT:
            return f"node {node} is {state.value}"
        if kind not in KINDS.get(profile, ()):
            return f"node {node} has the profile {profile}, which does nothing of type {task_type}"
        verdict = self._run_states.verdict("rank", node=node, stage=STAGES[kind], now=now)
        if not verdict.allowed:
            return verdict.rule
        if kind in GAME_KINDS and node in self._quarantines:
            return f"node {node} is in quarantine: {self._quarantines[node].rule}"
        device: Requirement = {"device": "gpu"} if task_type in _GPU_TYPES else {}
        misfit = find_misfit(self._offers[node], {**self._requires.get(kind, {}), **device})
        return f"node {node}: {misfit}" if misfit else ""

    def can_run(self, node: str, workload: str) -> bool:
        """Whether *node* can run *workload*, by its own report."""
        return not missing_workloads(self._offers[node], [workload])


async def _rank(node: EmbeddedNode, task_type: str, among: Collection[str] | None) -> list[RankedNode]:
    async with node.store.read() as view:
        placement = await Placement.load(view, node.settings.work.requires)
    now, nodes = node.clock.now(), placement.nodes
    able = [id for id in nodes if (among is None or id in among) and not placement.obstacle(id, task_type, now)]
    return sorted((_ranked(nodes[id]) for id in able), key=lambda row: row.order)


def _ranked(record: NodeRecord) -> RankedNode:
    memory = sum(gpu.memory_bytes for gpu in record.facts.gpus) / 1e9
    jobs = len(record.activity.jobs) + record.activity.more
    return RankedNode(record.id, memory, record.facts.cores or record.cores, jobs)


class NodeSelector:
    """Ranks the nodes of this home for a kind of work.  It advises: the fit of a job is judged again at its claim."""

    def rank_nodes(self, task_type: str = TaskType.TRAINING, nodes: Sequence[str] | None = None) -> list[RankedNode]:
        """Every node that can do *task_type* now, of *nodes* or all: most GPU memory and cores for each job first.

        Raises UnknownName for a type that the documents do not have.
        """
        return embedded.call(_rank(embedded.node(), str(task_type), nodes))

    def select_best_node(
        self, task_type: str = TaskType.TRAINING, nodes: Sequence[str] | None = None
    ) -> RankedNode | None:
        """The first of :meth:`rank_nodes`; None if no node can do it."""
        return next(iter(self.rank_nodes(task_type, nodes)), None)
