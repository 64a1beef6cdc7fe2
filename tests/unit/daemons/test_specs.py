"""Every daemon can be bound to a node, started in order, and requires only settings that exist."""

from dataclasses import fields

import pytest

from ringrift.daemons import DAEMONS, ROLES
from ringrift.kernel.errors import Unbound
from ringrift.kernel.settings import PROFILES, Settings
from ringrift.node import _DERIVED_PARTS, Node
from ringrift.supervision.spec import COORDINATES, Daemon, in_order

PARTS = {name: object() for name in (*(field.name for field in fields(Node)), *_DERIVED_PARTS)}


@pytest.mark.parametrize("daemon", DAEMONS, ids=lambda daemon: daemon.name)
def test_every_daemon_binds_to_a_node(daemon: Daemon) -> None:
    """Each keyword-only parameter of each daemon is a part that every node has."""
    assert callable(daemon.bind(daemon.own_parts(PARTS)))


def test_a_wrong_name_would_fail() -> None:
    """A part that no node has is noticed by the same binding."""

    async def mistakes(*, stroe: object) -> None:
        raise AssertionError

    with pytest.raises(Unbound, match="'stroe'"):
        Daemon(name="wrong", run=mistakes, every=1.0).bind(PARTS)


@pytest.mark.parametrize(
    "daemon", [spec for spec in DAEMONS if isinstance(spec.every, str)], ids=lambda spec: spec.name
)
def test_seconds_that_stand_in_the_settings_are_there(daemon: Daemon) -> None:
    """The dotted name of a tick's seconds leads to a positive number."""
    actual: object = Settings()
    for name in str(daemon.every).split("."):
        actual = getattr(actual, name)

    assert isinstance(actual, float)
    assert actual > 0


@pytest.mark.parametrize("profile", PROFILES)
def test_the_daemons_start_in_the_order_of_the_list(profile: str) -> None:
    """The tuple is the start order, for every kind of node: each comes after its predecessors."""
    chosen = [daemon.name for daemon in DAEMONS if profile in daemon.profiles]

    ordered = [daemon.name for daemon in in_order([daemon for daemon in DAEMONS if profile in daemon.profiles])]

    assert ordered == chosen
    assert {"beat", "work"} <= set(chosen)


def test_daemons_start_only_after_daemons_that_exist() -> None:
    """No daemon waits for an unknown name."""
    names = {daemon.name for daemon in DAEMONS}

    assert all(set(daemon.after) <= names for daemon in DAEMONS)


def test_roles_are_acquired_only_where_their_daemons_run() -> None:
    """Every role is the role of a daemon, and its daemons run where roles are acquired."""
    roles = {daemon.role for daemon in DAEMONS if daemon.role}

    assert tuple(sorted(roles)) == ROLES
    assert all(daemon.profiles == COORDINATES for daemon in DAEMONS if daemon.role)
