"""The managers of the documented orchestrator, all over the one store of this home.

None of them bypasses a gate: what they ask for waits in the queue like everything else, and the claim of a node judges
again whether it may run.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from ringrift import jobs
from ringrift.cluster.roster import NODES
from ringrift.jobs import JobFilter, Play, Train
from ringrift.kernel import variant as variants
from ringrift.kernel.ids import seed_of
from ringrift.kernel.value import changed
from ringrift.pipeline.line import LINES, Line, may_play, require_line
from ringrift.pipeline.line_settings import policy_of
from ringrift.store.ports import Reads
from ringrift.work import desk
from ringrift.work.run_states import load_run_states
from ringrift_compat.cluster.node_selector import NodeSelector, Placement
from ringrift_compat.coordinators.sqlite_persistence import SQLitePersistenceMixin
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.pipeline.pipeline_actions import request_stage
from ringrift_compat.sync.sync_planner import SyncPlanner
from ringrift_compat.types import TaskType

__all__ = ["Dispatch", "JobManager", "NodeSelector", "SelfplayScheduler", "StateManager", "SyncPlanner"]
__all__ += ["TrainingCoordinator"]
_STATE = "state"
_ARCHIVED_AT_ONCE = 1000


@dataclass(frozen=True)
class Dispatch:
    """The answer to a request, true if it was accepted: the job that waits or runs for it, or why there is none."""

    accepted: bool
    reason: str = ""
    job_id: str | None = None

    def __bool__(self) -> bool:
        return self.accepted


class StateManager(SQLitePersistenceMixin):
    """Keeps values of the orchestrator in the store, and reads the state of the cluster from it."""

    persistence_name = "p2p_state"

    def save_state(self, state: Mapping[str, Any] | None = None, **values: Any) -> None:
        """Keep these values; they are durable when this returns.  The state of the cluster itself always is.

        Raises InvalidPayload, TooLarge.
        """
        self.save_value(_STATE, {**self.load_value(_STATE, {}), **(state or {}), **values})

    def load_state(self) -> dict[str, Any]:
        """The values that were kept, and as ``nodes``, ``jobs``, ``roles`` and ``epoch`` the cluster as it is now."""
        return {**self.load_value(_STATE, {}), **embedded.query(_read_cluster)}

    def get_cluster_epoch(self) -> int:
        """The term that the cluster is in: it grows whenever a node takes a role, and never falls."""
        epoch: int = embedded.query(_read_cluster)["epoch"]
        return epoch


async def _read_cluster(view: Reads) -> dict[str, Any]:
    roles, counts = await view.roles(), await view.count_jobs()
    states = Counter[str]()
    for (_, state), count in counts.items():
        states[state] += count
    return {
        "nodes": {record.id: record.profile for record in await NODES.all(view) if not record.gone},
        "jobs": dict(states),
        "roles": {row.role: row.holder for row in roles if row.holder},
        "epoch": max((row.term for row in roles), default=0),
    }


def _name(node: object) -> str:
    """The id of a node that a caller names by its id or by an object that has one."""
    return str(getattr(node, "node_id", None) or getattr(node, "id", None) or node)


class JobManager:
    """Enqueues jobs and tidies up after them."""

    def run_gpu_selfplay_job(self, node: object, config: str, num_games: int | None = None) -> Dispatch:
        """Enqueue a batch of *config*'s champion for the GPU of *node*, unless that node cannot play it now.

        Raises UnknownName for an unknown node or a variant without a line.
        """
        return embedded.call(_play(embedded.node(), _name(node), config, num_games))

    def run_training(self, config: str, node: object = None) -> Dispatch:
        """Ask for the training of *config*; its gate answers.  With *node*, only that node may do it."""
        return embedded.call(_train(embedded.node(), config, None if node is None else _name(node)))

    def cleanup_completed_jobs(self, keep: int | None = None) -> int:
        """Move jobs that have ended to the archive, but for the newest *keep* jobs (as the settings say); how many."""
        return embedded.call(_archive(embedded.node(), keep))


async def _play(node: EmbeddedNode, target: str, config: str, games: int | None) -> Dispatch:
    variant, now = str(variants.parse(config)), node.clock.now()
    async with node.store.begin() as tx:
        line, policy = await require_line(tx, variant), await policy_of(tx, variant, node.settings.policy)
        placement = await Placement.load(tx, node.settings.work.requires)
        may = may_play(line, policy, now)
        reason = placement.obstacle(target, TaskType.GPU_SELFPLAY, now) or ("" if may.allowed else may.rule)
        if reason or line.champion is None:
            return Dispatch(False, reason)
        seed = seed_of(policy.seed, variant, "program", node.ids.next())
        job = Play(variant=variant, model=line.champion, games=games or policy.games_per_batch, node=target, seed=seed)
        [id] = await desk.enqueue(tx, [job], node.envelopes, now)
    return Dispatch(True, job_id=id)


async def _train(node: EmbeddedNode, config: str, target: str | None) -> Dispatch:
    variant = str(variants.parse(config))
    if target is not None:
        async with node.store.read() as view:
            placement = await Placement.load(view, node.settings.work.requires)
        if reason := placement.obstacle(target, TaskType.TRAINING, node.clock.now()):
            return Dispatch(False, reason)
    if (running := await _place(node, variant, target)) is not None:
        return running
    answer = await _ask(node, "train", variant)
    return (await _place(node, variant, target) if answer else None) or answer


async def _ask(node: EmbeddedNode, stage: str, variant: str) -> Dispatch:
    """Request *stage*; the answer of its gate."""
    _, _, answer = await request_stage(node, stage, variant, "requested by the orchestrator")
    if answer is None:
        return Dispatch(False, "no coordinator has answered; the request is kept")
    verdict, _ = answer
    return Dispatch(verdict.allowed, "" if verdict.allowed else verdict.rule)


async def _place(node: EmbeddedNode, variant: str, target: str | None) -> Dispatch | None:
    """Find the training job of *variant*, and give it to *target* unless it is under way; None if there is none."""
    async with node.store.begin() as tx:
        rows = [row for row in await desk.select(tx, JobFilter(variant=variant)) if row.kind == Train.kind()]
        if not rows:
            return None
        row, job = rows[0], jobs.decode(rows[0].kind, rows[0].body)
        if target in (None, job.node, row.holder):
            return Dispatch(True, job_id=row.id)
        if row.progress > 0:
            return Dispatch(True, f"it runs on node {row.holder} already", row.id)
        await desk.cancel_rows(tx, [row], node.envelopes)
        [id] = await desk.enqueue(tx, [changed(job, node=target)], node.envelopes, node.clock.now())
    return Dispatch(True, job_id=id)


async def _archive(node: EmbeddedNode, keep: int | None) -> int:
    keep, total = node.settings.store.jobs_max if keep is None else keep, 0
    while True:
        async with node.store.begin() as tx:
            count = await tx.archive_jobs(keep, _ARCHIVED_AT_ONCE)
        total += count
        if count < _ARCHIVED_AT_ONCE:
            return total


class SelfplayScheduler:
    """Says which variant a node may play next, and how many jobs it has room for.

    All variants have the same weight until there is a curriculum.
    """

    def __init__(self, rng: Random | None = None) -> None:
        self._rng = rng

    def pick_weighted_config(self, node: object = None) -> str | None:
        """A variant that can use games now and that *node* can play, each with the same chance; None if there is none.

        Raises UnknownName for an unknown node.
        """
        configs = embedded.call(_playable(embedded.node(), None if node is None else _name(node)))
        rng = self._rng or Random(seed_of(embedded.node().ids.next()))
        return rng.choice(configs) if configs else None

    def get_hybrid_job_targets(self, node: object) -> dict[str, int]:
        """How many jobs *node* shall have on its GPUs and on its cores: one for each GPU, the rest of its slots.

        Raises UnknownName for an unknown node.
        """
        return embedded.call(_targets(embedded.node(), _name(node)))


async def _playable(node: EmbeddedNode, target: str | None) -> list[str]:
    now = node.clock.now()
    async with node.store.read() as view:
        lines, states = await LINES.all(view), await load_run_states(view)
        placement = await Placement.load(view, node.settings.work.requires)
        policies = {line.variant: await policy_of(view, line.variant, node.settings.policy) for line in lines}
    if target is not None and placement.obstacle(target, TaskType.SELFPLAY, now):
        return []

    def is_playable(line: Line) -> bool:
        gates = may_play(line, policies[line.variant], now), states.verdict("pick", variant=line.variant, now=now)
        return all(gate.allowed for gate in gates) and (target is None or placement.can_run(target, line.workload))

    return [line.variant for line in lines if is_playable(line)]


async def _targets(node: EmbeddedNode, target: str) -> dict[str, int]:
    async with node.store.read() as view:
        placement = await Placement.load(view, node.settings.work.requires)
    if placement.obstacle(target, TaskType.SELFPLAY, node.clock.now()):
        return {"gpu_jobs": 0, "cpu_jobs": 0}
    record, slots = placement.nodes[target], node.settings.work.slots
    gpus = min(len(record.facts.gpus), slots)
    return {"gpu_jobs": gpus, "cpu_jobs": max(0, min(slots, record.facts.cores or record.cores or slots) - gpus)}


class TrainingCoordinator:
    """Asks for training, and for the test of what was trained."""

    def dispatch_training_job(self, config_key: str, node: object = None) -> Dispatch:
        """As :meth:`JobManager.run_training`."""
        return JobManager().run_training(config_key, node)

    def handle_training_completion(self, config_key: str) -> Dispatch:
        """Ask for the test of the candidate that was trained last: only its evidence promotes it.

        While one stage starts the next, that happens by itself.
        """
        return embedded.call(_ask(embedded.node(), "evaluate", str(variants.parse(config_key))))
