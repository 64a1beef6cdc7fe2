"""The documented facade of syncs: every field of a request has its effect, every answer comes from receipts."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from compat.file_scene import FileScene
from compat.subscribers import async_test, home
from ringrift.events import catalog
from ringrift.events.data import PrioritySynced
from ringrift.kernel.errors import InvalidId, UnknownName
from ringrift_compat.embedded_node import embedded
from ringrift_compat.sync.sync_facade import (
    SyncBackend,
    SyncFacade,
    SyncRequest,
    SyncResponse,
    get_sync_facade,
    sync,
)

__all__ = ["home"]
GAMES, MODEL, SAMPLES = b"games" * 100, b"model" * 200, b"samples" * 300


@pytest.fixture
def scene(tmp_path: Path) -> FileScene:
    """Two durable nodes and one that may vanish, and a line whose files are on the coordinator alone."""
    return FileScene(tmp_path, "near", "far", "spot", ephemeral=("spot",))


class Files:
    """The files of one line."""

    def __init__(self, scene: FileScene, variant: str = "hex8_2p", node: str = "") -> None:
        holder = node or scene.host.node_id
        salt = variant.encode()
        self.games, self.model = scene.put(GAMES + salt, holder), scene.put(MODEL + salt, holder)
        self.samples = scene.put(SAMPLES + salt, holder)
        scene.open_line(variant, games=[self.games], model=self.model, samples=self.samples)


def ask(request: SyncRequest, backend: SyncBackend | None = None) -> SyncResponse:
    """Let the facade do *request*."""
    return run(get_sync_facade().sync(request, backend))


def run(work: Coroutine[Any, Any, SyncResponse]) -> SyncResponse:
    """Run *work* on a loop of its own, as a program does."""
    return asyncio.run(work)


def test_games_go_to_all_eligible_nodes(scene: FileScene) -> None:
    """Durable nodes get the games; what moved is what the receipts say."""
    files, here = Files(scene), scene.host.node_id

    response = run(sync("games"))

    assert (response.success, response.errors, response.backend_used) == (True, [], SyncBackend.AUTO_SYNC)
    assert scene.holders(files.games) == sorted([here, "near", "far"])
    assert scene.holders(files.model) == [here]
    assert response.nodes_synced == len(scene.receipts(files.games)) == 2
    assert response.bytes_transferred == sum(row.size for row in scene.receipts(files.games)) == 2 * (len(GAMES) + 7)


@pytest.mark.parametrize(
    ("data_type", "kinds"),
    [("games", {"games"}), ("models", {"model"}), ("npz", {"samples"}), ("all", {"games", "model", "samples"})],
)
def test_a_data_type_says_what_is_copied(scene: FileScene, data_type: str, kinds: set[str]) -> None:
    """Games, models, samples or all of them, and nothing else."""
    files = Files(scene)

    assert ask(SyncRequest(data_type, targets=["near"])).success

    assert {kind for kind in ("games", "model", "samples") if "near" in scene.holders(getattr(files, kind))} == kinds


def test_targets_get_files_and_others_do_not(scene: FileScene) -> None:
    """The router brings them to the nodes that were named, also to one that may vanish."""
    files = Files(scene)

    response = ask(SyncRequest("games", targets=["spot", "far"]))

    assert (response.backend_used, response.nodes_synced) == (SyncBackend.ROUTER, 2)
    assert scene.holders(files.games) == sorted([scene.host.node_id, "far", "spot"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"board_type": "hex8"}, {"hex8_2p", "hex8_3p"}),
        ({"board_type": "hexsmall", "num_players": 2}, {"hex8_2p"}),
        ({"num_players": 2}, {"hex8_2p", "square8_2p"}),
        ({"config_key": "square8_2p"}, {"square8_2p"}),
        ({"board_type": "square19"}, set()),
    ],
)
def test_board_and_players_choose_the_variants(scene: FileScene, options: dict[str, Any], expected: set[str]) -> None:
    """Either alone, both, or a variant by its key."""
    files = {variant: Files(scene, variant) for variant in ("hex8_2p", "hex8_3p", "square8_2p")}

    response = ask(SyncRequest("games", targets=["near"], **options))

    assert response.success
    assert {variant for variant, row in files.items() if "near" in scene.holders(row.games)} == expected
    assert response.details["files"] == len(expected)


@pytest.mark.parametrize(
    ("priority", "transfer_class"),
    [("low", "mirror"), ("normal", "second"), ("high", "champion"), ("critical", "urgent")],
)
def test_a_priority_is_the_class_of_its_transfers(scene: FileScene, priority: str, transfer_class: str) -> None:
    """The class under which the bytes pass, as the receipt says."""
    files = Files(scene)

    response = ask(SyncRequest("games", targets=["near"], priority=priority))

    assert [row.transfer_class for row in scene.receipts(files.games)] == [transfer_class]
    assert response.backend_used is (
        SyncBackend.CLUSTER_SYNC if priority in ("high", "critical") else SyncBackend.ROUTER
    )


def test_a_broadcast_reaches_every_node(scene: FileScene) -> None:
    """A request of high priority brings games also to a machine that may vanish."""
    files = Files(scene)

    response = ask(SyncRequest("games", priority="high"))

    assert (response.backend_used, response.nodes_synced) == (SyncBackend.CLUSTER_SYNC, 3)
    assert len(scene.holders(files.games)) == 4


def test_models_go_to_machines_that_may_vanish_as_well(scene: FileScene) -> None:
    """They play with them; by default nothing else is brought there."""
    files = Files(scene)

    assert ask(SyncRequest("all")).nodes_synced == 2

    assert "spot" in scene.holders(files.model)
    assert "spot" not in scene.holders(files.games)


def test_what_only_a_fleeting_machine_holds_is_saved(scene: FileScene) -> None:
    """With prefer_ephemeral exactly that moves, once, to a durable node, as urgent."""
    safe, fleeting = Files(scene), Files(scene, "hex8_3p", "spot")

    response = ask(SyncRequest("games", prefer_ephemeral=True))

    assert (response.success, response.backend_used) == (True, SyncBackend.EPHEMERAL)
    assert scene.holders(safe.games) == [scene.host.node_id]
    assert len(scene.holders(fleeting.games)) == 2
    assert [row.transfer_class for row in scene.receipts(fleeting.games)] == ["urgent"]


def test_the_lowest_class_is_for_the_distributed_backend(scene: FileScene) -> None:
    """It makes way for every other transfer."""
    files = Files(scene)

    response = ask(SyncRequest("games", targets=["near"], priority="critical"), SyncBackend.DISTRIBUTED)

    assert response.backend_used is SyncBackend.DISTRIBUTED
    assert [row.transfer_class for row in scene.receipts(files.games)] == ["mirror"]


def test_excluded_nodes_neither_get_nor_send(scene: FileScene) -> None:
    """The others get the files; what only an excluded node holds waits, and the answer says so."""
    files, other = Files(scene), Files(scene, "hex8_3p", "far")

    response = ask(SyncRequest("games", config_key="hex8_2p", exclude_nodes=["far"]))
    refused = ask(SyncRequest("games", config_key="hex8_3p", exclude_nodes=["far"]))

    assert response.success
    assert scene.holders(files.games) == sorted([scene.host.node_id, "near"])
    assert not refused.success
    assert "no holder answers: far" in refused.errors[0]
    assert scene.holders(other.games) == ["far"]


def test_a_limit_of_bandwidth_is_kept(scene: FileScene) -> None:
    """1.2 MB at 8 megabits a second do not pass in less than 1.2 s, but for a tenth."""
    blob = scene.put(bytes(1_200_000), scene.host.node_id)
    scene.open_line(games=[blob])

    response = ask(SyncRequest("games", targets=["near"], bandwidth_limit_mbps=8))
    [receipt] = scene.receipts(blob)

    assert response.success
    assert receipt.size / receipt.seconds <= 1.1e6


def test_a_request_ends_in_its_time(scene: FileScene) -> None:
    """What has not arrived by then is an error; the next request goes on where it stopped."""
    blob = scene.put(bytes(8_000_000), scene.host.node_id)
    scene.open_line(games=[blob])

    late = ask(SyncRequest("games", targets=["near"], bandwidth_limit_mbps=32, timeout_seconds=1.0))
    assert not late.success
    assert "not done within 1 s" in late.errors[0]
    assert (late.nodes_synced, late.bytes_transferred) == (0, 0)
    assert late.duration_seconds < 3.0
    rest = ask(SyncRequest("games", targets=["near"]))

    assert rest.success
    assert 0 < rest.bytes_transferred < 8_000_000
    assert scene.holders(blob) == sorted([scene.host.node_id, "near"])


def test_a_confirmation_asks_the_nodes_themselves(scene: FileScene) -> None:
    """A copy that the ledger lists and the disk does not have is made again; without asking it would count."""
    files = Files(scene)
    assert ask(SyncRequest("games", targets=["near"])).nodes_synced == 1
    scene.folders["near"].folder.path(files.games).unlink()

    without = ask(SyncRequest("games", targets=["near"]))
    confirmed = ask(SyncRequest("games", targets=["near"], require_confirmation=True))

    assert (without.success, without.bytes_transferred) == (True, 0)
    assert (confirmed.success, confirmed.nodes_synced, confirmed.bytes_transferred) == (True, 1, len(GAMES) + 7)
    assert "near" in scene.holders(files.games)


def test_without_a_node_to_reach_there_is_no_success(tmp_path: Path) -> None:
    """The answer says what is missing, and nothing is counted."""
    scene = FileScene(tmp_path)
    Files(scene)

    response = run(sync("games"))

    assert (response.success, response.nodes_synced, response.bytes_transferred) == (False, 0, 0)
    assert "no other node can be reached" in response.errors[0]


def test_a_target_that_is_not_there_is_an_error(scene: FileScene) -> None:
    """One that nobody knows, and one that has left: named, and nothing moves."""
    files = Files(scene)
    scene.leave("far")

    response = ask(SyncRequest("games", targets=["far", "node-1", "near"]))

    assert not response.success
    assert "far, node-1" in response.errors[0]
    assert scene.holders(files.games) == [scene.host.node_id]


def test_a_file_that_its_holder_has_lost_is_an_error_once(scene: FileScene) -> None:
    """Every copy of it that was planned says so; the other files arrive."""
    files, other = Files(scene, node="near"), Files(scene, "hex8_3p")
    scene.folders["near"].folder.path(files.games).unlink()

    response = ask(SyncRequest("games", targets=["far"], timeout_seconds=20.0))

    assert not response.success
    assert [error[:12] for error in response.errors] == [files.games[:12]]
    assert "far" in scene.holders(other.games)


def test_a_second_sync_moves_nothing(scene: FileScene) -> None:
    """The nodes are in sync by the receipts of the first."""
    Files(scene)
    first, second = ask(SyncRequest("games")), ask(SyncRequest("games"))

    assert (first.nodes_synced, second.nodes_synced) == (2, 2)
    assert (second.success, second.bytes_transferred) == (True, 0)


def test_the_files_of_one_node_are_recovered(scene: FileScene) -> None:
    """A priority sync takes what that node holds; one that cannot be reached is an error."""
    files, other = Files(scene, node="spot"), Files(scene, "hex8_3p")
    facade = get_sync_facade()

    response = run(facade.trigger_priority_sync("orphan_games_recovery", "spot", "hex8_2p", "games"))
    refused = run(facade.trigger_priority_sync("orphan_games_recovery", "vast-12345"))

    assert (response.success, response.details["reason"]) == (True, "orphan_games_recovery")
    assert len(scene.holders(files.games)) == 4
    assert scene.holders(other.games) == [scene.host.node_id]
    assert not refused.success
    assert "vast-12345" in refused.errors[0]
    rows = embedded.query(lambda view: view.last(None, 2, [PrioritySynced.name()]))
    events = [catalog.decode(row.name, row.body) for row in rows]
    facts = {(row.success, row.node, row.node_count) for row in events if isinstance(row, PrioritySynced)}
    assert facts == {(True, "spot", 3), (False, "vast-12345", 0)}


def test_games_and_models_have_calls_of_their_own(scene: FileScene, tmp_path: Path) -> None:
    """Games of a variant; a model by its documented path, its name or a file; a path that is none is an error."""
    files, facade = Files(scene), SyncFacade()
    path = tmp_path / "own.pth"
    path.write_bytes(b"my model")

    assert run(facade.sync_games(config_key="hex8_2p")).nodes_synced == 2
    assert run(facade.sync_models(model_path="models/canonical_hex8_2p.pth")).nodes_synced == 3
    assert run(facade.sync_models(model_path=str(path))).nodes_synced == 3
    assert run(facade.sync_models(files.model, targets=["near"])).bytes_transferred == 0
    missing = run(facade.sync_models("models/canonical_square8_2p.pth"))

    assert len(scene.holders(files.model)) == 4
    assert scene.holders(files.samples) == [scene.host.node_id]
    assert not missing.success
    assert "canonical_hex8_2p" in missing.errors[0]


def test_statistics_count_syncs_by_backend(scene: FileScene) -> None:
    """Under the documented names; health is that of the last sync."""
    Files(scene)
    facade = get_sync_facade()
    assert facade.get_stats() == {"total_syncs": 0, "by_backend": {}, "total_bytes": 0, "total_errors": 0}
    ask(SyncRequest("games"))
    ask(SyncRequest("games", priority="high"))
    assert facade.health_check()
    ask(SyncRequest("games", targets=["none"]))

    stats, health = facade.get_stats(), facade.health_check()
    assert stats["by_backend"] == {"auto_sync": 1, "cluster_sync": 1, "router": 1}
    assert (stats["total_syncs"], stats["total_errors"], stats["total_bytes"]) == (3, 1, 3 * (len(GAMES) + 7))
    assert not health
    assert "none" in health.message
    assert health.details | {"operations_count": 3, "errors_count": 1, "backends_loaded": 3} == health.details


@async_test
async def test_a_request_that_means_nothing_is_refused() -> None:
    """A data type, a variant or a priority that is none."""
    for request, error in (
        (SyncRequest("game"), UnknownName),
        (SyncRequest("games", config_key="hex8"), InvalidId),
        (SyncRequest("games", priority="soon"), ValueError),
    ):
        with pytest.raises(error):
            await get_sync_facade().sync(request)
    assert embedded.is_open
