"""Seeds: what the five documents of the earlier system name and show: module paths, names in them, Python blocks.

``PYTHONPATH=tests python -m documents.seeds`` writes the table of facts (``facts.txt``) again, from the documents.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "seeds"
FACTS = Path(__file__).with_name("facts.txt")
TRIES_MAX = 100

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_PATH = re.compile(r"\bapp/([a-z0-9_/]+)\.py\b")
_ROW = re.compile(r"^\| *`([a-z0-9_]+)\.py` *\|(.*)\|\s*$", re.MULTILINE)
_ARCHIVED = re.compile(r"^\| *`[a-z0-9_/]+\.py` *\| *`([a-z0-9_]+)\.py` *\|\s*$", re.MULTILINE)
_NAME = re.compile(r"`@?([A-Za-z_][A-Za-z0-9_]*)(?:\(\))?`")
_BODILESS = re.compile(r"on line (\d+)$")


@dataclass(frozen=True)
class Block:
    """One Python block of a document, as it is printed."""

    id: str
    """The document and which one it is there: ``000.3``."""
    text: str


def documents() -> list[Path]:
    """The five documents; none where they are not there."""
    return sorted(FOLDER.glob("*.txt"))


def blocks(document: Path) -> list[Block]:
    """Every Python block of *document*, in order."""
    number = document.name.partition("_")[0]
    texts = _BLOCK.findall(document.read_text())
    return [Block(f"{number}.{place}", text) for place, text in enumerate(texts, 1)]


def with_bodies(text: str) -> str:
    """*text* with ``...`` where only a comment stands in a body."""
    lines = text.splitlines()
    for _ in range(TRIES_MAX):
        try:
            compile("\n".join(lines), "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except IndentationError as bare:
            place = _BODILESS.search(bare.msg)
            if place is None:
                raise
            opener = lines[int(place[1]) - 1]
            lines.insert(int(place[1]), " " * (len(opener) - len(opener.lstrip()) + 4) + "...")
        else:
            break
    return "\n".join(lines)


def modules() -> set[str]:
    """Every module path of ``app`` that a document names in an import, in a table or in its text."""
    paths = {module for module, _ in imports()}
    for document in documents():
        text = document.read_text()
        paths |= {f"app.{path.replace('/', '.')}" for path in _PATH.findall(text)}
        paths |= {f"app.coordination.{name}" for name, _ in _ROW.findall(text)}
        paths |= {f"app.coordination.{name}" for name in _ARCHIVED.findall(text)}
    return paths


def imports() -> Iterator[tuple[str, str]]:
    """Every name that a block imports from a module of ``app``."""
    for document in documents():
        for block in blocks(document):
            yield from _imports(ast.parse(with_bodies(block.text)))


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "app":
            yield from ((str(node.module), name.name) for name in node.names)


def names() -> set[tuple[str, str]]:
    """Every name that a document says a module has: in an import, or in the tables of key functions."""
    pairs = set(imports())
    for module, cells in _ROW.findall(documents()[0].read_text()):
        last = cells.split("|")[-1]
        pairs |= {(f"app.coordination.{module}", name) for name in _NAME.findall(last)}
    return pairs


def calls() -> dict[tuple[str, str], set[str]]:
    """How the documents call each name that they import: positional arguments as ``.``, keywords by name."""
    shapes: dict[tuple[str, str], set[str]] = {}
    for document in documents():
        origins: dict[str, str] = {}
        for block in blocks(document):
            tree = ast.parse(with_bodies(block.text))
            origins |= {name: module for module, name in _imports(tree)}
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in origins:
                    shape = ",".join(["." for _ in node.args] + [f"{word.arg}=" for word in node.keywords])
                    shapes.setdefault((origins[node.func.id], node.func.id), set()).add(f"({shape})")
    return shapes


@dataclass(frozen=True)
class Fact:
    """One row of the table: a module, and a name in it unless the documents print none."""

    module: str
    name: str = ""
    kind: str = ""
    """class, function or constant, by the way it is written."""
    calls: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.module, self.name, self.kind, *self.calls)).strip()


def facts() -> list[Fact]:
    """What the documents say, by module and name."""
    shapes, pairs = calls(), names()
    bare = modules() - {module for module, _ in pairs}
    rows = [Fact(module) for module in bare]
    rows += [Fact(module, name, _kind(name), tuple(sorted(shapes.get((module, name), ())))) for module, name in pairs]
    return sorted(rows, key=str)


def _kind(name: str) -> str:
    if name.isupper():
        return "constant"
    return "class" if name[0].isupper() else "function"


def recorded() -> list[Fact]:
    """The table of facts as the repository has it: it is there where the documents are not."""
    rows = [line.split(" ") for line in FACTS.read_text().splitlines() if line]
    return [Fact(row[0], *row[1:3], calls=tuple(row[3:])) for row in rows]


if __name__ == "__main__":
    FACTS.write_text("".join(f"{fact}\n" for fact in facts()))
