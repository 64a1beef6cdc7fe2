"""The documented guards of files: one file by any way, machines that may vanish, and caches of models."""

import asyncio
from pathlib import Path

import pytest

from compat.file_scene import FileScene
from compat.subscribers import home
from ringrift.cluster.peers import PEERS, PeerRecord
from ringrift.kernel.errors import InvalidId, UnknownName
from ringrift.sync import ledger
from ringrift.work.run_states import load_run_states
from ringrift_compat.embedded_node import embedded
from ringrift_compat.events.event_router import get_router
from ringrift_compat.sync.cache_coordination import invalidate_model_caches, wire_cache_events
from ringrift_compat.sync.cluster_transport import get_cluster_transport
from ringrift_compat.sync.ephemeral_data_guard import checkpoint_games, request_evacuation
from wait import until

__all__ = ["home"]


@pytest.fixture
def scene(tmp_path: Path) -> FileScene:
    """A durable node beside the coordinator, and a machine that may vanish."""
    return FileScene(tmp_path, "near", "spot", ephemeral=("spot",))


def listed(blob: str) -> list[str]:
    """The nodes that hold *blob* by the ledger."""
    return sorted(embedded.query(lambda view: ledger.holders(view, blob)))


# -- one file ----------------------------------------------------------------------------------------------------------


def test_a_file_comes_to_a_node(scene: FileScene) -> None:
    """The result is that of its receipt; a second time nothing moves."""
    blob, transport = scene.put(b"games", scene.host.node_id), get_cluster_transport()

    result = asyncio.run(transport.transfer(blob, "near", priority="critical"))
    again = asyncio.run(transport.transfer(blob, "near"))

    [receipt] = scene.receipts(blob)
    assert (result.success, result.bytes_transferred, result.source_node) == (True, 5, scene.host.node_id)
    assert (result.transport_used, receipt.transfer_class) == (receipt.transport, "urgent")
    assert (again.success, again.bytes_transferred) == (True, 0)
    assert "near" in scene.holders(blob)
    assert [row["node"] for row in transport.get_speeds()] == [scene.host.node_id]


def test_a_file_that_no_node_has_is_a_result_with_its_reason(scene: FileScene) -> None:
    """No exception; and a node that is not there as well."""
    transport = get_cluster_transport()

    missing = asyncio.run(transport.transfer("0" * 64, "near"))
    away = asyncio.run(transport.transfer(scene.put(b"x", "near"), "none"))

    assert not missing
    assert "000000000000" in missing.error
    assert not away
    assert "none" in away.error


def test_a_transfer_keeps_its_own_limit(scene: FileScene) -> None:
    """600 kB at 8 megabits a second do not pass in less than 0.6 s, but for a tenth."""
    blob = scene.put(bytes(600_000), scene.host.node_id)

    asyncio.run(get_cluster_transport().transfer(blob, "near", bandwidth_limit_mbps=8))

    [receipt] = scene.receipts(blob)
    assert receipt.size / receipt.seconds <= 1.1e6


def test_every_transport_has_the_state_of_its_breaker(scene: FileScene) -> None:
    """Closed until it fails; all that there are."""
    states = get_cluster_transport().get_link_states("near")

    assert set(states) >= {"local", "ssh", "rsync", "base64", "http", "s3"}
    assert set(states.values()) == {"closed"}


# -- machines that may vanish ------------------------------------------------------------------------------------------


def test_games_that_only_a_fleeting_machine_holds_are_saved(scene: FileScene) -> None:
    """Exactly those, to one durable node; what a durable node holds stays where it is."""
    fleeting, safe = scene.put(b"fleeting", "spot"), scene.put(b"safe", "near")
    scene.open_line(games=[fleeting, safe])

    response = checkpoint_games()

    assert (response.success, response.bytes_transferred) == (True, len(b"fleeting"))
    assert response.details["files"] == 1
    assert set(scene.holders(fleeting)) & {"near", scene.host.node_id}
    assert scene.holders(safe) == ["near"]
    assert checkpoint_games().bytes_transferred == 0


def test_a_node_is_evacuated(scene: FileScene) -> None:
    """Everything that lines need of it is elsewhere, also of a durable one, and it gets no more jobs."""
    games, model = scene.put(b"games", "near", "spot"), scene.put(b"model", "near")
    scene.open_line(games=[games], model=model)

    response = request_evacuation("near", "its disk is old")

    assert response.success
    assert all(set(scene.holders(blob)) - {"near", "spot"} for blob in (games, model))
    state = embedded.query(load_run_states).current("node:near", 0.0)
    assert (state.state, state.reason) == ("draining", "its disk is old")


def test_a_node_that_is_not_known_is_not_evacuated(scene: FileScene) -> None:
    """Its name is refused, and nothing is drained."""
    with pytest.raises(UnknownName):
        request_evacuation("far")

    assert not embedded.query(load_run_states).by_scope


def test_without_a_durable_node_the_guard_says_so(scene: FileScene) -> None:
    """The only other node is the machine that may vanish."""
    scene.leave("near")
    blob = scene.put(b"games", scene.host.node_id)
    scene.open_line(games=[blob])

    response = request_evacuation(scene.host.node_id)

    assert not response.success
    assert "no durable node" in response.errors[0]


# -- caches of models --------------------------------------------------------------------------------------------------


def test_a_copy_that_is_not_good_does_not_count(scene: FileScene) -> None:
    """Damaged or gone: set aside and no longer listed; a good one stays, and workers must report it again."""
    model = scene.put(b"model", scene.host.node_id, "near", "spot")
    path = scene.folders["near"].folder.path(model)
    path.chmod(0o644)
    path.write_bytes(b"mode!")
    scene.folders["spot"].folder.path(model).unlink()

    async def report() -> None:
        async with embedded.node().store.begin() as tx:
            await PEERS.put(tx, [PeerRecord(node="worker", ready={model: 1.0, "0" * 64: 2.0})])

    embedded.call(report())
    result = invalidate_model_caches(model)

    assert (result.verified, sorted(result.dropped)) == ((scene.host.node_id,), ["near", "spot"])
    assert result.forgotten == ("worker",)
    assert listed(model) == [scene.host.node_id]
    assert embedded.query(PEERS.all)[0].ready == {"0" * 64: 2.0}


def test_a_folder_that_is_away_is_not_gone(scene: FileScene, tmp_path: Path) -> None:
    """Its copy stays in the ledger."""
    model = scene.put(b"model", scene.host.node_id, "near")
    (tmp_path / "nodes" / "near").rename(tmp_path / "unmounted")

    result = invalidate_model_caches(model)

    assert (result.verified, result.dropped) == ((scene.host.node_id,), ())
    assert listed(model) == sorted([scene.host.node_id, "near"])


def test_a_promotion_checks_the_copies(scene: FileScene) -> None:
    """Once wired, however often; a name that is no model changes nothing."""
    assert wire_cache_events() == wire_cache_events() == 2
    model = scene.put(b"model", scene.host.node_id, "near")
    scene.folders["near"].folder.path(model).unlink()
    router = get_router()

    router.publish_sync("MODEL_PROMOTED", {"model": "models/best.pth"}, "test")
    router.publish_sync("MODEL_PROMOTED", {"model": model}, "test")

    until(lambda: listed(model) == [scene.host.node_id])
    with pytest.raises(InvalidId):
        invalidate_model_caches("models/best.pth")
