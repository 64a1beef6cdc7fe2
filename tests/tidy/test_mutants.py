"""House rules about mutations: each still fits the code, and changes behaviour alone."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from documents.coverage import PAGE, Row, rows
from mutations import RESULTS, ROOT, BadMutation, Mutation, load, results

ROWS_MAX = 4
"""A mutation that stands for more rows than this does not break each of them in its own way."""


@cache
def _text(file: str) -> str:
    path = ROOT / file
    return path.read_text(encoding="utf-8") if path.is_file() else ""


@cache
def _functions(file: str) -> frozenset[str]:
    nodes = ast.walk(ast.parse(_text(file)))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@cache
def _page() -> dict[str, Row]:
    return {row.key: row for row in rows(PAGE.read_text(encoding="utf-8"))}


def surface(body: Sequence[ast.stmt], prefix: str = "") -> Iterator[str]:
    """What other modules can see of these statements: imports, names, signatures, bases, methods and fields."""
    for node in body:
        match node:
            case ast.Import() | ast.ImportFrom():
                yield prefix + ast.unparse(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                signature = f"{ast.unparse(node.args)} -> {ast.unparse(node.returns) if node.returns else ''}"
                yield f"{prefix}{type(node).__name__} {node.name} {signature}"
            case ast.ClassDef():
                yield f"{prefix}class {node.name}({', '.join(map(ast.unparse, [*node.bases, *node.keywords]))})"
                yield from surface(node.body, f"{prefix}{node.name}.")
            case ast.Assign():
                yield from (f"{prefix}{ast.unparse(target)} =" for target in node.targets)
            case ast.AnnAssign():
                yield f"{prefix}{ast.unparse(node.target)}: {ast.unparse(node.annotation)}"


def _first_line(node: ast.stmt) -> int:
    return min(mark.lineno for mark in (node, *getattr(node, "decorator_list", ()))) - 1


@cache
def _parts(text: str) -> tuple[str, ...]:
    """The statements of a module as texts, with what stands before each; together they are *text*."""
    starts = [_first_line(node) for node in ast.parse(text).body]
    lines = text.splitlines(keepends=True)
    ends = [*starts[1:], len(lines)]
    return tuple("".join(lines[start:end]) for start, end in zip([0, *starts[1:]], ends, strict=True))


def _part_around(text: str, old: str) -> str:
    """The one statement of *text* that has *old*, or all of *text*: to parse hundreds of whole files takes seconds."""
    return next((part for part in _parts(text) if old in part), text)


def _raises(tree: ast.Module) -> int:
    return sum(isinstance(node, ast.Raise | ast.Assert) for node in ast.walk(tree))


def _problem_of_change(mutation: Mutation, text: str) -> str:
    if not mutation.file.startswith("src/") or not text:
        return f"no file {mutation.file} of the product"
    if mutation.old == mutation.new:
        return "it changes nothing"
    if (count := text.count(mutation.old)) != 1:
        return f"its old text occurs {count} times in {mutation.file}"
    if not mutation.file.endswith(".py"):
        return ""
    part = _part_around(text, mutation.old)
    try:
        tree = ast.parse(mutation.apply(part))
    except SyntaxError as error:
        return f"the mutated file is no Python: {error}"
    before = ast.parse(part)
    if ast.dump(before) == ast.dump(tree):
        return "it changes nothing but the layout"
    if changed := set(surface(before.body)) ^ set(surface(tree.body)):
        return f"it changes names or signatures: {sorted(changed)}"
    return "it raises by itself" if _raises(tree) > _raises(before) else ""


def _problem_of_rows(mutation: Mutation) -> str:
    if len(mutation.rows) > ROWS_MAX:
        return f"it stands for {len(mutation.rows)} rows, more than {ROWS_MAX}"
    for key in mutation.rows:
        row = _page().get(key)
        if row is None:
            return f"the coverage page has no row {key!r}"
        if not row.has_test(mutation.function):
            return f"its test is not among the tests of {key!r}"
    return ""


def problem_of(mutation: Mutation) -> str:
    """The problem with *mutation*; "" if there is none."""
    file, _, function = mutation.function.partition("::")
    if not file.startswith("tests/") or not _text(file) or function not in _functions(file):
        return f"there is no test {mutation.test}"
    return _problem_of_change(mutation, _text(mutation.file)) or _problem_of_rows(mutation)


def test_every_mutation_fits_the_code() -> None:
    """Its old text occurs once, its test exists, names and signatures stay, and its rows are on the page."""
    problems = [f"{m.id}: {problem}" for m in load() if (problem := problem_of(m))]

    assert not problems, "\n" + "\n".join(problems)


def test_outcomes_belong_to_mutations() -> None:
    """The stored outcomes are those of mutations that are there."""
    unknown = set(results()) - {mutation.id for mutation in load()}

    assert not unknown, f"run make mutants: {RESULTS.relative_to(ROOT)} has {sorted(unknown)}"


GOOD = Mutation(
    name="good",
    area="trial",
    file="src/ringrift/kernel/ranges.py",
    old="",
    new="",
    test="tests/tidy/test_mutants.py::test_every_mutation_fits_the_code",
)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("def f(a: int) -> int:", "def f(a: int) -> int:", "changes nothing"),
        ("    return", "    return", "changes nothing"),
        ("missing", "other", "occurs 0 times"),
        ("a", "b", "times in"),
        ("return a + 1", "return (a + 1)", "but the layout"),
        ("return a + 1", "return a +", "no Python"),
        ("(a: int)", "(a: int, b: int = 0)", "names or signatures"),
        ("def f", "def g", "names or signatures"),
        ("x: int = 1", "y: int = 1", "names or signatures"),
        ("return a + 1", "raise ValueError", "raises by itself"),
        ("return a + 1", "assert a", "raises by itself"),
    ],
)
def test_a_bad_change_is_found(old: str, new: str, words: str) -> None:
    """A change that does not fit, does nothing, or does more than change behaviour is a problem."""
    text = "def f(a: int) -> int:\n    return a + 1\n\n\nclass C:\n    x: int = 1\n"

    assert words in _problem_of_change(replace(GOOD, old=old, new=new), text)
    assert not _problem_of_change(replace(GOOD, old="return a + 1", new="return a"), text)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"test": "tests/tidy/test_mutants.py::test_nothing"}, "no test"),
        ({"test": "tests/tidy/test_nothing.py::test_nothing"}, "no test"),
        ({"file": "tests/wait.py"}, "of the product"),
        ({"file": "src/ringrift/nothing.py"}, "of the product"),
    ],
)
def test_a_mutation_of_nothing_is_found(fields: dict[str, Any], words: str) -> None:
    """A file or test that does not exist is a problem."""
    assert words in problem_of(replace(GOOD, **fields))


def test_rows_are_named_as_on_the_page() -> None:
    """An unknown row, a row with other tests, and too many rows are problems."""
    key, row = next((key, row) for key, row in _page().items() if row.tests and "::" in row.tests[0])

    assert not _problem_of_rows(replace(GOOD, test=row.tests[0], rows=(key,)))
    assert "not among" in _problem_of_rows(replace(GOOD, rows=(key,)))
    assert "no row" in _problem_of_rows(replace(GOOD, rows=("Nothing: at all",)))
    assert "more than" in _problem_of_rows(replace(GOOD, test=row.tests[0], rows=(key,) * (ROWS_MAX + 1)))


@pytest.mark.parametrize("text", ["", "[[mutation]]\nname = 'a'\n", "x = ", "[[mutation]]\n" * 2])
def test_a_bad_table_is_an_error(tmp_path: Path, text: str) -> None:
    """A file without tables, and one whose tables lack a key, are refused."""
    (tmp_path / "a.toml").write_text(text)

    with pytest.raises(BadMutation):
        load(tmp_path)


def test_two_mutations_of_one_name_are_an_error(tmp_path: Path) -> None:
    """Outcomes are stored by area and name."""
    table = "[[mutation]]\nname = 'a'\nfile = 'f'\nold = 'o'\nnew = 'n'\ntest = 't'\n"
    for area in ("a", "b"):
        (tmp_path / f"{area}.toml").write_text(table)
    assert [mutation.id for mutation in load(tmp_path)] == ["a/a", "b/a"]

    (tmp_path / "b.toml").write_text(table * 2)
    with pytest.raises(BadMutation, match="b/a"):
        load(tmp_path)
