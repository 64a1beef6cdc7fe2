"""Every daemon can be bound to a node, started in order, and asks only for settings that exist."""

from dataclasses import fields

import pytest

from ringrift.daemons import COORDINATES, DAEMONS, ROLES
from ringrift.kernel.errors import Unbound
from ringrift.kernel.settings import PROFILES, Settings
from ringrift.node import Node
from ringrift.supervision.spec import Daemon, in_order

PARTS = {field.name: object() for field in fields(Node)} | {"alive": object()}


@pytest.mark.parametrize("daemon", DAEMONS, ids=lambda daemon: daemon.name)
def test_every_daemon_binds_to_a_node(daemon: Daemon) -> None:
    """Each keyword-only parameter of each daemon is a part that every node has."""
    assert callable(daemon.bind(PARTS))


def test_a_wrong_name_would_fail() -> None:
    """A part that no node has is noticed by the same binding."""

    async def wrong(*, stroe: object) -> None:
        raise AssertionError

    with pytest.raises(Unbound, match="'stroe'"):
        Daemon(name="wrong", run=wrong, every=1.0).bind(PARTS)


@pytest.mark.parametrize("daemon", [one for one in DAEMONS if isinstance(one.every, str)], ids=lambda one: one.name)
def test_seconds_that_stand_in_the_settings_are_there(daemon: Daemon) -> None:
    """The dotted name of a tick's seconds leads to a positive number."""
    found: object = Settings()
    for name in str(daemon.every).split("."):
        found = getattr(found, name)

    assert isinstance(found, float)
    assert found > 0


@pytest.mark.parametrize("profile", PROFILES)
def test_the_daemons_start_in_the_order_of_the_list(profile: str) -> None:
    """The tuple is the start order, for every kind of node: each stands behind those it starts after."""
    chosen = [daemon.name for daemon in DAEMONS if profile in daemon.profiles]

    ordered = [daemon.name for daemon in in_order([daemon for daemon in DAEMONS if profile in daemon.profiles])]

    assert ordered == chosen
    assert {"beat", "work"} <= set(chosen)


def test_daemons_start_only_after_daemons_that_exist() -> None:
    """No daemon waits for a name that nobody has."""
    names = {daemon.name for daemon in DAEMONS}

    assert all(set(daemon.after) <= names for daemon in DAEMONS)


def test_roles_are_taken_only_where_somebody_acts_in_them() -> None:
    """Every role is the role of a daemon, and its daemons run where roles are taken."""
    roles = {daemon.role for daemon in DAEMONS if daemon.role}

    assert tuple(sorted(roles)) == ROLES
    assert all(daemon.profiles == COORDINATES for daemon in DAEMONS if daemon.role)
