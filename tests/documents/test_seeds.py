"""The documents of the earlier system: what they name resolves and what they show runs, but for one list of not yet."""

import importlib
import inspect
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

reads_documents = pytest.mark.skipif(not seeds.documents(), reason=f"no documents: {seeds.FOLDER} is empty")
FACTS = seeds.recorded()


@cache
def missing_modules() -> frozenset[str]:
    """The modules of the list, with their full paths."""
    return frozenset(name if name.startswith("app.") else f"{PACKAGE}.{name}" for name in not_yet.MODULES.split())


@cache
def missing_names() -> frozenset[tuple[str, str]]:
    """The names of the list, and all names of its modules."""
    listed = {(module, name) for module, names in not_yet.NAMES.items() for name in names.split()}
    return frozenset(listed | {(fact.module, fact.name) for fact in FACTS if fact.module in missing_modules()})


def resolve(module: str, name: str = "") -> object | None:
    """The module, or what it calls *name*; None if it is not there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            loaded = importlib.import_module(module)
        except ModuleNotFoundError as absent:
            if not module.startswith(str(absent.name)):
                raise
            return None
    return getattr(loaded, name, None) if name else loaded


@reads_documents
def test_the_table_of_facts_is_what_the_documents_say() -> None:
    """The table in the repository equals what is read from the documents now."""
    assert seeds.facts() == FACTS, "run: PYTHONPATH=tests python -m documents.seeds"


def test_every_module_imports() -> None:
    """Every module path of the documents imports, but for those on the list, and none of these does."""
    absent = {fact.module for fact in FACTS if resolve(fact.module) is None}

    assert absent - missing_modules() == set(), "these must import"
    assert missing_modules() - absent == set(), "these import now, or no document names them: take them off the list"


def test_every_name_resolves() -> None:
    """Every name that the documents give a module is there, but for those on the list, and none of these is."""
    absent = {(fact.module, fact.name) for fact in FACTS if resolve(fact.module, fact.name) is None}

    assert absent - missing_names() == set(), "these must resolve"
    assert missing_names() - absent == set(), "these resolve now, or no document names them: take them off the list"


@pytest.mark.parametrize("fact", [fact for fact in FACTS if fact.name], ids=lambda fact: f"{fact.module}.{fact.name}")
def test_every_name_is_of_its_kind_and_takes_what_the_documents_pass(fact: seeds.Fact) -> None:
    """A documented class is a class, a function can be called, and each call that is printed fits its signature."""
    served = resolve(fact.module, fact.name)
    if (fact.module, fact.name) in missing_names():
        assert served is None
        return

    assert isinstance(served, type) if fact.kind == "class" else served is not None
    assert fact.kind == "constant" or callable(served)
    for shape in fact.calls:
        arguments = [argument for argument in shape.strip("()").split(",") if argument]
        words = {argument.rstrip("="): None for argument in arguments if argument != "."}
        assert callable(served)
        inspect.signature(served).bind(*[None for argument in arguments if argument == "."], **words)


@reads_documents
@pytest.mark.parametrize("document", seeds.documents(), ids=lambda path: path.name[:3])
def test_every_block_runs(document: Path, tmp_path: Path) -> None:
    """Every Python block runs as printed and has its effect, but for those on the list, and none of these does."""
    environ = os.environ | {"RINGRIFT_HOME": str(tmp_path / "home"), "PYTHONPATH": str(Path(__file__).parents[1])}
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "documents.seed_child", str(document), str(result)]
    subprocess.run(command, env=environ, cwd=tmp_path, timeout=DOCUMENT_SECONDS_MAX, check=True, capture_output=True)

    outcomes: dict[str, str] = json.loads(result.read_text())
    errors = {block: error for block, error in outcomes.items() if error}
    listed = {block for block in not_yet.BLOCKS.split() if block in outcomes}
    assert set(outcomes) == {block.id for block in seeds.blocks(document)}
    assert {block: error for block, error in errors.items() if block not in listed} == {}
    assert listed - set(errors) == set(), "these run now: take them off the list"


@reads_documents
def test_the_list_names_only_what_the_documents_show() -> None:
    """A block on the list is a block of a document."""
    shown = {block.id for document in seeds.documents() for block in seeds.blocks(document)}

    assert set(not_yet.BLOCKS.split()) <= shown


@reads_documents
def test_every_block_that_runs_is_checked_for_its_effect() -> None:
    """There is none that only runs."""
    shown = {block.id for document in seeds.documents() for block in seeds.blocks(document)}

    assert shown - set(not_yet.BLOCKS.split()) == set(EFFECTS)
