"""The documented daemon of syncs: its strategies differ in which bytes move, and its router in which way."""

import asyncio
from pathlib import Path

import pytest

from compat.file_scene import FileScene
from compat.subscribers import QUICK, home
from ringrift_compat.sync.auto_sync import AutoSyncDaemon, SyncRouter, SyncStrategy

__all__ = ["home"]


@pytest.fixture
def scene(tmp_path: Path, home: Path) -> FileScene:
    """Two durable nodes beside the coordinator and one machine that may vanish; two copies are asked for."""
    (home / "ringrift.toml").write_text(f"{QUICK}\n[replicas]\ncopies_min = 2\n")
    return FileScene(tmp_path, "near", "far", "spot", ephemeral=("spot",))


@pytest.mark.parametrize(
    ("strategy", "games", "model", "fleeting"),
    [
        (SyncStrategy.HYBRID, 2, 2, 2),
        (SyncStrategy.EPHEMERAL, 1, 1, 2),
        (SyncStrategy.BROADCAST, 4, 4, 4),
        (SyncStrategy.PULL, 1, 1, 2),
        (SyncStrategy.AUTO, 2, 4, 2),
    ],
)
def test_strategies_differ_in_which_bytes_move(
    scene: FileScene, strategy: SyncStrategy, games: int, model: int, fleeting: int
) -> None:
    """How many nodes hold games and a model of the coordinator, and games of a machine that may vanish, afterwards."""
    here = scene.host.node_id
    files = [scene.put(b"games", here), scene.put(b"model", here), scene.put(b"fleeting", "spot")]
    scene.open_line(games=[files[0], files[2]], model=files[1])

    response = asyncio.run(AutoSyncDaemon(strategy).sync_now())

    assert response.success
    copies = [len(scene.holders(blob)) for blob in files]
    assert copies[:2] == [games, model]
    assert copies[2] >= fleeting
    assert set(scene.holders(files[2])) & {here, "near", "far"}
    assert response.bytes_transferred == sum(row.size for blob in files for row in scene.receipts(blob))
    assert response.details["strategy"] == strategy.value


def test_the_daemon_has_the_strategy_of_the_settings(scene: FileScene) -> None:
    """Unless it is told another; a word that is none is refused."""
    assert AutoSyncDaemon.get_instance().strategy is SyncStrategy.HYBRID  # type: ignore[attr-defined]  # of its class
    assert AutoSyncDaemon("Broadcast").strategy is SyncStrategy.BROADCAST
    with pytest.raises(ValueError, match="sometimes"):
        AutoSyncDaemon("sometimes")


def test_only_the_variant_that_was_named_is_synced(scene: FileScene) -> None:
    """The files of another line stay where they are."""
    here = scene.host.node_id
    one, other = scene.put(b"one", here), scene.put(b"other", here)
    scene.open_line("hex8_2p", games=[one])
    scene.open_line("hex8_3p", games=[other])

    asyncio.run(AutoSyncDaemon().sync_now("hex8_2p", "games"))

    assert (len(scene.holders(one)), scene.holders(other)) == (2, [here])


def test_an_urgent_sync_brings_the_games_to_every_node(scene: FileScene) -> None:
    """Before all other transfers; models and other lines wait."""
    here = scene.host.node_id
    games, model = scene.put(b"games", here), scene.put(b"model", here)
    scene.open_line(games=[games], model=model)

    response = asyncio.run(AutoSyncDaemon().trigger_urgent_sync("hex8_2p"))

    assert (response.success, response.nodes_synced) == (True, 3)
    assert {row.transfer_class for row in scene.receipts(games)} == {"urgent"}
    assert scene.holders(model) == [here]


def test_a_router_names_the_ways_of_a_file(scene: FileScene) -> None:
    """From each of its holders that can be reached; none to a node that has it, or for a file without a holder."""
    blob = scene.put(b"games", "near", "far")
    scene.open_line(games=[blob])
    router, here = SyncRouter(), scene.host.node_id

    assert {route.source for route in router.get_routes(blob, here)} == {"near", "far"}
    assert router.get_routes(blob, "near") == ()
    scene.leave("far")
    assert [route.source for route in router.get_routes(blob, here)] == ["near"]
    assert router.get_routes("0" * 64, here) == ()


def test_a_router_names_the_nodes_that_should_get_a_file(scene: FileScene) -> None:
    """Durable ones before those that may vanish, as many as are missing."""
    blob = scene.put(b"games", scene.host.node_id)
    scene.open_line(games=[blob])
    router = SyncRouter()

    assert router.get_targets(blob, 1) == []
    assert set(router.get_targets(blob, 3)) == {"near", "far"}
    assert router.get_targets(blob, 4)[-1] == "spot"
