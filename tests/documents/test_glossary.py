"""The glossary is short, has each word once, and says what other systems call it."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "glossary.md"
ENTRIES_MAX = 60
ROW = re.compile(r"^\| \*\*(.+?)\*\* \| (.+?) \| (.+?) \|$")


def test_the_glossary_is_short_and_has_the_words_of_others() -> None:
    """At most sixty entries, each word once, each with its meaning and the word that other systems use."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")][2:]
    rows = [ROW.match(line) for line in lines]

    assert all(rows), [line for line, row in zip(lines, rows, strict=True) if not row]
    words = [row[1] for row in rows if row]
    assert 0 < len(words) <= ENTRIES_MAX
    assert len(set(words)) == len(words)
