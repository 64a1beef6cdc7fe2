"""House rules about use: what nothing calls goes, and what only its own module uses is private."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from tidy.source import Finding, Source, at, dotted, imported, product

CORE, GAME, COMPAT = "src/ringrift/", "src/ringrift_reversi/", "src/ringrift_compat/"
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

# Part of an interface: users, plug-ins or the interpreter call these, or a table names them by module.
OPEN_MODULES = (
    CORE + "__init__.py",
    CORE + "client.py",
    CORE + "workload/",
    CORE + "events/",
    CORE + "jobs.py",
    CORE + "kernel/settings.py",
    CORE + "kernel/errors.py",
    CORE + "harness.py",
)
# Read by the list of daemons or commands, by the logging module, by the type checker.
OPEN_NAMES = ("SPEC", "COMMAND", "log", "T", "V")
# Called by a library that asks for no base class: the files of an SQLite VFS.
DUCK_TYPED = ("_OpenFile",)
# Called from outside `src`, each with its caller.
CALLED_FROM_OUTSIDE: dict[str, str] = {
    "arm": "tests/e2e/test_models.py",  # kills a process at a failpoint
    "NAMES": "tests/tidy/test_listed.py",  # of failpoints
    "main": "scripts/launch_daemons.py",
    "post": "tests/contract/test_router_live.py",  # the one synchronous door, for threads of users
}


def _definitions(source: Source) -> Iterator[tuple[str, ast.stmt]]:
    """Every name that *source* defines at its top, with its place."""
    for node in source.tree.body:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield node.name, node
        elif isinstance(node, ast.Assign):
            yield from ((target.id, node) for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node


def _module(source: Source) -> str:
    return source.path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _served() -> set[str]:
    """What the table of the documented API serves, as ``module.name``."""
    from ringrift_compat.aliases import ALIASES

    return {target.replace(":", ".") for names in ALIASES.values() for target in names.values()}


def _entry_points() -> set[str]:
    from importlib.metadata import distribution

    return {entry.value.replace(":", ".") for entry in distribution("ringrift").entry_points}


def private_in_fact(sources: Iterable[Source], users: Iterable[Source], exempt: Iterable[str]) -> Iterator[Finding]:
    """Public names that no other module of *users* imports or reaches through an import."""
    uses = {(_module(user), name) for user in users for name, _ in imported(user)}
    used_by: dict[str, set[str]] = {}
    for user, name in uses:
        used_by.setdefault(name, set()).add(user)
    exempt = set(exempt)
    for source in sources:
        module = _module(source)
        for name, node in _definitions(source):
            full = f"{module}.{name}"
            if name.startswith("_") or name in CALLED_FROM_OUTSIDE or full in exempt or source.below(*OPEN_MODULES):
                continue
            if name not in OPEN_NAMES and not _is_daemon(source, name) and not used_by.get(full, set()) - {module}:
                yield at(source, node, f"{name} is used in no other module: begin it with an underscore, or delete it")


def _is_daemon(source: Source, name: str) -> bool:
    return source.below(CORE + "daemons/") and name == source.stem


@cache
def _words() -> dict[str, int]:
    """How often each word stands in the product."""
    counts: dict[str, int] = {}
    for source in product():
        for word in WORD.findall(source.text):
            counts[word] = counts.get(word, 0) + 1
    return counts


def uncalled(source: Source, words: dict[str, int]) -> Iterator[Finding]:
    """Functions and methods whose name stands nowhere but in their definition."""
    foreign = {id(method) for method in _overrides(source)}
    for node in source.nodes:
        if not isinstance(node, _FUNCTIONS) or node.name.startswith("__") or node.decorator_list or id(node) in foreign:
            continue
        if words.get(node.name, 0) <= 1 and node.name not in CALLED_FROM_OUTSIDE:
            yield at(source, node, f"nothing in src calls {node.name}")


def _overrides(source: Source) -> Iterator[ast.stmt]:
    """Methods of classes with a base from a library: the library calls them."""
    for node in source.nodes:
        if isinstance(node, ast.ClassDef):
            bases = [dotted(source, base) for base in node.bases]
            if any("." in base and not base.startswith("ringrift") for base in bases) or node.name in DUCK_TYPED:
                yield from node.body


def test_public_names_are_used_elsewhere() -> None:
    """A name without an underscore is used by another module, is an entry point or is served by the documented API."""
    exempt = _served() | _entry_points()
    findings = sorted(map(str, private_in_fact(product(), product(), exempt)))

    assert not findings, "\n" + "\n".join(findings)


def test_every_function_is_called() -> None:
    """No function or method of the core or the game is there for nothing; those called from outside are listed."""
    sources = [source for source in product() if source.below(CORE, GAME)]
    findings = sorted(str(finding) for source in sources for finding in uncalled(source, _words()))

    assert not findings, "\n" + "\n".join(findings)


def test_the_list_of_outside_callers_is_short_and_true() -> None:
    """What is listed exists, nothing in src calls it, and its caller names it."""
    from tidy.source import ROOT

    defined = {name for source in product() for name, _ in _definitions(source)}
    defined |= {node.name for source in product() for node in source.nodes if isinstance(node, _FUNCTIONS)}
    assert set(CALLED_FROM_OUTSIDE) <= defined
    assert len(CALLED_FROM_OUTSIDE) <= 10
    for name, caller in CALLED_FROM_OUTSIDE.items():
        assert name in (ROOT / caller).read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["def lonely(): ...", "LIMIT = 3", "class Lonely: ..."])
def test_the_check_of_public_names_can_fail(text: str) -> None:
    """A name that only its own module has is found; one that another module imports is not."""
    lonely = Source(CORE + "bus/example.py", text)
    [(name, _)] = _definitions(lonely)
    user = Source(CORE + "bus/user.py", f"from ringrift.bus.example import {name}\n{name}")

    assert list(private_in_fact([lonely], [lonely], ()))
    assert not list(private_in_fact([lonely], [lonely, user], ()))


def test_the_check_of_calls_can_fail() -> None:
    """A function whose name stands once is found; one that is called is not."""
    source = Source(CORE + "bus/example.py", "def lonely(): ...\ndef used(): ...\nused()")

    assert [finding.line for finding in uncalled(source, {"lonely": 1, "used": 2})] == [1]
