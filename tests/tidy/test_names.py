"""House rules about names: plain words only, and names that must agree with each other."""

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

from tidy.source import DAEMONS, EVENTS, Check, Finding, Source, at, expect_none, product, snake, suite, tagged

# A file or class that only one of these words fits has no idea of its own.
_EMPTY = "manager coordinator orchestrator unified facade helper util common mixin singleton misc core new v2"
EMPTY_WORDS = frozenset(_EMPTY.split())
EMPTY_START = "base_"
# Says what is the case with a schema; it is not a newer form of something of ours.
EXEMPT = frozenset({"SchemaTooNew"})
# Bare participles and private words: each hides what the thing is.  The vocabulary is in docs/glossary.md.
_BANNED = """said told heard felt meant asked found wanted given kept known held standing
    errand errands letter letters scribe attendant courier porter crew whose wrong"""
BANNED = frozenset(_BANNED.split())
# Established nouns that end like a gerund.
_GERUNDS = "training learning wiring tuning rating ratings pairing string"
GERUND_NOUNS = frozenset(_GERUNDS.split())


def empty_words(source: Source) -> Iterator[Finding]:
    """Files, folders and classes named with a word that says nothing; the documented names in compat are exempt."""
    parts = PurePosixPath(source.path).with_suffix("").parts
    if {"ringrift_compat", "compat"} & set(parts):
        return
    for part in parts[1:]:
        if bad := _empty(part):
            yield Finding(source.path, 1, f"the path says {bad!r}")
    for node in source.nodes:
        if isinstance(node, ast.ClassDef) and node.name not in EXEMPT and (bad := _empty(snake(node.name))):
            yield at(source, node, f"class {node.name} says {bad!r}")


def _empty(name: str) -> str:
    name = name.removeprefix("test_").lstrip("_").replace("new_workload", "new-workload")  # the name of a command
    if name.startswith(EMPTY_START):
        return EMPTY_START
    name = name.removeprefix("coordinator").lstrip("_")  # the role of a process; a thing that coordinates is still one
    return next((word for word in name.split("_") if {word, word.removesuffix("s")} & EMPTY_WORDS), "")


def bad_modules(source: Source) -> Iterator[Finding]:
    """Modules named by a gerund (saying) or by a banned word."""
    for part in PurePosixPath(source.path).with_suffix("").parts[1:]:
        words = part.removeprefix("test_").replace("dead_letter", "dead-letter").split("_")
        if (words[-1].endswith("ing") and words[-1] not in GERUND_NOUNS) or set(words) & BANNED:
            yield Finding(source.path, 1, f"the path says {part!r}: name the thing, not the doing")


def banned_names(source: Source) -> Iterator[Finding]:
    """Variables, parameters, fields, functions and classes with a banned name."""
    for node in source.nodes:
        name = _bound(node)
        if name and snake(name.strip("_")) in BANNED:
            assert isinstance(node, ast.stmt | ast.expr | ast.arg | ast.alias)
            yield Finding(source.path, node.lineno, f"{name}: call it what it is")


def _bound(node: ast.AST) -> str:
    """The name that *node* binds, "" if it binds none."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
        case ast.arg(arg=name) | ast.alias(asname=str(name)):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
    return ""


def stray_tags(source: Source) -> Iterator[Finding]:
    """Events whose name on the wire is not their file and class name."""
    if not source.below(EVENTS):
        return
    for node, tag in tagged(source):
        expected = f"{source.stem}.{snake(node.name)}"
        if tag != expected:
            yield at(source, node, f"{node.name} has the tag {tag!r}, not {expected!r}")


def stray_daemons(source: Source) -> Iterator[Finding]:
    """Modules of daemons that do not declare ``SPEC = Daemon(name=…)`` with the name of the file."""
    if source.below(DAEMONS) and source.stem != "__init__":
        name = _declared(source.tree)
        if name != source.stem:
            yield Finding(source.path, 1, f"SPEC declares {name!r}, not {source.stem!r}")


def _declared(tree: ast.Module) -> object:
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="SPEC")], value=ast.Call(func=ast.Name(id="Daemon"), keywords=words))
                | ast.AnnAssign(target=ast.Name(id="SPEC"), value=ast.Call(func=ast.Name(id="Daemon"), keywords=words))
            ):
                names = [word.value for word in words if word.arg == "name"]
                return names[0].value if names and isinstance(names[0], ast.Constant) else None
    return None


def untold_tests(source: Source) -> Iterator[Finding]:
    """Tests without the sentence that they show."""
    functions = (node for node in source.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    for node in functions:
        if node.name.startswith("test_") and not ast.get_docstring(node):
            yield at(source, node, f"{node.name} has no docstring")


def test_names_are_plain_words() -> None:
    """No variable, parameter, field, function or class has a name that hides what it is."""
    expect_none(banned_names, product() + suite())


def test_modules_are_nouns() -> None:
    """No module of the product or its tests is named by a gerund or a banned word."""
    expect_none(bad_modules, product() + suite())


def test_no_name_is_empty() -> None:
    """No file, folder or class is named with a word that fits everything."""
    expect_none(empty_words, product() + suite())


def test_tags_follow_files_and_classes() -> None:
    """An event's name on the wire is its file's name, a dot and its class name in snake case."""
    assert any(list(tagged(source)) for source in product() if source.below(EVENTS))
    expect_none(stray_tags, product())


def test_daemons_are_named_after_their_files() -> None:
    """A daemon's module declares the daemon of the same name."""
    assert any(source.below(DAEMONS) for source in product()), f"{DAEMONS} holds no module"
    expect_none(stray_daemons, product())


def test_tests_are_sentences() -> None:
    """Every test has a docstring."""
    expect_none(untold_tests, suite())


@pytest.mark.parametrize(
    ("check", "path", "text"),
    [
        (empty_words, "src/ringrift/bus/utils.py", ""),
        (empty_words, "src/ringrift/core/clock.py", ""),
        (empty_words, "src/ringrift/bus/base_router.py", ""),
        (empty_words, "tests/unit/test_new_router.py", ""),
        (bad_modules, "src/ringrift/bus/saying.py", ""),
        (bad_modules, "src/ringrift/bus/test_held.py", ""),
        (bad_modules, "src/ringrift/letters/row.py", ""),
        (banned_names, "src/ringrift/bus/router.py", "said = 1"),
        (banned_names, "src/ringrift/bus/router.py", "def f(told): ..."),
        (banned_names, "src/ringrift/bus/router.py", "for found in range(3): ..."),
        (banned_names, "src/ringrift/bus/router.py", "import json as kept"),
        (banned_names, "src/ringrift/bus/router.py", "class Held:\n    wanted: str"),
        (banned_names, "src/ringrift/bus/router.py", "async def _told(): ..."),
        (empty_words, "src/ringrift/bus/router.py", "class BaseRouter: ..."),
        (empty_words, "src/ringrift/bus/router.py", "class NewRouter: ..."),
        (empty_words, "src/ringrift/bus/router.py", "class RouterV2: ..."),
        (empty_words, "src/ringrift/bus/router.py", "class _UnifiedRouter: ..."),
        (stray_tags, EVENTS + "node.py", "class Lost(Event, tag='cluster.lost'): ..."),
        (stray_tags, EVENTS + "node.py", "class BeatMissed(Event, tag='node.beatmissed'): ..."),
        (stray_tags, EVENTS + "node.py", "class Lost(Event, tag=TAG): ..."),
        (stray_daemons, DAEMONS + "beat.py", "SPEC = Daemon(name='watch', run=beat, every=5.0)"),
        (stray_daemons, DAEMONS + "beat.py", "SPEC = Daemon(run=beat, every=5.0)"),
        (stray_daemons, DAEMONS + "beat.py", "x = 1"),
        (untold_tests, "tests/unit/test_x.py", "def test_a(): ..."),
        (untold_tests, "tests/unit/test_x.py", "class Case:\n    async def test_a(self): ..."),
    ],
)
def test_the_checks_of_names_can_fail(check: Check, path: str, text: str) -> None:
    """Each check finds something in a file that breaks its rule."""
    assert list(check(Source(path, text)))


@pytest.mark.parametrize(
    ("check", "path", "text"),
    [
        (empty_words, "src/ringrift_compat/handler.py", "class DaemonManager: ..."),
        (empty_words, "src/ringrift/bus/handlers.py", "class DurableHandler: ..."),
        (bad_modules, "src/ringrift/events/training.py", ""),
        (banned_names, "src/ringrift/bus/router.py", "row = 'said'\nevent.told\nprint(said)"),
        (empty_words, "src/ringrift/events/base.py", "class Renewed: ...\nclass Score: ...\nclass SchemaTooNew: ..."),
        (stray_tags, EVENTS + "node.py", "class BeatMissed(Event, tag='node.beat_missed'): ..."),
        (stray_daemons, DAEMONS + "beat.py", "SPEC: Daemon = Daemon(name='beat', run=beat, every=5.0)"),
        (stray_daemons, DAEMONS + "__init__.py", "DAEMONS = ()"),
        (untold_tests, "tests/unit/test_x.py", "def test_a():\n    '''It holds.'''\n\ndef tested(): ..."),
    ],
)
def test_the_checks_of_names_let_good_files_pass(check: Check, path: str, text: str) -> None:
    """Each check finds nothing in a file that keeps its rule."""
    assert not list(check(Source(path, text)))
