"""Daemons of other packages are loaded by their entry points, and a broken one is reported and left out."""

from importlib.metadata import EntryPoint

import pytest

from ringrift.kernel.health import Health, Status
from ringrift.supervision import plugin
from ringrift.supervision.spec import Daemon


async def duty() -> None:
    """Nothing to do."""


async def needs_a_part(*, stroe: object) -> None:
    """Require a part that no node has."""


SPEC = Daemon(name="greet", run=duty, every=60.0)
SAME_NAME = Daemon(name="greet", run=duty, every=30.0)
NO_DAEMON = duty
NEEDY = Daemon(name="needy", run=duty, every=60.0, needs=("elsewhere",))
UNBOUND = Daemon(name="unbound", run=needs_a_part, every=60.0)
HERE = "unit.supervision.test_plugin"


def entry(name: str, value: str) -> EntryPoint:
    """An entry point as a package would declare it."""
    return EntryPoint(name=name, value=value, group=plugin._GROUP)


def plugins_of(entries: list[EntryPoint], *ours: Daemon) -> tuple[tuple[Daemon, ...], tuple[Health, ...]]:
    """The plug-ins that can run beside *ours* on a full node, and why the others cannot."""
    return plugin.installed(ours, {"clock": object()}, "full", entries)


def test_a_daemon_of_another_package_is_loaded() -> None:
    """The target of the entry point is the daemon."""
    daemons, broken = plugins_of([entry("greet", f"{HERE}:SPEC")])

    assert [daemon.name for daemon in daemons] == ["greet"]
    assert broken == ()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_package:SPEC", "ModuleNotFoundError"),
        (f"{HERE}:MISSING", "AttributeError"),
        (f"{HERE}:NO_DAEMON", "it must be a ringrift Daemon"),
        (f"{HERE}:NEEDY", "daemon needy 'elsewhere' is not valid: it needs this daemon"),
        (f"{HERE}:UNBOUND", "daemon 'unbound' asks for 'stroe'"),
        ("this:will:not:parse", "cannot be used"),
    ],
)
def test_a_broken_plugin_is_reported_and_the_others_load(value: str, reason: str) -> None:
    """It becomes an unhealthy part with its reason; nothing is raised, and its neighbour loads."""
    daemons, [health] = plugins_of([entry("broken", value), entry("greet", f"{HERE}:SPEC")])

    assert (health.part, health.status) == ("plugin broken", Status.UNHEALTHY)
    assert reason in health.reason
    assert [daemon.name for daemon in daemons] == ["greet"]


def test_a_duplicate_name_is_reported() -> None:
    """Neither one of ours nor an earlier plugin can be replaced silently."""
    first, second_is_broken = plugins_of([entry("a", f"{HERE}:SPEC"), entry("b", f"{HERE}:SAME_NAME")])
    none, ours_comes_first = plugins_of([entry("a", f"{HERE}:SPEC")], SAME_NAME)

    assert [daemon.name for daemon in first] == ["greet"]
    for broken in (second_is_broken, ours_comes_first):
        assert "SettingsError" in broken[0].reason
        assert "another daemon has this name" in broken[0].reason
    assert none == ()


def test_an_installation_without_plugins_is_fine() -> None:
    """The plug-ins that are really installed here can be listed."""
    assert plugin.installed((), {}, "full")[1] == ()
