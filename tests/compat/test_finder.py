"""The finder: documented modules come out of a table, load nothing until used, and say what they offer."""

import importlib
import subprocess
import sys
import warnings
from types import ModuleType

import pytest

import app
from ringrift_compat.aliases import ALIASES, REPLACED
from ringrift_compat.finder import Finder

HEAVY = ("msgspec", "apsw", "asyncio", "ringrift.events.catalog", "ringrift.bus.router")
LOOK = "import sys; before = set(sys.modules); import {}; print(*sorted(set(sys.modules) - before))"


def loaded_by(module: str) -> set[str]:
    """What a fresh interpreter loads for an import of *module*."""
    shown = subprocess.run([sys.executable, "-c", LOOK.format(module)], capture_output=True, text=True, check=True)
    return set(shown.stdout.split())


def imported(path: str) -> ModuleType:
    """The module *path*, whatever it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module(path)


@pytest.mark.parametrize("path", sorted(ALIASES))
def test_every_module_of_the_table_offers_its_names(path: str) -> None:
    """Each module imports, and every name in its row resolves and is listed."""
    module = imported(path)

    names = [name for name in ALIASES[path] if not name.endswith("*")]
    assert all(getattr(module, name) is not None for name in names)
    assert set(names) <= set(dir(module))
    assert set(names) <= set(module.__all__)


def test_an_import_loads_nothing() -> None:
    """The packages come without an engine, a loop or a part of ours."""
    loaded = loaded_by("app.coordination.event_router")

    assert "app.coordination.event_router" in loaded
    assert not loaded & set(HEAVY)
    assert {name for name in loaded if name.startswith("ringrift.")} <= {
        "ringrift_compat", "ringrift_compat.aliases", "ringrift_compat.finder",
    }  # fmt: skip


def test_an_unknown_name_says_what_there_is() -> None:
    """Who misspells a name sees the others, whichever way it was asked for."""
    module = importlib.import_module("app.coordination.event_router")

    with pytest.raises(AttributeError, match=r"'get_ruoter'.*get_router"):
        _ = module.get_ruoter
    with pytest.raises(ImportError, match=r"'get_ruoter'.*get_router"):
        from app.coordination.event_router import get_ruoter  # noqa: F401 - it is not there
    assert not hasattr(module, "get_ruoter")


def test_an_unknown_module_is_not_there() -> None:
    """What the table does not have is a ModuleNotFoundError as ever."""
    with pytest.raises(ModuleNotFoundError, match=r"app\.coordination\.no_such_thing"):
        importlib.import_module("app.coordination.no_such_thing")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("application")


def test_every_way_to_import_works() -> None:
    """A star, an alias, a submodule of a package and an emitter of the table of events."""
    found: dict[str, object] = {}
    code = """
from app.coordination.event_normalization import *
import app.coordination.event_router as renamed
from app.coordination import event_router, get_router
from app.coordination.event_emitters import emit_training_complete, emit_training_completed
"""
    exec(code, found)

    assert found["normalize_event_type"]
    assert found["renamed"] is found["event_router"]
    assert found["get_router"] is found["renamed"].get_router  # type: ignore[attr-defined] # a module
    assert found["emit_training_complete"] is not found["emit_training_completed"]


def test_twins_are_the_same_objects() -> None:
    """Two paths or names for one thing lead to one thing."""
    router = importlib.import_module("app.coordination.event_router")
    old, new = (
        importlib.import_module("app.distributed.data_events"),
        importlib.import_module("app.coordination.data_events"),
    )

    assert router.EventRouter is router.UnifiedEventRouter is router.UnifiedEventCoordinator
    assert router.get_router is router.get_event_router is router.get_event_coordinator
    assert old.DataEventType is new.DataEventType


def test_a_name_can_be_replaced_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of users replace names by their documented paths; a reload looks them up again."""
    module = importlib.import_module("app.coordination.event_router")
    real = module.get_router

    with monkeypatch.context() as patch:
        patch.setattr("app.coordination.event_router.get_router", lambda: "mine")
        assert module.get_router() == "mine"
        assert importlib.reload(module).get_router is real

    assert module.get_router is real


def test_classes_are_found_by_their_real_path() -> None:
    """A class knows the module that it lives in, which is how others write it down and find it again."""
    found = importlib.import_module("app.coordination").RouterEvent

    assert getattr(importlib.import_module(found.__module__), found.__qualname__) is found


@pytest.mark.parametrize("path", sorted(REPLACED))
def test_an_old_path_warns_with_its_replacement(path: str) -> None:
    """A path that the documents call old says once what took its place, and still works."""
    module = imported(path)

    with pytest.warns(DeprecationWarning, match=REPLACED[path]) as told:
        importlib.reload(module)

    assert len(told) == 1


def test_names_of_the_package_do_not_warn() -> None:
    """What the package itself offers is not old."""
    code = "from app.coordination import HandlerBase, UnifiedEventCoordinator"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, capture_output=True)


def test_the_finder_stands_at_the_end_and_once() -> None:
    """Real modules come first, and importing again adds nothing."""
    importlib.reload(app)

    assert [isinstance(finder, Finder) for finder in sys.meta_path].count(True) == 1
    assert isinstance(sys.meta_path[-1], Finder)
