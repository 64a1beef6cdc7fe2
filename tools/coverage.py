"""Write the states of docs/coverage.md again, from its tests and from the outcomes of mutations."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from documents.coverage import PAGE, page_as_it_should_be

if __name__ == "__main__":
    text = page_as_it_should_be()
    PAGE.write_text(text, encoding="utf-8")
    print(next(line for line in text.splitlines() if " rows are shown, " in line))
