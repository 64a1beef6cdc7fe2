"""The finder: documented modules come from a table, load nothing until used, and list what they offer."""

import importlib
import re
import subprocess
import sys
import warnings
from types import ModuleType

import pytest

import app
from ringrift_compat.aliases import ALIASES, DONE_BY, NOT_YET, REPLACED
from ringrift_compat.finder import _Finder, _is_family

HEAVY = ("msgspec", "apsw", "asyncio", "ringrift.events.catalog", "ringrift.bus.router")
LOOK = "import sys; before = set(sys.modules); import {}; print(*sorted(set(sys.modules) - before))"


def loaded_by(module: str) -> set[str]:
    """Return the modules that a fresh interpreter loads for an import of *module*."""
    visible = subprocess.run([sys.executable, "-c", LOOK.format(module)], capture_output=True, text=True, check=True)
    return set(visible.stdout.split())


def imported(path: str) -> ModuleType:
    """Import the module *path* with its warnings ignored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module(path)


@pytest.mark.parametrize("path", sorted(ALIASES))
def test_every_module_of_the_table_offers_its_names(path: str) -> None:
    """Each module imports, and every name in its row resolves and is listed."""
    module = imported(path)

    names = [name for name in ALIASES[path] if not _is_family(name)]
    assert all(getattr(module, name) is not None for name in names)
    assert set(names) <= set(dir(module))
    assert set(names) <= set(module.__all__)


def test_an_import_loads_nothing() -> None:
    """The packages come without an engine, a loop or a part of ours."""
    loaded = loaded_by("app.coordination.event_router")

    assert "app.coordination.event_router" in loaded
    assert not loaded & set(HEAVY)
    allowed = {"ringrift_compat", "ringrift_compat.aliases", "ringrift_compat.finder"}
    assert {name for name in loaded if name.startswith("ringrift.")} <= allowed


def test_an_unknown_name_lists_the_valid_ones() -> None:
    """A misspelt name raises with the valid ones, for either way of import."""
    module = importlib.import_module("app.coordination.event_router")

    with pytest.raises(AttributeError, match=r"'get_ruoter'.*get_router"):
        _ = module.get_ruoter
    with pytest.raises(ImportError, match=r"'get_ruoter'.*get_router"):
        from app.coordination.event_router import get_ruoter  # noqa: F401 - it is not there
    assert not hasattr(module, "get_ruoter")


def test_an_unknown_module_is_not_found() -> None:
    """A module outside the table is a ModuleNotFoundError as usual."""
    with pytest.raises(ModuleNotFoundError, match=r"no documented module is called app\.coordination\.no_such_thing"):
        importlib.import_module("app.coordination.no_such_thing")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("application")


@pytest.mark.parametrize("path", sorted(DONE_BY))
def test_a_module_without_names_documents_its_replacement(path: str) -> None:
    """It imports, offers nothing, and its docstring names the part of ours."""
    module = imported(path)

    assert DONE_BY[path] in (module.__doc__ or "")
    assert module.__all__ == []
    with pytest.raises(AttributeError, match="has none"):
        _ = module.anything


@pytest.mark.parametrize("path", sorted(NOT_YET))
def test_an_unbuilt_module_raises_that_it_is_not_built(path: str) -> None:
    """It is documented, so it is no typo: both ways to import it raise that it is not built yet."""
    package, _, name = path.rpartition(".")

    with pytest.raises(ModuleNotFoundError, match=rf"not yet: {path}"):
        importlib.import_module(path)
    with pytest.raises(ImportError, match=rf"not yet: {path}"):
        exec(f"from {package} import {name}")


def test_every_way_to_import_works() -> None:
    """A star, an alias, a submodule of a package and an emitter of the table of events."""
    result: dict[str, object] = {}
    code = """
from app.coordination.tracing import *
import app.coordination.event_router as renamed
from app.coordination import event_router, get_router
from app.coordination.event_emitters import emit_training_complete, emit_training_completed
"""
    exec(code, result)

    assert result["get_trace_id"]
    assert result["renamed"] is result["event_router"]
    assert result["get_router"] is result["renamed"].get_router  # type: ignore[attr-defined] # a module
    assert result["emit_training_complete"] is not result["emit_training_completed"]


def test_the_older_path_of_the_peer_client_warns_and_works() -> None:
    """It names the newer path, and has the very same class."""
    sys.modules.pop("app.coordination.cluster.p2p", None)
    with pytest.warns(DeprecationWarning, match=r"cluster\.p2p is now app\.coordination\.p2p_backend"):
        old = importlib.import_module("app.coordination.cluster.p2p")

    assert old.P2PBackend is importlib.import_module("app.coordination.p2p_backend").P2PBackend


def test_aliases_are_the_same_objects() -> None:
    """Two paths or names for one thing lead to one object."""
    router = importlib.import_module("app.coordination.event_router")
    data = importlib.import_module("app.distributed.data_events")

    assert router.EventRouter is router.UnifiedEventRouter is router.UnifiedEventCoordinator
    assert router.get_router is router.get_event_router is router.get_event_coordinator
    assert data.DataEventType is router.DataEventType


def test_a_name_can_be_replaced_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of users replace names by their documented paths."""
    module = importlib.import_module("app.coordination.event_router")
    real = module.get_router

    with monkeypatch.context() as patch:
        patch.setattr("app.coordination.event_router.get_router", lambda: "mine")
        assert module.get_router() == "mine"

    assert module.get_router is real


def test_classes_are_found_by_their_real_path() -> None:
    """A class knows its defining module, so that pickles and references resolve."""
    result = importlib.import_module("app.coordination").RouterEvent

    assert getattr(importlib.import_module(result.__module__), result.__qualname__) is result


@pytest.mark.parametrize("path", sorted(REPLACED))
def test_an_old_path_warns_with_its_replacement(path: str) -> None:
    """A path that the documents call old warns once with its replacement, and still works."""
    module = imported(path)

    with pytest.warns(DeprecationWarning, match=REPLACED[path]) as warning:
        importlib.reload(module)

    assert len(warning) == 1


SUPERSEDED = {
    "cluster_monitor_daemon": "unified_cluster_monitor",
    "robust_cluster_monitor": "unified_cluster_monitor",
    "model_distribution_daemon": "unified_distribution_daemon",
    "npz_distribution_daemon": "unified_distribution_daemon",
    "queue_populator": "unified_queue_populator",
    "queue_populator_daemon": "unified_queue_populator",
    "base_handler": "handler_base",
    "node_health_monitor": "health_check_orchestrator",
    "system_health_monitor": "unified_health_manager",
    "unified_event_coordinator": "event_router",
    "sync_coordinator": "auto_sync_daemon",
    "ephemeral_sync": "auto_sync_daemon",
    "cluster_data_sync": "auto_sync_daemon",
}
"""As the documents say it."""


@pytest.mark.parametrize("old", sorted(SUPERSEDED))
def test_a_superseded_path_leads_to_the_documented_one(old: str) -> None:
    """It warns with the documented replacement, and every name that it has is the same object there."""
    path, replacement = f"app.coordination.{old}", f"app.coordination.{SUPERSEDED[old]}"
    module, other = imported(path), imported(replacement)

    with pytest.warns(DeprecationWarning, match=f"{re.escape(replacement)}$"):
        importlib.reload(module)

    shared = set(module.__all__) & set(other.__all__)
    assert shared or not module.__all__
    assert all(getattr(module, name) is getattr(other, name) for name in shared)


def test_names_of_the_package_do_not_warn() -> None:
    """Names that the package itself offers are not old."""
    code = "from app.coordination import HandlerBase, UnifiedEventCoordinator"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, capture_output=True)


def test_the_finder_stands_at_the_end_and_once() -> None:
    """Real modules come first, and importing again adds nothing."""
    importlib.reload(app)

    assert [isinstance(finder, _Finder) for finder in sys.meta_path].count(True) == 1
    assert isinstance(sys.meta_path[-1], _Finder)
