"""The reference pages equal the code."""

import importlib.util
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@cache
def _pages() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: dict[str, str] = module.pages()
    return made


@pytest.mark.parametrize("file", sorted(path.name for path in (ROOT / "docs" / "reference").iterdir()))
def test_a_reference_page_is_what_the_code_says(file: str) -> None:
    """A page that was not written again after a change of the code fails here: run make docs."""
    assert (ROOT / "docs" / "reference" / file).read_text() == _pages()[file]


def test_every_page_is_generated() -> None:
    """No page of the reference is written by hand."""
    there = {path.name for path in (ROOT / "docs" / "reference").iterdir()}

    assert there == set(_pages())
