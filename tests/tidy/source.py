"""The source tree as the house rules read it: files, syntax trees, where names come from, findings."""

import ast
import gc
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
EVENTS = "src/ringrift/events/"
DAEMONS = "src/ringrift/daemons/"


@dataclass(frozen=True)
class Source:
    """One Python file; *path* is written from the root of the repository, with forward slashes."""

    path: str
    text: str = field(repr=False)

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of it: many rules look at them all."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def imported(self) -> "tuple[tuple[str, ast.stmt | ast.expr], ...]":
        """Every full name that the file imports or uses through an import, with its place."""
        return tuple(_imported(self))

    @cached_property
    def origins(self) -> dict[str, str]:
        """What each imported name stands for: ``from time import sleep as nap`` gives ``nap`` → ``time.sleep``."""
        return dict(_origins(self.tree))

    @property
    def stem(self) -> str:
        """The file's name without its ending."""
        return PurePosixPath(self.path).stem

    def below(self, *homes: str) -> bool:
        """Whether it is one of *homes*, or lies in one of them that ends in a slash."""
        return any(self.path.startswith(home) if home.endswith("/") else self.path == home for home in homes)


@dataclass(frozen=True)
class Finding:
    """One place that breaks a rule."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


Check = Callable[[Source], Iterable[Finding]]


def product() -> tuple[Source, ...]:
    """Every file of the product."""
    return _read("src")


def suite() -> tuple[Source, ...]:
    """Every file of the tests."""
    return _read("tests")


@cache
def _read(folder: str) -> tuple[Source, ...]:
    paths = sorted(path for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts)
    assert paths
    return tuple(Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in paths)


def expect_none(check: Check, sources: Iterable[Source]) -> None:
    """Fail with one line for each place in *sources* that *check* finds."""
    findings = sorted({str(finding) for source in sources for finding in check(source)})
    gc.freeze()  # the trees stay: whoever collects garbage later, as the simulator does, need not walk over them
    assert not findings, "\n" + "\n".join(findings)


def at(source: Source, node: ast.stmt | ast.expr | ast.ExceptHandler | ast.keyword, what: str) -> Finding:
    """A finding at *node*."""
    return Finding(source.path, node.lineno, what)


def snake(name: str) -> str:
    """``BatchFinished`` → ``batch_finished``, ``HTTPWire`` → ``http_wire``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _origins(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield (name.asname, name.name) if name.asname else (name.name.split(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for name in node.names:
                yield name.asname or name.name, f"{node.module}.{name.name}"


def dotted(source: Source, node: ast.expr) -> str:
    """The full name that *node* stands for, imports resolved; "" if it is not a plain chain of names."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([source.origins.get(node.id, node.id), *reversed(parts)])


def imported(source: Source) -> Iterable[tuple[str, ast.stmt | ast.expr]]:
    """Every full name that the file imports or uses through an import, with its place."""
    return source.imported


def _imported(source: Source) -> Iterator[tuple[str, ast.stmt | ast.expr]]:
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from ((name.name, node) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((f"{node.module}.{name.name}", node) for name in node.names)
        elif isinstance(node, ast.Attribute | ast.Name):
            name = dotted(source, node)
            if _root(node) in source.origins:
                yield name, node


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def is_within(name: str, *roots: str) -> bool:
    """Whether *name* is one of *roots* or something inside one."""
    return any(name == root or name.startswith(f"{root}.") for root in roots)


def calls(source: Source) -> Iterator[tuple[str, ast.Call]]:
    """Every call, with the full name of what is called ("" if it has none)."""
    return ((dotted(source, node.func), node) for node in source.nodes if isinstance(node, ast.Call))


def tagged(source: Source) -> Iterator[tuple[ast.ClassDef, object]]:
    """Every class with a tag, and the tag (None if it is not a literal)."""
    for node in source.nodes:
        if isinstance(node, ast.ClassDef):
            for word in node.keywords:
                if word.arg == "tag":
                    yield node, word.value.value if isinstance(word.value, ast.Constant) else None
