"""Adding things is cheap: the examples of CONTRIBUTING.md, put into a copy of the repository, run there."""

import re
from pathlib import Path

import pytest

from e2e.scratch import ROOT, copy, run

BLOCK = re.compile(r"^```\w+ (new|append|insert|replace) (\S+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^### An? (.+)$", re.MULTILINE)
COUNT = re.compile(r"^\| an? ([a-z ]+) \| (\d) \|", re.MULTILINE)
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def apply(root: Path, verb: str, path: str, where: str, text: str) -> None:
    """Change the file at *path* below *root* as a block of the page says."""
    file = root / path
    if verb == "new":
        assert not file.exists(), path
        file.write_text(text)
        return
    before = file.read_text()
    if verb == "append":
        file.write_text(before + text)
        return
    side, anchor = re.fullmatch(r' ?(after|before|) ?"(.*)"', where).groups()  # type: ignore[union-attr]  # the page is ours
    anchor = anchor.replace('\\"', '"')
    assert before.count(anchor) == 1, f"{path}: {anchor!r} stands there {before.count(anchor)} times"
    start = before.index(anchor)
    if verb == "replace":
        file.write_text(before.replace(anchor, text.rstrip("\n")))
    elif side == "before":
        file.write_text(before[:start] + text + before[start:])
    else:
        end = before.index("\n", start) + 1
        file.write_text(before[:end] + text + before[end:])


def files_by_section() -> dict[str, set[str]]:
    """The files that the example of each section touches."""
    _, *parts = SECTION.split(PAGE.partition("## Before")[0])
    sections = zip(parts[::2], parts[1::2], strict=True)
    return {name: {path for _, path, _, _ in BLOCK.findall(text)} for name, text in sections}


def test_each_example_touches_as_many_files_as_the_table_says() -> None:
    """The counts of the table are those of the examples."""
    counts = {name: int(count) for name, count in COUNT.findall(PAGE)}
    touched = {name: len(files) for name, files in files_by_section().items()}

    assert touched == {"setting": 2, "event": 2, "daemon": 2, "command": 2, "job kind": 4}
    assert {name: counts[name] for name in touched} == touched


@pytest.mark.timeout(600)
def test_the_examples_run(tmp_path: Path) -> None:
    """With all of them in a copy, their tests, the house rules and the generic tests of each part pass there."""
    root = copy(tmp_path)
    for block in BLOCK.findall(PAGE):
        apply(root, *block)
    added = sorted({path for _, path, _, _ in BLOCK.findall(PAGE) if path.startswith("tests/")})
    generic = ["tests/tidy", "tests/unit/events", "tests/unit/kernel", "tests/unit/daemons", "tests/unit/test_jobs.py"]

    for tool in ("tools/record_events.py", "tools/reference.py"):
        code, output = run(root, tool)
        assert code == 0, output
    pytest_line = ("-m", "pytest", "-q", "-n", "2", "--deselect", "tests/tidy/test_sizes.py::test_packages_stay_small")
    code, output = run(root, *pytest_line, *added, *generic, "tests/unit/workload", "tests/documents/test_reference.py")

    assert code == 0, output
    assert "| `work.census_seconds` |" in (root / "docs" / "reference" / "settings.md").read_text()
    assert "## ringrift census" in (root / "docs" / "reference" / "cli.md").read_text()
