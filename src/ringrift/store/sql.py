"""Named queries: reads ``-- name: x`` blocks from a .sql file, so that SQL lives in SQL files."""

from collections.abc import Mapping
from importlib.resources import files


def load(package: str, file: str) -> Mapping[str, str]:
    """Every query of *file* in *package* by its name.  Each has a description line below its name."""
    queries: dict[str, str] = {}
    for block in files(package).joinpath(file).read_text().split("-- name: ")[1:]:
        name, _, rest = block.partition("\n")
        described, _, query = rest.partition("\n")
        assert described.startswith("-- "), f"query {name} in {file} has no description"
        assert name not in queries, f"query {name} in {file} is there twice"
        queries[name.strip()] = query.strip().rstrip(";")
    return queries


def migrations(package: str) -> list[tuple[int, str]]:
    """The numbered migrations of *package*, in order: (number, script)."""
    scripts = [entry for entry in files(package).iterdir() if entry.name.endswith(".sql")]
    numbered = sorted((int(entry.name.split("_")[0]), entry.read_text()) for entry in scripts)
    assert [number for number, _ in numbered] == list(range(1, len(numbered) + 1)), "migrations are numbered 1, 2, 3 …"
    return numbered
