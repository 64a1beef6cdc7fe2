"""The coverage page: every documented name has a row, and every row's tests exist."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from documents import seeds
from documents.coverage import (
    NO_TEST,
    NOT_YET,
    PAGE,
    PARTLY,
    ROOT,
    SHOWN,
    TEST,
    Row,
    page_as_it_should_be,
    render,
    rows,
    state_of,
)
from mutations import Mutation

PLACE = re.compile(r"`([\w/.]+(?:\.py|/|\.md|\.sql))`")
SEEDS = re.compile(r"00[0-4](, 00[0-4])*")
SHOWN_MIN = 450


def problem_of(row: Row, root: Path = ROOT) -> str:
    """The problem with the tests that *row* names; "" if there is none."""
    tests = row.cells["shown by"]
    if tests == NO_TEST:
        return ""
    for part in tests.split(", "):
        test = TEST.fullmatch(part)
        if not test:
            return f"{row}: neither {NO_TEST!r} nor a test: {part!r}"
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
    """A row has no tests, or names tests that exist."""
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
    tested = [row for row in page if row.is_tested]
    places = {(str(row), place) for row in tested for place in PLACE.findall(row.cells["lives in"])}

    missing = sorted(f"{row}: no {place}" for row, place in places if not _exists(place))

    assert not missing, "\n" + "\n".join(missing)


def _exists(place: str) -> bool:
    """Whether *place* exists, from the root or below the folder of one of our packages."""
    roots = (ROOT, ROOT / "src", ROOT / "src" / "ringrift")
    return any((root / place).exists() for root in roots)


def test_the_states_are_those_that_mutations_show() -> None:
    """The states and their counts are computed; after a change of rows, tests or outcomes run make docs."""
    assert PAGE.read_text(encoding="utf-8") == page_as_it_should_be()


def test_the_page_counts_its_rows(page: list[Row]) -> None:
    """The head of the page has the counts of rows in each state, once."""
    counts = Counter(row.cells["state"].partition(":")[0] for row in page)

    head, _, rest = PAGE.read_text(encoding="utf-8").partition("\n## ")
    assert f"{counts[SHOWN]} rows are shown, {counts[PARTLY]} partly, {counts[NOT_YET]} not yet." in head
    assert len(re.findall(r"rows are shown", head + rest)) == 1


def test_truth_is_not_bought_by_saying_less(page: list[Row]) -> None:
    """A row that turns out to be wrong is corrected, and enough of what works is shown by tests that can fail."""
    assert sum(row.cells["state"] == SHOWN for row in page) >= SHOWN_MIN


def _row(tests: str) -> Row:
    (row,) = rows(f"# S\n| name | shown by | state |\n|---|---|---|\n| `x` — a thing | {tests} | |")
    return row


def _outcome(outcome: str, test: str = "tests/a.py::test_b[1]") -> tuple[Mutation, str]:
    return Mutation(name="m", area="a", file="f", old="o", new="n", test=test, rows=("S: x",)), outcome


@pytest.mark.parametrize(
    ("tests", "reason", "outcomes", "state"),
    [
        (NO_TEST, "", [], "not yet"),
        (NO_TEST, "no second machine", [], "not yet: no second machine"),
        ("`tests/a.py::test_b`", "", [], "partly"),
        ("`tests/a.py::test_b`", "", [_outcome("killed")], "shown"),
        ("`tests/a.py`", "", [_outcome("killed")], "shown"),
        ("`tests/a.py::test_c`", "", [_outcome("killed")], "partly"),
        ("`tests/a.py::test_b`", "only one of two", [_outcome("killed")], "partly: only one of two"),
        ("`tests/a.py::test_b`", "", [_outcome("killed"), _outcome("survived")], "partly"),
        ("`tests/a.py::test_b`", "", [_outcome("")], "partly"),
    ],
)
def test_a_state_follows_from_tests_and_mutations(
    tests: str, reason: str, outcomes: list[tuple[Mutation, str]], state: str
) -> None:
    """Shown needs a mutation that a test of the row kills, and none that survives; a reason keeps it partly."""
    assert state_of(_row(tests), outcomes, reason) == state


def test_a_page_is_written_with_states_and_counts() -> None:
    """A row without a state gets one, and what people write stays."""
    head = "# S\n\n0 rows are shown, 5 are not yet.\n\n| name | shown by | state |\n|---|---|---|\n"
    text = f"{head}| x — a | `tests/a.py` |\n| y — b | not yet: later |\n"

    written = render(text, [_outcome("")[0]], {"a/m": "killed"})

    assert "1 rows are shown, 0 partly, 1 not yet." in written
    assert "| x — a | `tests/a.py` | shown |\n| y — b | — | not yet: later |\n" in written
    assert render(written, [_outcome("")[0]], {"a/m": "killed"}) == written


def test_the_test_of_a_mutation_is_added_to_its_row() -> None:
    """Whoever writes a mutation need not edit the page."""
    text = "# S\n| name | shown by | state |\n|---|---|---|\n| x — a | `tests/c.py` | partly |\n"

    written = render(text, [_outcome("")[0]], {"a/m": "killed"})

    assert "| x — a | `tests/c.py`, `tests/a.py::test_b` | shown |\n" in written


@pytest.mark.parametrize(
    "tests",
    [
        "",
        "soon",
        "not yet",
        "tests/documents/test_coverage.py",
        "`tests/documents/test_nothing.py`",
        "`tests/documents/test_coverage.py::test_nothing`",
        "`tests/documents/test_coverage.py::rows`",
        "`tests/documents/test_coverage.py`, —",
        "`src/ringrift/__init__.py`",
    ],
)
def test_a_row_with_a_wrong_test_is_found(tests: str) -> None:
    """Anything but "—" and the ids of existing tests is a problem."""
    assert problem_of(_row(tests))


@pytest.mark.parametrize(
    "tests",
    [
        "—",
        "`tests/documents/test_coverage.py`",
        "`tests/documents/test_coverage.py::test_a_duplicate_name_is_found`, `tests/documents/test_coverage.py`",
    ],
)
def test_a_row_with_a_right_test_passes(tests: str) -> None:
    """Files and functions that exist are accepted, one or several."""
    assert not problem_of(_row(tests))


def test_a_duplicate_name_is_found() -> None:
    """The same name twice in one section is found; in two sections it is not."""
    table = "| name | shown by |\n|---|---|\n| x — a thing | — |\n"

    assert duplicates(list(rows(f"# S\n{table}| x — again | — |")))
    assert not duplicates(list(rows(f"# S\n{table}# T\n{table}")))
