"""The coverage page: its rows, and the state of each as tests and mutations show it.

People write the rows.  The last column, *state*, and the sentence with the counts are computed from the other columns
and from the outcomes of mutations (tests/mutations.py); only the reason behind the colon of a state is theirs too.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mutations import KILLED, Mutation, current, load, results

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "coverage.md"

SHOWN, PARTLY, NOT_YET = "shown", "partly", "not yet"
NO_TEST = "—"
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
_COUNTS = re.compile(r"^\d+ rows are shown, \d+ .*not yet\.$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """One row of the page: its cells by the name of their column."""

    section: str
    line: int
    cells: Mapping[str, str]

    @property
    def name(self) -> str:
        """The first cell, without the few words behind a dash."""
        return next(iter(self.cells.values())).split(" — ")[0]

    @property
    def key(self) -> str:
        """How mutations name it."""
        return f"{self.section}: {self.name}".replace("`", "")

    @property
    def tests(self) -> tuple[str, ...]:
        """The ids of its tests: files or functions."""
        return tuple(part.strip("`") for part in self.cells["shown by"].split(", ") if TEST.fullmatch(part))

    @property
    def is_tested(self) -> bool:
        """Whether it names tests at all."""
        return not self.cells["shown by"].startswith((NO_TEST, NOT_YET))

    def has_test(self, function: str) -> bool:
        """Whether the test function with this id is one of its tests, by itself or with its file."""
        return function in self.tests or function.partition("::")[0] in self.tests

    def __str__(self) -> str:
        return f"docs/coverage.md:{self.line}: {self.name}"


def rows(text: str) -> Iterator[Row]:
    """Every row of every table in *text*."""
    section, columns = "", list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            section, columns = line.lstrip("# "), []
        elif line.startswith("|"):
            cells = _cells(line)
            if not columns:
                columns = cells
            elif not _is_rule(line):
                # A row that a person has just added may lack its state.
                yield Row(section, number, dict(zip(columns, [*cells, ""][: len(columns)], strict=True)))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _is_rule(line: str) -> bool:
    return not set(line) - set("|- ")


def state_of(row: Row, mutations: Sequence[tuple[Mutation, str]], reason: str = "") -> str:
    """The state of *row*, given the mutations that name it with their outcomes, and the *reason* if it is not shown."""
    ending = f": {reason}" if reason else ""
    if not row.is_tested:
        return NOT_YET + ending
    own = [outcome for mutation, outcome in mutations if row.has_test(mutation.function)]
    is_shown = KILLED in own and set(own) == {KILLED} and not reason
    return SHOWN if is_shown else PARTLY + ending


def with_tests(row: Row, mutations: Sequence[tuple[Mutation, str]]) -> Row:
    """*row* with the tests of the mutations that name it among its tests."""
    tests = row.cells["shown by"] if row.is_tested else ""
    for function in dict.fromkeys(mutation.function for mutation, _ in mutations):
        if not row.has_test(function):
            tests += f"{', ' if tests else ''}`{function}`"
    return replace(row, cells={**row.cells, "shown by": tests or NO_TEST})


def render(text: str, mutations: Sequence[Mutation], outcomes: Mapping[str, str]) -> str:
    """*text* with its states and counts as they are, and with the tests of the mutations of each row."""
    by_row: dict[str, list[tuple[Mutation, str]]] = defaultdict(list)
    for mutation in mutations:
        for key in mutation.rows:
            by_row[key].append((mutation, outcomes[mutation.id]))
    lines, counts = text.splitlines(), Counter[str]()
    for row in rows(text):
        own = by_row[row.key]
        # Before its tests are added: the reason of a row that was not yet may stand in their place.
        reason = (row.cells.get("state") or row.cells["shown by"]).partition(": ")[2]
        row = with_tests(row, own)
        state = state_of(row, own, reason)
        others = [cell for column, cell in row.cells.items() if column not in ("shown by", "state")]
        lines[row.line - 1] = f"| {' | '.join([*others, row.cells['shown by'], state])} |"
        counts[state.partition(":")[0]] += 1
    sentence = f"{counts[SHOWN]} rows are shown, {counts[PARTLY]} partly, {counts[NOT_YET]} not yet."
    return _COUNTS.sub(sentence, "\n".join(lines) + "\n")


def page_as_it_should_be() -> str:
    """The page with the states that the stored outcomes give."""
    mutations = load()
    return render(PAGE.read_text(encoding="utf-8"), mutations, current(mutations, results()))
