"""Daemons of other packages are found by their entry points, and a broken one is told and left out."""

from importlib.metadata import EntryPoint

import pytest

from ringrift.kernel.health import Status
from ringrift.supervision import plugin
from ringrift.supervision.spec import Daemon


async def duty() -> None:
    """Nothing to do."""


async def needs_a_part(*, stroe: object) -> None:
    """Asks for what no node has."""


SPEC = Daemon(name="greet", run=duty, every=60.0)
SAME_NAME = Daemon(name="greet", run=duty, every=30.0)
NO_DAEMON = duty
NEEDY = Daemon(name="needy", run=duty, every=60.0, needs=("elsewhere",))
UNBOUND = Daemon(name="unbound", run=needs_a_part, every=60.0)
HERE = "unit.supervision.test_plugin"


def entry(name: str, value: str) -> EntryPoint:
    """An entry point as a package would declare it."""
    return EntryPoint(name=name, value=value, group=plugin.GROUP)


def found_in(entries: list[EntryPoint], *ours: Daemon) -> plugin.Plugins:
    """What is found beside *ours* on a full node."""
    return plugin.installed(ours, {"clock": object()}, "full", entries)


def test_a_daemon_of_another_package_is_found() -> None:
    """What the entry point leads to is the daemon."""
    found = found_in([entry("greet", f"{HERE}:SPEC")])

    assert [one.name for one in found.daemons] == ["greet"]
    assert found.broken == ()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_package:SPEC", "ModuleNotFoundError"),
        (f"{HERE}:MISSING", "AttributeError"),
        (f"{HERE}:NO_DAEMON", "it must be a ringrift Daemon"),
        (f"{HERE}:NEEDY", "daemon needy = 'elsewhere' is not valid: it needs this daemon"),
        (f"{HERE}:UNBOUND", "daemon 'unbound' asks for 'stroe'"),
        ("this:will:not:parse", "cannot be used"),
    ],
)
def test_a_broken_one_is_told_and_the_others_are_there(value: str, reason: str) -> None:
    """It becomes a part that is unhealthy with its reason; nothing is raised, and its neighbour is found."""
    found = found_in([entry("broken", value), entry("greet", f"{HERE}:SPEC")])

    [told] = found.broken
    assert (told.part, told.status) == ("plugin broken", Status.UNHEALTHY)
    assert reason in told.reason
    assert [one.name for one in found.daemons] == ["greet"]


def test_a_name_that_is_taken_is_told() -> None:
    """Neither one of ours nor an earlier plugin can be replaced behind the user's back."""
    twice = found_in([entry("a", f"{HERE}:SPEC"), entry("b", f"{HERE}:SAME_NAME")])
    ours = found_in([entry("a", f"{HERE}:SPEC")], SAME_NAME)

    assert [one.name for one in twice.daemons] == ["greet"]
    for found in (twice.broken, ours.broken):
        assert "SettingsError" in found[0].reason
        assert "another daemon has this name" in found[0].reason
    assert ours.daemons == ()


def test_an_installation_without_plugins_is_fine() -> None:
    """What is really installed here can be asked for."""
    assert plugin.installed((), {}, "full").broken == ()
