"""Seeds: what the five documents of the earlier system name and show: module paths, names in them, Python blocks."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "seeds"
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
    found = _BLOCK.findall(document.read_text())
    return [Block(f"{number}.{place}", text) for place, text in enumerate(found, 1)]


def with_bodies(text: str) -> str:
    """*text* with ``...`` where only a comment stands in a body."""
    lines = text.splitlines()
    for _ in range(TRIES_MAX):
        try:
            compile("\n".join(lines), "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except IndentationError as bare:
            found = _BODILESS.search(bare.msg)
            if found is None:
                raise
            opener = lines[int(found[1]) - 1]
            lines.insert(int(found[1]), " " * (len(opener) - len(opener.lstrip()) + 4) + "...")
        else:
            break
    return "\n".join(lines)


def modules() -> set[str]:
    """Every module path of ``app`` that a document names in an import, in a table or in its text."""
    found = {module for module, _ in imports()}
    for document in documents():
        text = document.read_text()
        found |= {f"app.{path.replace('/', '.')}" for path in _PATH.findall(text)}
        found |= {f"app.coordination.{name}" for name, _ in _ROW.findall(text)}
        found |= {f"app.coordination.{name}" for name in _ARCHIVED.findall(text)}
    return found


def imports() -> Iterator[tuple[str, str]]:
    """Every name that a block imports from a module of ``app``."""
    for document in documents():
        for block in blocks(document):
            for node in ast.walk(ast.parse(with_bodies(block.text))):
                if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "app":
                    yield from ((str(node.module), name.name) for name in node.names)


def names() -> set[tuple[str, str]]:
    """Every name that a document says a module has: in an import, or in the tables of key functions."""
    found = set(imports())
    for module, cells in _ROW.findall(documents()[0].read_text()):
        last = cells.split("|")[-1]
        found |= {(f"app.coordination.{module}", name) for name in _NAME.findall(last)}
    return found
