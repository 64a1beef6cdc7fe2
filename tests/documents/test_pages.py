"""The pages name only what there is: files of ours, commands, daemons' and settings' names, links to other pages."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE = re.compile(r"`([\w/.-]+\.(?:py|md|sql|toml|txt|json))(?:::(\w+))?`")
COMMAND = re.compile(r"`(?:\.venv/bin/)?ringrift ([a-z]+(?:-[a-z]+)*)\b")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
TARGET = re.compile(r"`make ([a-z0-9]+)")
FOLDERS = ("src", "tests", "docs", "bench", "tools", "scripts", "examples", "deploy", "requirements", "changes")
# Made by a run or by a reader of the page, not part of the repository.
MADE = re.compile(r"^(data|ringrift\.toml|my_|nim|own|report|\.venv)|^[a-z_]+\.(json|toml|txt)$")
# Written at another time, or about the future, or checked row by row by a test of its own.
EXEMPT = ("docs/decisions/", "docs/coverage.md", "changes/", "CHANGELOG.md")


@cache
def pages() -> tuple[Path, ...]:
    """Every page that is written by hand."""
    listed = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return tuple(sorted(path for path in listed if not path.relative_to(ROOT).as_posix().startswith(EXEMPT)))


@cache
def files() -> frozenset[str]:
    """Every file of the repository, by its path and by each end of it: ``machine.py``, ``pipeline/machine.py`` …"""
    names = set()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            parts = path.relative_to(ROOT).parts
            names |= {"/".join(parts[start:]) for start in range(len(parts))}
    return frozenset(names | {path.name for path in ROOT.iterdir()})


def unknown(page: Path) -> Iterator[str]:
    """What *page* names and there is not."""
    from ringrift.cli.main import _COMMANDS

    text = page.read_text(encoding="utf-8")
    for name, _ in FILE.findall(text):
        if name not in files() and not MADE.match(name):
            yield f"file {name}"
    yield from (f"command {name}" for name in COMMAND.findall(text) if name not in _COMMANDS)
    yield from (f"link {link}" for link in LINK.findall(text) if not (page.parent / link).exists())
    targets = re.findall(r"^([a-z0-9]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    yield from (f"make {name}" for name in TARGET.findall(text) if name not in targets)


@pytest.mark.parametrize("page", pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_names_only_what_there_is(page: Path) -> None:
    """Every file, command, make target and link on the page exists."""
    assert not sorted(set(unknown(page)))


def test_a_page_that_names_something_else_is_found(tmp_path: Path) -> None:
    """A file, a command, a target and a link that do not exist are each found."""
    page = tmp_path / "page.md"
    page.write_text("`pipeline/nothing.py` `ringrift nothing` `make nothing` [x](nothing.md)")

    assert sorted(unknown(page)) == [
        "command nothing",
        "file pipeline/nothing.py",
        "link nothing.md",
        "make nothing",
    ]
