"""A plug-in of pytest for runs under a mutation: the test first, then its neighbours until one of them passes.

The environment has the paths of the plan (``MUTATION_PLAN``) and of the report (``MUTATION_REPORT``), both JSON.
"""

import json
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

PACKAGES = ("ringrift", "ringrift_reversi", "ringrift_compat", "app")
CRASHES = (ImportError, SyntaxError, NameError, AttributeError, TypeError, RecursionError, Warning)
NEIGHBOURS_MAX = 30
NEIGHBOURS_SECONDS_MAX = 20.0
"""Neighbours that are tried until one passes, and how long all of them may take."""


class _Report:
    """The plan of this process and what its tests did."""

    def __init__(self, plan: dict[str, object], path: Path) -> None:
        self.plan = plan
        self.path = path
        self.failures: dict[str, str] = {}
        self.skipped: set[str] = set()
        self.seconds = 0.0
        self.values: dict[str, object] = {"passed": {}, "tried": 0}

    def is_chosen(self, item: pytest.Item) -> bool:
        """Whether *item* is the test of the mutation, or one of the tests of a run without mutations."""
        function = item.nodeid.partition("[")[0]
        if chosen := self.plan.get("baseline"):
            assert isinstance(chosen, list)
            return function in chosen or item.nodeid in chosen
        return self.plan["test"] in (item.nodeid, function)

    def end(self, item: pytest.Item, seconds: float) -> None:
        """*item* is over: it has passed if no phase of it failed."""
        failure = self.failures.get(item.nodeid)
        if item.nodeid in self.skipped:
            return
        if "baseline" in self.plan:
            for test in {item.nodeid, item.nodeid.partition("[")[0]}:
                self._end_baseline(test, failure, seconds)
        elif self.is_chosen(item):
            self.values["tried"] = 1
            if failure and not self.values.get("failure"):
                self.values["failure"] = failure
        elif not failure:
            self.values["neighbour"] = item.nodeid

    def _end_baseline(self, test: str, failure: str | None, seconds: float) -> None:
        """A function passes if it does so with all its parameters."""
        passed = self.values["passed"]
        assert isinstance(passed, dict)
        if failure or passed.get(test) == -1.0:
            passed[test] = -1.0
        else:
            passed[test] = round(passed.get(test, 0.0) + seconds, 3)

    def is_needless(self, item: pytest.Item) -> bool:
        """Whether nothing can be learned from *item*: the answer is known."""
        if "baseline" in self.plan:
            return False
        if self.is_chosen(item):
            return bool(self.values.get("failure"))
        is_over = bool(self.values.get("neighbour")) or self.seconds > NEIGHBOURS_SECONDS_MAX
        return not self.values.get("failure") or is_over

    def write(self) -> None:
        """Write the report."""
        passed = self.values["passed"]
        assert isinstance(passed, dict)
        self.values["passed"] = {test: seconds for test, seconds in passed.items() if seconds >= 0}
        if outside := list(_outside(self.path.parent)):
            self.values["outside"] = f"imported from outside the copy: {outside}"
        self.path.write_text(json.dumps(self.values))


def _outside(folder: Path) -> Iterator[str]:
    for name in PACKAGES:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and not Path(file).is_relative_to(folder):
            yield str(file)


_PLAN, _PATH = (Path(os.environ[name]) for name in ("MUTATION_PLAN", "MUTATION_REPORT"))
_REPORT = _Report(json.loads(_PLAN.read_text()), _PATH)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the chosen tests first, then those neighbours that are known to be quick."""
    seconds = _REPORT.plan.get("seconds", {})
    assert isinstance(seconds, dict)
    chosen = [item for item in items if _REPORT.is_chosen(item)]
    others = [item for item in items if not _REPORT.is_chosen(item)]
    others.sort(key=lambda item: seconds.get(item.nodeid.partition("[")[0], 1.0))
    items[:] = chosen if "baseline" in _REPORT.plan else chosen + others[:NEIGHBOURS_MAX]


def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Leave out what nothing can be learned from."""
    return True if _REPORT.is_needless(item) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep why a phase failed; a crash is kept apart."""
    report = yield
    if report.failed and call.excinfo is not None and item.nodeid not in _REPORT.failures:
        errors = list(_leaves(call.excinfo.value))
        text = f"{type(errors[0]).__name__}: {errors[0]}"[:300]
        _REPORT.failures[item.nodeid] = text
        if _REPORT.is_chosen(item) and all(isinstance(error, CRASHES) for error in errors):
            _REPORT.values.setdefault("crash", text)
    if report.skipped:
        _REPORT.skipped.add(item.nodeid)
    if not _REPORT.is_chosen(item):
        _REPORT.seconds += call.duration
    if call.when == "teardown":
        _REPORT.end(item, call.duration)
    return report


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    elif isinstance(error, Warning) and error.__context__ is not None:
        yield from _leaves(error.__context__)  # what was left lying about when the test had failed already
    else:
        yield error


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that cannot be collected says nothing about its tests."""
    if report.failed:
        _REPORT.values["collection"] = str(report.longrepr)[-300:]


def pytest_sessionfinish() -> None:
    """Write the report."""
    _REPORT.write()
