"""The documented planner: what it recommends is what is missing, and executing it leaves receipts."""

import asyncio
from pathlib import Path

import pytest

from compat.file_scene import FileScene
from compat.subscribers import QUICK, home
from ringrift_compat.cluster.orchestrator import P2POrchestrator
from ringrift_compat.sync.sync_planner import (
    SyncCoordinator,
    SyncPlanner,
    SyncPriority,
    execute_priority_sync,
    get_sync_recommendations,
)

__all__ = ["home"]


@pytest.fixture
def scene(tmp_path: Path, home: Path) -> FileScene:
    """Two copies of everything, one durable node beside the coordinator, and one machine that may vanish."""
    (home / "ringrift.toml").write_text(f"{QUICK}\n[replicas]\ncopies_min = 2\n")
    return FileScene(tmp_path, "near", "spot", ephemeral=("spot",))


def test_what_has_too_few_copies_is_recommended(scene: FileScene) -> None:
    """With its priority, its holders and the node that should get it; what has enough copies is not."""
    here = scene.host.node_id
    thin, model, fleeting = scene.put(b"thin", here), scene.put(b"model", here), scene.put(b"fleeting!", "spot")
    enough = scene.put(b"enough", here, "near")
    scene.open_line(games=[thin, enough, fleeting], model=model)

    items = get_sync_recommendations()

    assert [item.priority for item in items] == sorted((item.priority for item in items), reverse=True)
    first = {item.blob: item for item in reversed(items)}
    rows = {blob: (item.priority, item.source_nodes, item.data_type, item.size_bytes) for blob, item in first.items()}
    assert rows == {
        fleeting: (SyncPriority.CRITICAL, ("spot",), "games", 9),
        model: (SyncPriority.HIGH, (here,), "model", 5),
        thin: (SyncPriority.NORMAL, (here,), "games", 4),
    }
    assert {item.target_node for item in items} <= {here, "near"}
    assert [item.blob for item in get_sync_recommendations(SyncPriority.HIGH)] == [fleeting, model]


def test_a_recommendation_is_executed(scene: FileScene) -> None:
    """The node has the file, the bytes are those of the receipt, and it is recommended no more."""
    blob = scene.put(b"games", scene.host.node_id)
    scene.open_line(games=[blob])
    [item] = get_sync_recommendations()

    result = asyncio.run(execute_priority_sync(item))

    assert (result.success, result.bytes_transferred, result.target_node) == (True, 5, item.target_node)
    assert item.target_node in scene.holders(blob)
    assert [row.node for row in scene.receipts(blob)] == [item.target_node]
    assert get_sync_recommendations() == []


def test_a_copy_that_cannot_be_made_says_why(scene: FileScene) -> None:
    """Its holder has lost it meanwhile."""
    blob = scene.put(b"games", "near")
    scene.open_line(games=[blob])
    [item] = get_sync_recommendations()
    scene.folders["near"].folder.path(blob).unlink()

    result = asyncio.run(execute_priority_sync(item))

    assert not result
    assert blob[:12] in result.error


def test_a_plan_follows_the_manifest_that_it_is_given(scene: FileScene) -> None:
    """Files as some nodes hold them: what one of them lacks is planned, and a file that none holds is not."""
    here = scene.host.node_id
    blob, other = scene.put(b"games", here, "near"), scene.put(b"other", here, "near")
    scene.open_line(games=[blob, other])
    planner = P2POrchestrator().sync_planner
    assert isinstance(planner, SyncPlanner)
    assert len(planner.generate_sync_plan()) == 0

    plan = planner.generate_sync_plan({here: [blob, other], "near": [other]})

    assert [(item.blob, item.target_node) for item in plan.recommendations] == [(blob, "near")]
    assert len(planner.generate_sync_plan({})) == 0


def test_a_plan_is_executed(scene: FileScene) -> None:
    """Every copy of it is made, and the manifests of both nodes are equal afterwards."""
    here = scene.host.node_id
    blobs = [scene.put(b"games %d" % number, here) for number in range(5)]
    scene.open_line(games=blobs)
    planner = SyncPlanner()
    plan = planner.generate_sync_plan()
    assert len(plan) == 5

    results = asyncio.run(planner.execute_sync_plan(plan))

    assert [result.success for result in results] == [True] * 5
    manifests = planner.collect_manifests()
    assert (manifests["near"].count, manifests["near"].digest) == (5, manifests[here].digest)
    assert "spot" not in manifests or manifests["spot"].count == 0


def test_a_plan_says_what_waits(scene: FileScene) -> None:
    """A file without a second durable node to go to."""
    scene.leave("near")
    scene.leave("spot")
    scene.open_line(games=[scene.put(b"games", scene.host.node_id)])

    plan = SyncPlanner().generate_sync_plan()

    assert (len(plan), len(plan.waiting)) == (0, 1)
    assert "no other node" in plan.waiting[0]


def test_a_scheduler_makes_what_is_recommended(scene: FileScene) -> None:
    """Its status counts what is open; after a run nothing is."""
    here = scene.host.node_id
    scene.open_line(games=[scene.put(b"a", here)], model=scene.put(b"m", here))
    scheduler = SyncCoordinator()
    assert scheduler.get_status() == {
        "pending": 2,
        "bytes": 2,
        "by_priority": {"low": 0, "normal": 1, "high": 1, "critical": 0},
    }

    assert len(asyncio.run(scheduler.run_once(SyncPriority.HIGH))) == 1
    assert [item.priority for item in scheduler.get_recommendations()] == [SyncPriority.NORMAL]
    assert all(asyncio.run(scheduler.run_once()))

    assert scheduler.get_status()["pending"] == 0
