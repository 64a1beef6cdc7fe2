"""Mutations: a table of small changes to the product, each with the test that must notice it.

A test shows a capability only if it fails once the capability is gone.  So every row that ``docs/coverage.md`` calls
*shown*, and every safeguard, has a mutation in ``tests/mutants/<area>.toml``::

    [[mutation]]
    name = "the-history-has-the-oldest-events"
    file = "src/ringrift_compat/events/event_router.py"
    old = "return events[-limit:] if limit > 0 else []"
    new = "return events[:limit] if limit > 0 else []"
    test = "tests/compat/test_event_stats.py::test_an_event_is_found_by_name_among_thousands"
    rows = ["The buses and the router: router.get_recent_events(limit)"]

``name`` is unique in its file.  ``old`` occurs exactly once in ``file``: use ''' for several lines, and as much
context as makes it unique.  ``test`` is the id of one test function, with or without its parameters.  ``rows`` are rows
of the coverage page, as ``Section: name`` without backticks and without what stands behind the dash; each of them lists
``test`` among its tests.  A safeguard that has no row leaves ``rows`` out.

A mutation changes only the behaviour that its rows promise: the module still imports; names, signatures and imports
stay; no ``raise`` or ``assert`` is added.  Good ones return the wrong item, drop a step, turn a comparison round or
forget a filter.  ``make lint`` checks the form (tests/tidy/test_mutants.py), ``make mutants [AREA=buses] [NAME=part]
[NEW=1]`` runs them and stores the outcomes in ``tests/mutants/results.json``; ``make docs`` writes the coverage page
from these.

Outcomes: **killed**: the test fails by what it asserts or by a typed error, and another test of its file still passes.
**survived**: the test passes, so it does not show the row: mend the test.  **invalid**: the test fails because the code
crashes (``TypeError``, ``ImportError``, …): write a mutation that runs and does the wrong thing.  **too broad**: no
other test of the file passes.  **failing**: the test fails without the mutation as well.
"""

import argparse
import ast
import fcntl
import hashlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "mutants"
RESULTS = FOLDER / "results.json"
KEYS = {"name", "file", "old", "new", "test"}

KILLED, SURVIVED, INVALID, BROAD, FAILING = "killed", "survived", "invalid", "too broad", "failing"
TEST_SECONDS_MAX = 60
RUN_SECONDS_MAX = 150.0
BASELINE_SECONDS_MAX = 600.0


class BadMutation(Exception):
    """A table of ``tests/mutants`` cannot be read."""


@dataclass(frozen=True)
class Mutation:
    """One change of *old* to *new* in *file* that *test* must notice; *rows* of the coverage page rest on it."""

    name: str
    area: str
    file: str
    old: str
    new: str
    test: str
    rows: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """What its outcome is stored under."""
        return f"{self.area}/{self.name}"

    @property
    def function(self) -> str:
        """The id of its test without parameters."""
        return self.test.partition("[")[0]

    def apply(self, text: str) -> str:
        """*text* with the change."""
        return text.replace(self.old, self.new, 1)

    def digest(self, root: Path = ROOT) -> str:
        """Changes with the mutation and with the text of its test, so that an outcome of another time is known."""
        parts = (self.file, self.old, self.new, self.test, _body(root, self.function))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Outcome:
    """How the run of a mutation ended; *reason* for people."""

    word: str
    reason: str = ""


def load(folder: Path = FOLDER) -> list[Mutation]:
    """Every mutation of every area."""
    mutations = [mutation for path in sorted(folder.glob("*.toml")) for mutation in _read(path)]
    if ids := [id for id, count in Counter(mutation.id for mutation in mutations).items() if count > 1]:
        raise BadMutation(f"names of several mutations: {', '.join(ids)}")
    return mutations


def _read(path: Path) -> list[Mutation]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))["mutation"]
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise BadMutation(f"{path.name}: no tables [[mutation]] in it: {error}") from error
    for table in tables:
        if not KEYS <= set(table) <= KEYS | {"rows"}:
            raise BadMutation(f"{path.name}: {table.get('name', '?')}: the keys are {sorted(KEYS)} and rows")
    return [Mutation(**{**table, "rows": tuple(table.get("rows", ()))}, area=path.stem) for table in tables]


@cache
def _functions(path: Path) -> dict[str, str]:
    """The functions of a file, with their texts; layout does not count."""
    text = path.read_text(encoding="utf-8")
    lines, nodes = text.splitlines(), ast.walk(ast.parse(text))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {node.name: " ".join(" ".join(lines[_first(node) - 1 : node.end_lineno]).split()) for node in functions}


def _first(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The line where *node* begins, with its decorators: they hold the parameters of a test."""
    return min(part.lineno for part in (node, *node.decorator_list))


def _file(test: str) -> str:
    """The file of a test."""
    return test.partition("::")[0]


def _body(root: Path, function: str) -> str:
    path, _, name = function.partition("::")
    return _functions(root / path).get(name, "") if (root / path).is_file() else ""


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def results(path: Path = RESULTS) -> dict[str, dict[str, str]]:
    """The stored outcomes by the ids of mutations."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def current(mutations: Iterable[Mutation], stored: dict[str, dict[str, str]]) -> dict[str, str]:
    """The outcome of each mutation, "" where it has none or where mutation or test have changed since."""
    words = {}
    for mutation in mutations:
        entry = stored.get(mutation.id, {})
        words[mutation.id] = entry.get("outcome", "") if entry.get("digest") == mutation.digest() else ""
    return words


def _store(id: str, entry: dict[str, str]) -> None:
    """Add an outcome to the stored ones and drop those of mutations that are gone; several runs may do so at once."""
    lock = os.open(FOLDER, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        merged = results() | {id: entry}
        try:
            ids = {mutation.id for mutation in load()}
        except BadMutation:
            ids = set(merged)  # somebody is writing a table just now
        merged = {name: entry for name, entry in merged.items() if name in ids}
        lines = [f"{json.dumps(name)}: {json.dumps(merged[name], sort_keys=True)}" for name in sorted(merged)]
        draft = RESULTS.with_suffix(f".{os.getpid()}")
        draft.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        draft.replace(RESULTS)
    finally:
        os.close(lock)


class Copy:
    """A copy of the working tree with an environment of its own, whose installed packages are those of the copy."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        self.plan, self.report = folder / "plan.json", folder / "report.json"
        self._writes = 0
        for path in ROOT.iterdir():
            if not path.name.startswith(".") and path.name not in ("data", "build"):
                command = ["cp", "-a", str(path), str(self.root / path.name)]
                self.root.mkdir(parents=True, exist_ok=True)
                subprocess.run(command, check=True)
        (self.root / ".git").symlink_to(ROOT / ".git")
        (folder / "shared").symlink_to(ROOT.parent / "shared")  # the old documents lie beside the repository
        self._install()

    def _install(self) -> None:
        """Link the environment of the working tree, but for the paths that point back at it."""
        theirs, ours = (ROOT / ".venv").resolve(), self.root / ".venv"
        (packages,) = (theirs / "lib").glob("python*/site-packages")
        site = ours / packages.relative_to(theirs)
        site.mkdir(parents=True)
        for path in packages.iterdir():
            if not (path.suffix == ".pth" and "ringrift" in path.name):
                (site / path.name).symlink_to(path)
        (site / "_ringrift.pth").write_text(f"{self.root / 'src'}\n")
        (ours / "bin").mkdir()
        for path in (theirs / "bin").iterdir():
            self._install_program(path, ours / "bin" / path.name)
        (ours / "pyvenv.cfg").write_text((theirs / "pyvenv.cfg").read_text())

    def _install_program(self, path: Path, ours: Path) -> None:
        prefix = f"#!{path.parent.parent}/".encode()
        if path.is_symlink():
            ours.symlink_to(path.readlink())
        elif path.is_file() and (data := path.read_bytes()).startswith(prefix):
            ours.write_bytes(data.replace(prefix, f"#!{self.root}/.venv/".encode(), 1))
            ours.chmod(0o755)

    def write(self, file: str, text: str) -> None:
        """Replace *file*.  Each write gets a whole second of its own, or Python would take old bytecode for it."""
        self._writes += 1
        path = self.root / file
        path.write_text(text, encoding="utf-8")
        moment = time.time() + self._writes
        os.utime(path, (moment, moment))

    def run(self, plan: dict[str, object], arguments: Sequence[str], seconds: float) -> dict[str, object]:
        """The report of pytest with *arguments* under *plan* (see mutation_report.py); "stopped": why it has none."""
        self.report.unlink(missing_ok=True)
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("RINGRIFT_", "PYTEST_"))}
        environ |= {"PYTHONPATH": str(self.root / "tests"), "PYTHONDONTWRITEBYTECODE": ""}
        self.plan.write_text(json.dumps(plan))
        environ |= {"MUTATION_PLAN": str(self.plan), "MUTATION_REPORT": str(self.report)}
        options = ["-p", "mutation_report", "-p", "no:cacheprovider", f"--timeout={TEST_SECONDS_MAX}", "--tb=no"]
        command = [str(self.root / ".venv" / "bin" / "python"), "-m", "pytest", "-q", *options, *arguments]
        try:
            ended = subprocess.run(command, cwd=self.root, env=environ, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return {"stopped": f"no end within {seconds:.0f} s"}
        if not self.report.is_file():
            return {"stopped": (ended.stdout + ended.stderr)[-500:]}
        return dict(json.loads(self.report.read_text()))


def judge(report: dict[str, object]) -> Outcome:
    """What *report* says about a mutation."""
    if problem := report.get("stopped") or report.get("outside") or report.get("collection"):
        return Outcome(INVALID, str(problem))
    if crash := report.get("crash"):
        return Outcome(INVALID, str(crash))
    if not report.get("failure"):
        return Outcome(SURVIVED, "" if report.get("tried") else "the test did not run")
    if not report.get("neighbour"):
        return Outcome(BROAD, f"{report['failure']}; no other test of the file passes")
    return Outcome(KILLED, str(report["failure"]))


Note = Callable[[Mutation, Outcome, str], None]
"""Called with each outcome and how far the run is."""


@dataclass
class _Run:
    """What the workers of one run share."""

    waiting: "queue.SimpleQueue[Mutation]"
    seconds: dict[str, float]
    count: int
    note: Note
    lock: threading.Lock
    outcomes: dict[str, Outcome]

    def take(self, mutation: Mutation, outcome: Outcome, seconds: float) -> None:
        """Count one outcome and note it."""
        with self.lock:
            self.outcomes[mutation.id] = outcome
            done = f"{len(self.outcomes)}/{self.count}"
            self.note(mutation, outcome, f"{done:>9} {outcome.word:9} {seconds:5.1f} s  {mutation.id}")


def _keep(mutation: Mutation, outcome: Outcome, line: str) -> None:
    _store(mutation.id, {"outcome": outcome.word, "reason": outcome.reason[:200], "digest": mutation.digest()})
    _print(line if outcome.word == KILLED else f"{line}: {outcome.reason}")


def _work(run: _Run, copy: Copy) -> None:
    while (mutation := _next(run.waiting)) is not None:
        started = time.monotonic()
        path = copy.root / mutation.file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if mutation.test not in run.seconds:
            outcome = Outcome(FAILING, "without the mutation too the test fails, is skipped or is missing")
        elif text.count(mutation.old) != 1:
            outcome = Outcome(INVALID, f"the old text occurs {text.count(mutation.old)} times")
        else:
            copy.write(mutation.file, mutation.apply(text))
            plan: dict[str, object] = {"test": mutation.test, "seconds": run.seconds}
            outcome = judge(copy.run(plan, [_file(mutation.test)], RUN_SECONDS_MAX))
            copy.write(mutation.file, text)
        run.take(mutation, outcome, time.monotonic() - started)


def _baseline(copies: Sequence[Copy], mutations: Sequence[Mutation]) -> dict[str, float]:
    """The tests that pass without a mutation, each with its seconds; every test runs once, each file by itself."""
    by_file: dict[str, set[str]] = {}
    for mutation in mutations:
        by_file.setdefault(_file(mutation.test), set()).add(mutation.test)
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for file in sorted(by_file):
        waiting.put(file)
    seconds: dict[str, float] = {}

    def check(copy: Copy) -> None:
        while (file := _next(waiting)) is not None:
            report = copy.run({"baseline": sorted(by_file[file])}, [file], BASELINE_SECONDS_MAX)
            if problem := report.get("stopped") or report.get("outside") or report.get("collection"):
                _print(f"without mutations: {file}: {problem}")
            passed = report.get("passed")
            assert isinstance(passed, dict | None)
            seconds.update(passed or {})

    _together([threading.Thread(target=check, args=(copy,)) for copy in copies])
    return seconds


def _next(waiting: "queue.SimpleQueue[T]") -> T | None:
    try:
        return waiting.get_nowait()
    except queue.Empty:
        return None


def _together(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run(mutations: Sequence[Mutation], jobs: int = 2, note: Note = _keep) -> dict[str, Outcome]:
    """Run *mutations* in copies of the working tree; the outcomes by id, each of which is noted as well."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [Copy(Path(folder) / str(number)) for number in range(min(jobs, len(mutations)))]
        seconds = _baseline(copies, mutations)
        waiting: queue.SimpleQueue[Mutation] = queue.SimpleQueue()
        for mutation in sorted(mutations, key=lambda mutation: mutation.file):
            waiting.put(mutation)
        shared = _Run(waiting, seconds, len(mutations), note, threading.Lock(), {})
        _together([threading.Thread(target=_work, args=(shared, copy)) for copy in copies])
    return shared.outcomes


def main(argv: Sequence[str] | None = None) -> int:
    """Run the mutations that the arguments choose; 0 if all of them were killed."""
    parser = argparse.ArgumentParser(description="Run mutations: each must make its test fail.")
    parser.add_argument("--area", default="", help="only tests/mutants/AREA.toml")
    parser.add_argument("--name", default="", help="only mutations with this in their names")
    parser.add_argument("--new", action="store_true", help="only those without a current outcome, and those not killed")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(argv)
    every = load()
    words = current(every, results())
    chosen = [
        mutation
        for mutation in every
        if options.area in ("", mutation.area)
        and options.name in mutation.name
        and not (options.new and words[mutation.id] == KILLED)
    ]
    if not chosen:
        _print("no mutation to run")
        return 0 if options.new else 2
    os.nice(5)
    outcomes = run(chosen, options.jobs)
    alive = [name for name, outcome in sorted(outcomes.items()) if outcome.word != KILLED]
    _print(f"{len(outcomes) - len(alive)} of {len(outcomes)} killed")
    for name in alive:
        _print(f"  {outcomes[name].word}: {name}: {outcomes[name].reason}")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
