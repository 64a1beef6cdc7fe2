"""House rules about lists: what is written down once is listed, and what is listed exists."""

import ast
from collections.abc import Iterator

import pytest

from tidy.source import DAEMONS, EVENTS, Finding, Source, at, calls, expect_none, product, tagged

FAILPOINT = "ringrift.kernel.failpoint.failpoint"


def failpoints(source: Source) -> Iterator[tuple[ast.Call, object]]:
    """Every call of ``failpoint``, and the name it passes (None if it is not a literal)."""
    for name, call in calls(source):
        if name == FAILPOINT:
            first = call.args[0] if call.args else None
            yield call, first.value if isinstance(first, ast.Constant) else None


def unlisted_failpoints(source: Source, names: tuple[str, ...]) -> Iterator[Finding]:
    """Calls of ``failpoint`` with a name that is not one of *names*."""
    for call, name in failpoints(source):
        if name not in names:
            yield at(source, call, f"failpoint {name!r} is not in NAMES")


def modules(folder: str) -> set[str]:
    """The names of the modules that lie in *folder*."""
    return {source.stem for source in product() if source.below(folder) and source.stem != "__init__"}


def test_every_event_is_in_the_catalog() -> None:
    """Every class with a tag in the folder of events is listed in the catalog."""
    from ringrift.events.catalog import EVENTS as LISTED

    listed = {f"{event.__module__}.{event.__name__}" for event in LISTED}
    assert listed

    def unlisted(source: Source) -> Iterator[Finding]:
        for node, tag in tagged(source):
            if f"ringrift.events.{source.stem}.{node.name}" not in listed:
                yield at(source, node, f"{node.name} ({tag}) is not in the catalog")

    expect_none(unlisted, (source for source in product() if source.below(EVENTS)))


def test_daemons_start_behind_what_they_follow() -> None:
    """Every module of the folder is one daemon, and the start order has each behind those that its SPEC names."""
    from ringrift.daemons import DAEMONS as LISTED

    order = [daemon.name for daemon in LISTED]

    assert sorted(order) == sorted(modules(DAEMONS))
    for daemon in LISTED:
        for name in daemon.follows:
            assert order.index(name) < order.index(daemon.name), f"{daemon.name} starts before {name}"


def test_every_failpoint_is_named() -> None:
    """Every call of failpoint passes a literal that the list of names holds."""
    from ringrift.kernel.failpoint import NAMES

    expect_none(lambda source: unlisted_failpoints(source, NAMES), product())


def test_every_named_failpoint_is_passed() -> None:
    """Every name in the list of failpoints is passed somewhere in the product."""
    from ringrift.kernel.failpoint import NAMES

    passed = {name for source in product() for _, name in failpoints(source)}

    assert not set(NAMES) - passed, f"src/ringrift/kernel/failpoint.py: never passed: {sorted(set(NAMES) - passed)}"


@pytest.mark.parametrize(
    "text",
    [
        "from ringrift.kernel.failpoint import failpoint\nfailpoint('bus.elsewhere')",
        "from ringrift.kernel.failpoint import failpoint\nfailpoint(name)",
        "from ringrift.kernel import failpoint as f\nf.failpoint('bus.elsewhere')",
    ],
)
def test_the_check_of_failpoints_can_fail(text: str) -> None:
    """A name that is not listed, or not a literal, is found however failpoint was imported."""
    assert list(unlisted_failpoints(Source("src/ringrift/example.py", text), ("bus.before_effect",)))


def test_the_check_of_failpoints_lets_listed_names_pass() -> None:
    """A listed name is not found."""
    text = "from ringrift.kernel.failpoint import failpoint\nfailpoint('bus.before_effect')"

    assert not list(unlisted_failpoints(Source("src/ringrift/example.py", text), ("bus.before_effect",)))
