"""The managers of the documented orchestrator: state, jobs, self-play, nodes and training on one store."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from compat.beats import put_in_quarantine, run
from compat.cluster_scene import facts, open_line, present
from compat.subscribers import QUICK, home
from ringrift import jobs
from ringrift.cluster.activity import Activity
from ringrift.cluster.liveness import LOST_NODES
from ringrift.jobs import Play, Train
from ringrift.kernel.errors import UnknownName
from ringrift.pipeline.line import Stage
from ringrift.store.ports import JobRow, Renewal
from ringrift.work.desk import Done, StoreDesk
from ringrift.work.run_states import set_run_state
from ringrift_compat.cluster import managers
from ringrift_compat.cluster.managers import JobManager, SelfplayScheduler, StateManager, TrainingCoordinator
from ringrift_compat.cluster.node_selector import NodeSelector
from ringrift_compat.cluster.orchestrator import P2POrchestrator
from ringrift_compat.embedded_node import embedded
from ringrift_compat.pipeline.pipeline_actions import trigger_training
from unit.pipeline.story import VARIANT, blob
from wait import until

__all__ = ["home"]
STATES = ("ready", "claimed", "done", "dead", "cancelled")
FAKE = QUICK + '\n[work]\nworkload = "fake"\nslots = 4\n[policy]\ngames_per_batch = 4\n[replicas]\ncopies_min = 1\n'


@pytest.fixture(autouse=True)
def fake(home: Path) -> None:
    """The quick stand-in plays."""
    (home / "ringrift.toml").write_text(FAKE)


def rows(*states: str) -> Sequence[JobRow]:
    """The jobs in *states*, or all."""
    return embedded.query(lambda view: view.jobs(states or STATES, 100))


def set_state(scope: str, state: str) -> None:
    """Set a run state, as a person does."""
    node = embedded.node()

    async def write() -> None:
        async with node.store.begin() as tx:
            await set_run_state(tx, node.envelopes, scope=scope, state=state, reason="r", by="me", now=node.clock.now())

    run(write())


def desk() -> StoreDesk:
    """The desk of a node beside this program."""
    node = embedded.node()
    return StoreDesk(node.store, node.clock, node.envelopes, node.settings.work)


# -- state -------------------------------------------------------------------------------------------------------------


def test_state_outlives_the_program_and_the_cluster_is_always_as_it_is() -> None:
    """Values come back after a restart; nodes, jobs and roles are read from the store, whatever was saved."""
    manager = StateManager()
    present("n1")
    manager.save_state({"build": 7, "nodes": "made up"}, note="kept")
    manager.save_state(note="later")
    embedded.shutdown()

    state = StateManager().load_state()

    assert (state["build"], state["note"]) == (7, "later")
    assert state["nodes"] == {"n1": "full"}
    assert state["jobs"] == {}


def test_the_epoch_grows_with_every_node_that_takes_a_role() -> None:
    """It is the highest term: 0 before the first, and it never falls."""
    manager = StateManager()
    assert manager.get_cluster_epoch() == 0

    async def take(holder: str) -> None:
        async with embedded.node().store.begin() as tx:
            before = next(iter(await tx.roles()), None)
            await tx.hold_role("pipeline", holder, 15.0, before)

    run(take("n1"))
    first = manager.get_cluster_epoch()
    run(take("n2"))

    assert manager.get_cluster_epoch() > first > 0
    assert manager.load_state()["roles"] == {"pipeline": "n2"}
    assert manager.load_state()["epoch"] == manager.get_cluster_epoch()


# -- jobs --------------------------------------------------------------------------------------------------------------


def test_a_batch_is_played_on_the_gpu_of_a_node() -> None:
    """The job is for that node alone, with the champion of its line; each call is another batch."""
    line = open_line()
    present("gpu", 80)

    first, second = (JobManager().run_gpu_selfplay_job("gpu", VARIANT) for _ in range(2))

    assert first
    assert first.job_id != second.job_id
    waiting = [jobs.decode(row.kind, row.body) for row in rows("ready")]
    assert [(job.node, job.model, job.games) for job in waiting if isinstance(job, Play)] == [
        ("gpu", line.champion, 4)
    ] * 2


def test_a_batch_that_a_node_cannot_play_is_refused_with_the_reason() -> None:
    """A node without a GPU, one that is drained, one in quarantine, one that never plays; a line without a champion."""
    open_line()
    open_line("square8_2p", champion=None, generation=-1, stage=Stage.STARTING)
    for id in ("plain", "drained", "liar", "fine"):
        present(id, *(() if id == "plain" else (80,)))
    present("boss", 80, profile="coordinator")
    present("gone", 80, gone=True)
    set_state("node:drained", "draining")
    run(put_in_quarantine("liar"))

    answers = {
        id: JobManager().run_gpu_selfplay_job(id, VARIANT) for id in ("plain", "drained", "liar", "boss", "gone")
    }
    answers["line"] = JobManager().run_gpu_selfplay_job("fine", "square8_2p")

    expected = {"plain": "no GPU", "drained": "draining", "liar": "quarantine", "boss": "coordinator", "gone": "left"}
    expected["line"] = "champion"
    assert {name: words in answers[name].reason for name, words in expected.items()} == dict.fromkeys(expected, True)
    assert not any(answers.values())
    assert rows() == []
    with pytest.raises(UnknownName):
        JobManager().run_gpu_selfplay_job("nobody", VARIANT)


def test_jobs_that_have_ended_are_archived() -> None:
    """All but the newest jobs; what waits or runs stays, however old."""
    node_desk = desk()

    async def play() -> None:
        batch = [Play(variant=VARIANT, model=blob("m"), games=1, seed=seed) for seed in range(5)]
        await node_desk.enqueue(batch)
        leases = await node_desk.claim({"play"}, 4)
        await node_desk.finish([Done(lease=Renewal(job=row.job, fence=row.fence)) for row in leases])

    run(play())

    assert [JobManager().cleanup_completed_jobs(keep=2) for _ in range(2)] == [3, 0]
    assert Counter(row.state for row in rows()) == {"done": 4, "ready": 1}  # nothing is forgotten
    assert JobManager().cleanup_completed_jobs() == 0


# -- training ----------------------------------------------------------------------------------------------------------


def training() -> JobRow:
    """The one training that waits or runs."""
    [row] = [row for row in rows("ready", "claimed") if row.kind == "train"]
    return row


def claim_training() -> Renewal:
    """Let a node beside this program claim the training."""
    [lease] = embedded.call(desk().claim({"train"}, 1))
    return Renewal(job=lease.job, fence=lease.fence, progress=0.5)


def test_a_training_is_dispatched_through_its_gate_to_a_node(home: Path) -> None:
    """Generation 0 is for the node that was named, also if another has just claimed it; not once it is under way."""
    (home / "ringrift.toml").write_text(FAKE + '[node]\ndisabled_daemons = ["work"]\n')
    present("far")
    present("near")

    first = JobManager().run_training(VARIANT)
    claim_training()
    answer = TrainingCoordinator().dispatch_training_job(VARIANT, "far")

    assert (training().id, training().node, training().state) == (answer.job_id, "far", "ready")
    assert first.job_id != answer.job_id
    assert TrainingCoordinator().dispatch_training_job(VARIANT, "near")
    assert training().node == "near"


def test_a_training_under_way_stays_where_it_is(home: Path) -> None:
    """It is not dispatched twice, and the answer names the node that trains."""
    (home / "ringrift.toml").write_text(FAKE + '[node]\ndisabled_daemons = ["work"]\n')
    present("far")
    assert JobManager().run_training(VARIANT)
    renewal = claim_training()
    embedded.call(desk().renew([renewal]))

    answer = JobManager().run_training(VARIANT, "far")

    assert (answer.accepted, answer.job_id) == (True, renewal.job)
    assert f"runs on node {embedded.node().settings.node.id}" in answer.reason
    assert training().state == "claimed"


def test_a_training_whose_turn_it_is_not_is_refused_by_the_gate() -> None:
    """The line collects games, so there is nothing to train on; a node that cannot train is refused before."""
    open_line()
    present("player", profile="selfplay")

    answer = TrainingCoordinator().dispatch_training_job(VARIANT)
    elsewhere = TrainingCoordinator().dispatch_training_job(VARIANT, "player")

    assert not answer
    assert "collecting" in answer.reason
    assert "profile selfplay" in elsewhere.reason
    assert [row for row in rows() if row.kind == "train"] == []


def test_the_end_of_a_training_leads_to_its_test() -> None:
    """While stages do not follow each other, a trained candidate waits until its test is asked for."""
    coordinator = TrainingCoordinator()
    assert not coordinator.handle_training_completion(VARIANT)
    result = asyncio.run(trigger_training("hex8", 2, timeout_seconds=30.0))
    assert result.success, result.error

    answer = coordinator.handle_training_completion(VARIANT)

    assert answer, answer.reason
    until(lambda: any(row.kind in ("sync", "verify") for row in rows()), 10.0)


# -- self-play ---------------------------------------------------------------------------------------------------------


def test_a_variant_is_drawn_by_equal_weights() -> None:
    """Each that can use games has the same chance; one that rests or has no champion has none."""
    for variant in ("hex8_2p", "hex8_3p", "square8_2p"):
        open_line(variant)
    open_line("square8_3p", champion=None, generation=-1, stage=Stage.STARTING)
    open_line("square8_4p")
    set_state("variant:square8_4p", "paused")
    scheduler = SelfplayScheduler(Random(3))

    counts = Counter(scheduler.pick_weighted_config() for _ in range(300))

    assert set(counts) == {"hex8_2p", "hex8_3p", "square8_2p"}
    assert all(70 <= count <= 130 for count in counts.values())


def test_a_variant_is_drawn_for_what_a_node_can_play() -> None:
    """Only workloads that it has; none for a node that does not play."""
    open_line("hex8_2p", workload="fake")
    open_line("square8_2p", workload="reversi")
    present("both")
    present("one", facts=facts(workloads=("reversi",)))
    present("boss", profile="coordinator")
    scheduler = SelfplayScheduler(Random(3))

    drawn = {node: {scheduler.pick_weighted_config(node) for _ in range(30)} for node in ("both", "one", "boss")}

    assert drawn == {"both": {"hex8_2p", "square8_2p"}, "one": {"square8_2p"}, "boss": {None}}


def test_targets_follow_from_the_machine_of_a_node() -> None:
    """A job for each GPU, the rest of the slots for cores; none where it may not play."""
    present("gpus", 80, 80)
    present("cpus")
    present("small", facts=facts(cores=1))
    present("boss", profile="coordinator")
    scheduler = SelfplayScheduler()

    targets = {node: scheduler.get_hybrid_job_targets(node) for node in ("gpus", "cpus", "small", "boss")}

    assert targets["gpus"] == {"gpu_jobs": 2, "cpu_jobs": 2}
    assert targets["cpus"] == {"gpu_jobs": 0, "cpu_jobs": 4}
    assert targets["small"] == {"gpu_jobs": 0, "cpu_jobs": 1}
    assert targets["boss"] == {"gpu_jobs": 0, "cpu_jobs": 0}


# -- nodes -------------------------------------------------------------------------------------------------------------


def busy(*names: str) -> Activity:
    """The activity of a node that does these jobs."""
    job: dict[str, Any] = {"kind": "play", "variant": VARIANT, "since": 0.0}
    import msgspec

    return msgspec.convert({"jobs": [{"job": name, **job} for name in names]}, Activity)


def test_nodes_are_ranked_by_what_they_have_for_each_job() -> None:
    """GPU memory first, then cores, both shared with what runs there; who cannot train is not listed."""
    present("idle", 80)
    present("busy", 100, activity=busy("a", "b"))
    present("cores", facts=facts(cores=64))
    present("plain")
    present("player", 500, profile="selfplay")
    selector = NodeSelector()

    assert [row.node_id for row in selector.rank_nodes()] == ["idle", "busy", "cores", "plain"]
    assert [row.node_id for row in selector.rank_nodes("gpu_selfplay")] == ["player", "idle", "busy"]
    assert [row.node_id for row in selector.rank_nodes(nodes=["plain", "busy"])] == ["busy", "plain"]
    best = selector.select_best_node("selfplay")
    assert best is not None
    assert (best.node_id, best.gpu_memory_gb, best.jobs_running) == ("player", 500.0, 0)
    with pytest.raises(UnknownName):
        selector.rank_nodes("no type")


def test_a_node_that_the_watcher_has_lost_is_not_chosen() -> None:
    """What it last saw of a node counts, until the node's beat moves."""
    present("near")
    present("far", 80)

    async def lose() -> None:
        async with embedded.node().store.begin() as tx:
            await LOST_NODES.put_at(tx, {"far": 1})

    run(lose())

    assert [row.node_id for row in NodeSelector().rank_nodes()] == ["near"]
    assert "far is lost" in JobManager().run_training(VARIANT, "far").reason


def test_no_node_is_best_where_none_can_do_the_work(home: Path) -> None:
    """Those that lack what the settings ask for, or are in no state to work, are not chosen."""
    (home / "ringrift.toml").write_text(FAKE + "\n[work.requires.train]\nmemory_gb = 64\n")
    present("small", facts=facts(memory_bytes=10**9))
    present("gone", facts=facts(memory_bytes=10**12), gone=True)

    assert NodeSelector().select_best_node("training") is None
    present("large", facts=facts(memory_bytes=10**12))
    best = NodeSelector().select_best_node("training")
    assert best is not None
    assert best.node_id == "large"


# -- the orchestrator --------------------------------------------------------------------------------------------------


def test_the_managers_are_on_one_object() -> None:
    """The calls that the documents print on it work."""
    open_line()
    present("n1", 80)
    self = P2POrchestrator()

    assert self.job_manager.run_gpu_selfplay_job("n1", VARIANT)
    assert self.selfplay_scheduler.pick_weighted_config("n1") == VARIANT
    assert "collecting" in self.training_coordinator.dispatch_training_job(VARIANT, "n1").reason
    assert self.state_manager.load_state()["jobs"]["ready"] == 1
    best = self.node_selector.select_best_node()
    assert best is not None
    assert best.node_id == "n1"
    assert isinstance(self.sync_planner, managers.SyncPlanner)
    assert len(self.sync_planner.generate_sync_plan({})) == 0


def test_the_path_of_a_checkout_has_the_same_managers() -> None:
    """``scripts.p2p.managers`` leads to the same classes."""
    from scripts.p2p import managers as documented

    assert documented.JobManager is JobManager
    assert {name for name in documented.__all__ if name[0].isupper()} >= {
        "JobManager",
        "NodeSelector",
        "SelfplayScheduler",
        "StateManager",
        "TrainingCoordinator",
    }
    assert Train.kind() == "train"
