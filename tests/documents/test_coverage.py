"""The coverage page: every documented name has a row, and every row's tests exist."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from documents import seeds

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "coverage.md"

NOT_YET = "not yet"
SHOWN = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
PLACE = re.compile(r"`([\w/.]+(?:\.py|/|\.md|\.sql))`")
SEEDS = re.compile(r"00[0-4](, 00[0-4])*")


@dataclass(frozen=True)
class Row:
    """One row of the page: its cells by the name of their column."""

    section: str
    line: int
    cells: dict[str, str]

    @property
    def name(self) -> str:
        """The first cell, without the few words behind a dash."""
        return next(iter(self.cells.values())).split(" — ")[0]

    def __str__(self) -> str:
        return f"docs/coverage.md:{self.line}: {self.name}"


def rows(text: str) -> Iterator[Row]:
    """Every row of every table in *text*."""
    section, columns = "", list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            section, columns = line.lstrip("# "), []
        elif line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not columns:
                columns = cells
            elif set(line) - set("|- "):
                yield Row(section, number, dict(zip(columns, cells, strict=True)))


def problem_of(row: Row, root: Path = ROOT) -> str:
    """The problem with the tests that *row* names; "" if there is none."""
    tests = row.cells["shown by"]
    if tests == NOT_YET:
        return ""
    for part in tests.split(", "):
        test = SHOWN.fullmatch(part)
        if not test:
            return f"{row}: neither {NOT_YET!r} nor a test: {part!r}"
        path, function = test.groups()
        if not (root / path).is_file():
            return f"{row}: no file {path}"
        if function and not _defines(root / path, function):
            return f"{row}: {path} has no {function}"
    return ""


def _defines(path: Path, function: str) -> bool:
    """Whether the test file at *path* has a test of this name."""
    return function.startswith("test_") and function in _functions(path)


@cache
def _functions(path: Path) -> frozenset[str]:
    """The names of what the file at *path* defines."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def duplicates(page: list[Row]) -> list[str]:
    """Names that one section has more than once."""
    counts = Counter((row.section, row.name) for row in page)
    return [f"{section}: {name}" for (section, name), count in counts.items() if count > 1]


@pytest.fixture(scope="module")
def page() -> list[Row]:
    """The rows of the page."""
    page = list(rows(PAGE.read_text(encoding="utf-8")))
    assert page
    return page


def test_every_row_names_tests_that_exist(page: list[Row]) -> None:
    """A row is "not yet", or names tests that exist."""
    problems = [problem for row in page if (problem := problem_of(row))]

    assert not problems, "\n" + "\n".join(problems)


def test_no_name_has_two_rows_in_a_section(page: list[Row]) -> None:
    """A section has each name once."""
    assert not duplicates(page)


def test_every_row_has_its_documents_and_its_place(page: list[Row]) -> None:
    """A row names the documents that promise it and the place that serves it."""
    problems = [str(row) for row in page if not SEEDS.fullmatch(row.cells["seed"]) or not row.cells["lives in"]]

    assert not problems, "\n" + "\n".join(problems)


def test_every_documented_module_has_a_row(page: list[Row]) -> None:
    """The section of modules has every module path of the documents."""
    listed = {row.name.strip("`") for row in page if row.section == "Modules"}

    missing = sorted({fact.module for fact in seeds.recorded()} - listed)

    assert not missing


def test_every_place_exists(page: list[Row]) -> None:
    """A row that is shown by a test names files and folders of ours that exist."""
    tested = [row for row in page if row.cells["shown by"] != NOT_YET]
    places = {(str(row), place) for row in tested for place in PLACE.findall(row.cells["lives in"])}

    missing = sorted(f"{row}: no {place}" for row, place in places if not _exists(place))

    assert not missing, "\n" + "\n".join(missing)


def _exists(place: str) -> bool:
    """Whether *place* exists, from the root or below the folder of one of our packages."""
    roots = (ROOT, ROOT / "src", ROOT / "src" / "ringrift")
    return any((root / place).exists() for root in roots)


def test_the_page_counts_its_rows(page: list[Row]) -> None:
    """The head of the page has the true counts of rows that are shown and not yet, once."""
    waiting = sum(row.cells["shown by"] == NOT_YET for row in page)

    head, _, rest = PAGE.read_text(encoding="utf-8").partition("\n## ")
    assert f"{len(page) - waiting} rows are shown, {waiting} are not yet." in head
    assert len(re.findall(r"rows are shown", head + rest)) == 1


@pytest.mark.parametrize(
    "tests",
    [
        "",
        "soon",
        "Not yet",
        "tests/documents/test_coverage.py",
        "`tests/documents/test_nothing.py`",
        "`tests/documents/test_coverage.py::test_nothing`",
        "`tests/documents/test_coverage.py::rows`",
        "`tests/documents/test_coverage.py`, not yet",
        "`src/ringrift/__init__.py`",
    ],
)
def test_a_row_with_a_wrong_test_is_found(tests: str) -> None:
    """Anything but "not yet" and the ids of existing tests is a problem."""
    (row,) = rows(f"# S\n| name | shown by |\n|---|---|\n| x — a thing | {tests} |")

    assert problem_of(row)


@pytest.mark.parametrize(
    "tests",
    [
        "not yet",
        "`tests/documents/test_coverage.py`",
        "`tests/documents/test_coverage.py::test_a_duplicate_name_is_found`, `tests/documents/test_coverage.py`",
    ],
)
def test_a_row_with_a_right_test_passes(tests: str) -> None:
    """Files and functions that exist are accepted, one or several."""
    (row,) = rows(f"# S\n| name | shown by |\n|---|---|\n| x — a thing | {tests} |")

    assert not problem_of(row)


def test_a_duplicate_name_is_found() -> None:
    """The same name twice in one section is found; in two sections it is not."""
    table = "| name | shown by |\n|---|---|\n| x — a thing | not yet |\n"

    assert duplicates(list(rows(f"# S\n{table}| x — again | not yet |")))
    assert not duplicates(list(rows(f"# S\n{table}# T\n{table}")))
