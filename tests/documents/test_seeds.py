"""The documents of the earlier system: what they name resolves and what they show runs, but for one list of not yet."""

import importlib
import json
import os
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

import pytest

from documents import not_yet, seeds
from documents.seed_child import EFFECTS

DOCUMENT_SECONDS_MAX = 60.0
PACKAGE = "app.coordination"

pytestmark = pytest.mark.skipif(not seeds.documents(), reason=f"the documents are not there: {seeds.FOLDER} is empty")


@cache
def missing_modules() -> frozenset[str]:
    """The modules of the list, with their full paths."""
    return frozenset(name if name.startswith("app.") else f"{PACKAGE}.{name}" for name in not_yet.MODULES.split())


@cache
def missing_names() -> frozenset[tuple[str, str]]:
    """The names of the list, and all names of its modules."""
    listed = {(module, name) for module, names in not_yet.NAMES.items() for name in names.split()}
    return frozenset(listed | {pair for pair in seeds.names() if pair[0] in missing_modules()})


def resolves(module: str, name: str | None = None) -> bool:
    """Whether the module imports, and has the name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as absent:
            if not module.startswith(str(absent.name)):
                raise
            return False
    return name is None or hasattr(found, name)


def test_every_module_imports() -> None:
    """Every module path of the documents imports, but for those on the list, and none of these does."""
    absent = {module for module in seeds.modules() if not resolves(module)}

    assert absent - missing_modules() == set(), "these must import"
    assert missing_modules() - absent == set(), "these import now, or no document names them: take them off the list"


def test_every_name_resolves() -> None:
    """Every name that the documents give a module is there, but for those on the list, and none of these is."""
    absent = {pair for pair in seeds.names() if not resolves(*pair)}

    assert absent - missing_names() == set(), "these must resolve"
    assert missing_names() - absent == set(), "these resolve now, or no document names them: take them off the list"


@pytest.mark.parametrize("document", seeds.documents(), ids=lambda path: path.name[:3])
def test_every_block_runs(document: Path, tmp_path: Path) -> None:
    """Every Python block runs as printed and has its effect, but for those on the list, and none of these does."""
    environ = os.environ | {"RINGRIFT_HOME": str(tmp_path / "home"), "PYTHONPATH": str(Path(__file__).parents[1])}
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "documents.seed_child", str(document), str(result)]
    subprocess.run(command, env=environ, cwd=tmp_path, timeout=DOCUMENT_SECONDS_MAX, check=True, capture_output=True)

    found: dict[str, str] = json.loads(result.read_text())
    wrong = {block: error for block, error in found.items() if error}
    listed = {block for block in not_yet.BLOCKS.split() if block in found}
    assert set(found) == {block.id for block in seeds.blocks(document)}
    assert {block: error for block, error in wrong.items() if block not in listed} == {}
    assert listed - set(wrong) == set(), "these run now: take them off the list"


def test_the_list_names_only_what_the_documents_show() -> None:
    """A block on the list is a block of a document."""
    shown = {block.id for document in seeds.documents() for block in seeds.blocks(document)}

    assert set(not_yet.BLOCKS.split()) <= shown


def test_every_block_that_runs_is_checked_for_its_effect() -> None:
    """Only the enumeration of ways to copy files, of which nothing is served yet, has none."""
    shown = {block.id for document in seeds.documents() for block in seeds.blocks(document)}

    assert shown - set(not_yet.BLOCKS.split()) - set(EFFECTS) == {"002.22"}
