"""House rules about sizes: what fits on a screen, and what says what it is for."""

import ast
import re
from collections.abc import Iterator

import pytest

from tidy.source import Check, Finding, Source, at, expect_none, product, suite

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 400
PACKAGE_LINES_MAX = {"src/ringrift/": 52_000, "src/ringrift_reversi/": 5_300, "src/ringrift_compat/": 12_300}
UNFORMATTED_MAX = 40
UNFORMATTED = "# fmt: " + "skip"

# The end of a sentence with another one after it: "e.g. this" goes on in lower case, a name in ``ticks`` begins anew.
ANOTHER_SENTENCE = re.compile(r"[.?!]\s+[A-Z`*\"']")


def long_functions(source: Source) -> Iterator[Finding]:
    """Functions longer than a screen."""
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield at(source, node, f"{node.name} has {lines} lines, more than {FUNCTION_LINES_MAX}")


def long_files(source: Source) -> Iterator[Finding]:
    """Files longer than anyone reads."""
    lines = len(source.text.splitlines())
    if lines > FILE_LINES_MAX:
        yield Finding(source.path, lines, f"has {lines} lines, more than {FILE_LINES_MAX}")


def untold_modules(source: Source) -> Iterator[Finding]:
    """Modules that do not open with one sentence."""
    first, *_ = (ast.get_docstring(source.tree, clean=False) or "").splitlines() or [""]
    if not first:
        yield Finding(source.path, 1, "has no docstring that begins on its first line")
    elif not first.endswith((".", "?", "!")):
        yield Finding(source.path, 1, "the docstring's first line is not a whole sentence")
    elif ANOTHER_SENTENCE.search(first):
        yield Finding(source.path, 1, "the docstring's first line is more than one sentence")


def untold_names(source: Source) -> Iterator[Finding]:
    """Public functions and classes at the top of a module that nobody describes."""
    for node in source.tree.body:
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and not node.name.startswith("_")
            and not ast.get_docstring(node)
            and not _is_overload(node)
        ):
            yield at(source, node, f"{node.name} has no docstring")


def _is_overload(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    return any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in node.decorator_list)


def test_functions_fit_on_a_screen() -> None:
    """No function in the product or its tests is longer than sixty lines."""
    expect_none(long_functions, product() + suite())


def test_files_stay_short() -> None:
    """No file in the product or its tests is longer than four hundred lines."""
    expect_none(long_files, product() + suite())


@pytest.mark.parametrize("package", PACKAGE_LINES_MAX)
def test_packages_stay_small(package: str) -> None:
    """No package is larger than its budget."""
    lines = sum(len(source.text.splitlines()) for source in product() if source.below(package))

    assert 0 < lines <= PACKAGE_LINES_MAX[package]


def test_few_lines_are_kept_from_the_formatter() -> None:
    """A call that only reads well unformatted has too many arguments."""
    counts = {source.path: source.text.count(UNFORMATTED) for source in product() + suite()}

    assert sum(counts.values()) <= UNFORMATTED_MAX, sorted(counts.items(), key=lambda item: -item[1])[:20]


def test_modules_open_with_one_sentence() -> None:
    """Every module says in the first line of its docstring, in one sentence, what it is for."""
    expect_none(untold_modules, product() + suite())


def test_public_names_are_described() -> None:
    """Every public function and class at the top of a module of the product has a docstring."""
    expect_none(untold_names, product())


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (long_functions, "def long():\n" + "    pass\n" * FUNCTION_LINES_MAX),
        (long_functions, "class Thing:\n    async def long():\n" + "        pass\n" * FUNCTION_LINES_MAX),
        (long_files, "\n" * (FILE_LINES_MAX + 1)),
        (untold_modules, ""),
        (untold_modules, "x = 1\n"),
        (untold_modules, '"""Not a sentence"""\n'),
        (untold_modules, '"""\nBegins on the second line.\n"""\n'),
        (untold_modules, '"""One.  And another."""\n'),
        (untold_modules, '"""One.  ``Another`` follows."""\n'),
        (untold_names, "def public(): ...\n"),
        (untold_names, "async def public(): ...\n"),
        (untold_names, "class Public: ...\n"),
    ],
)
def test_the_checks_of_size_can_fail(check: Check, text: str) -> None:
    """Each check finds something in a file that breaks its rule."""
    assert list(check(Source("src/ringrift/example.py", text)))


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (long_functions, "def long():\n" + "    pass\n" * (FUNCTION_LINES_MAX - 1)),
        (long_files, "\n" * FILE_LINES_MAX),
        (untold_modules, '"""Clock: reads 1.5 clocks, e.g. this one.\n\nMore.  And more.\n"""\n'),
        (untold_names, 'def public():\n    """Say so."""\n\ndef _own(): ...\n'),
        (untold_names, "@overload\ndef public(): ...\n"),
    ],
)
def test_the_checks_of_size_let_good_files_pass(check: Check, text: str) -> None:
    """Each check finds nothing in a file that just keeps its rule."""
    assert not list(check(Source("src/ringrift/example.py", text)))
