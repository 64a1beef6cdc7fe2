"""The page of the documented API: what the documents of the earlier system name, where it is served, what shows it."""

import ast
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from ringrift_compat.aliases import ALIASES, DONE_BY, REPLACED
from ringrift_compat.daemons.duties import DUTIES, Duty

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from compat.test_duties import SHOWN_BY  # noqa: E402 - the tests are no package of ours
from documents import not_yet, seeds  # noqa: E402

HOME = "ringrift_compat."
TESTS_SHOWN_MAX = 3
NOT_YET = "not yet"


def served(module: str, name: str) -> str | None:
    """Where *name* of *module* is served, as module:name of ours."""
    row = ALIASES.get(module, {})
    if name in row:
        return row[name]
    family = next((home for key, home in row.items() if "*" in key and fnmatchcase(name, key)), None)
    return None if family is None else f"{family}:{name}"


def documents_of(word: str) -> str:
    """The numbers of the documents in which *word* stands."""
    return ", ".join(path.name[:3] for path in seeds.documents() if word in path.read_text())


@cache
def tests_by_module() -> Mapping[str, tuple[str, ...]]:
    """Which test files import each module of compat."""
    tests: dict[str, set[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for module in _imports(path):
            tests.setdefault(module, set()).add(path.relative_to(ROOT / "tests").as_posix())
    return {module: tuple(sorted(files, key=lambda file: (len(file), file))) for module, files in tests.items()}


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            if node.module.startswith("app."):
                yield from ((served(node.module, alias.name) or "").replace(":", ".") for alias in node.names)


def shown_by(target: str) -> str:
    """The tests that use what is served at *target*."""
    home = target.partition(":")[0]
    files = tests_by_module().get(target.replace(":", ".")) or tests_by_module().get(home) or ()
    return ", ".join(f"`{file}`" for file in files[:TESTS_SHOWN_MAX]) or "`documents/test_seeds.py`"


def rows() -> Iterator[tuple[str, str, str, str, str]]:
    """Document, module, name, ours, tests."""
    named: dict[str, set[str]] = {module: set() for module in seeds.modules()}
    for module, name in seeds.names():
        named.setdefault(module, set()).add(name)
    for module in sorted(named):
        number = documents_of(module.rpartition(".")[2])
        if module not in ALIASES:
            yield number, f"`{module}`", ", ".join(f"`{name}`" for name in sorted(named[module])) or "—", NOT_YET, "—"
            continue
        instead = f"; warns: now `{REPLACED[module]}`" if module in REPLACED else ""
        if module in DONE_BY:
            yield number, f"`{module}`", "—", f"{DONE_BY[module]}{instead}", "`compat/test_finder.py`"
            continue
        for name in sorted(named[module]) or ("",):
            target = served(module, name) if name else next(iter(ALIASES[module].values()))
            if target is None:
                yield number, f"`{module}`", f"`{name}`", NOT_YET, "—"
            else:
                home = target.removeprefix(HOME)
                ours = f"`{home.replace(':', '.') if name else home.partition(':')[0]}`{instead}"
                yield number, f"`{module}`", f"`{name}`" if name else "—", ours, shown_by(target)


def page(table: Callable[[Sequence[str], Iterable[Sequence[object]]], str]) -> str:
    """The page, made of tables by *table*."""
    table_rows = list(rows())
    modules = {row[1] for row in table_rows}
    missing = {row[1] for row in table_rows if row[3] == NOT_YET}
    text = f"""# The documented API

What the five documents of the earlier system name: {len(modules)} modules, of which {len(modules - missing)} are
served whole. *Ours* is below `src/ringrift_compat`: an adapter, and the work is done by what it calls. Whether the
documents' own examples run is shown by `tests/documents/test_seeds.py`; what does not yet is listed in
`tests/documents/not_yet.py` ({len(not_yet.BLOCKS.split())} examples). Tests are below `tests`.

"""
    text += table(("document", "module", "name", "ours", "shown by"), table_rows)
    text += """
## Daemons

Every `DaemonType` of the documents and the earlier system: whether its duty is done here, by which daemon or part, and
the test that fails if it is not. What is not done never runs, and says what brings it.

"""
    return text + table(("daemon", "duty", "here", "shown by"), map(_duty, DUTIES.values()))


def _duty(duty: Duty) -> tuple[str, str, str, str]:
    state = "done" if duty.is_done else duty.target.partition(": ")[0]
    here = duty.target if duty.is_done else duty.target.partition(": ")[2]
    needs = f", if `{duty.setting}` is set" if duty.setting else ""
    own = "our own daemon" if duty.name.lower() == duty.target else "—"
    return f"`{duty.name}`", state, here + needs, f"`{SHOWN_BY[duty.name]}`" if duty.name in SHOWN_BY else own


def is_possible() -> bool:
    """Whether the documents are at hand."""
    return bool(seeds.documents())
