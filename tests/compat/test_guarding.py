"""The documented guard of the master loop: asks without taking, and lets one in."""

import enum
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compat.ears import home
from ringrift.kernel.errors import NotLeader
from ringrift_compat.ambient import ambient
from ringrift_compat.guarding import (
    LeadershipRole,
    NoMasterLoop,
    ensure_master_loop_running,
    get_master_loop_holder,
    is_master_loop_running,
    master_loop_guard,
    require_master_loop,
)

__all__ = ["home"]


def test_nobody_is_there_and_nothing_is_made(home: Path) -> None:
    """Asking an unused home answers no, opens no node and leaves no file."""
    before = sorted(home.rglob("*"))

    assert not is_master_loop_running()
    with pytest.raises(NoMasterLoop, match="training needs a coordinator"):
        ensure_master_loop_running("training")
    assert sorted(home.rglob("*")) == before
    assert not ambient.is_open


def test_one_in_this_process_is_seen() -> None:
    """While the guard is held it is named, a second one is refused, and asking takes nothing away; later it is gone."""
    with master_loop_guard():
        for _ in range(3):
            assert is_master_loop_running()
        assert f"process {os.getpid()}" in require_master_loop()
        with pytest.raises(NotLeader), master_loop_guard():
            raise AssertionError("there is one already")
        assert is_master_loop_running()

    assert get_master_loop_holder() is None
    with master_loop_guard():
        assert is_master_loop_running()


def test_one_in_another_process_is_seen_until_it_dies(home: Path) -> None:
    """A process that holds the guard is seen from here, and killed it is not there any more."""
    code = """
import sys
from app.coordination.master_loop_guard import master_loop_guard
with master_loop_guard():
    print("ready", flush=True)
    sys.stdin.read()
"""
    pipe, environ = subprocess.PIPE, os.environ | {"RINGRIFT_HOME": str(home)}
    with subprocess.Popen([sys.executable, "-c", code], env=environ, stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        assert f"process {other.pid}" in ensure_master_loop_running()
        other.kill()
        other.wait(20)

    assert not is_master_loop_running()


def test_the_roles_of_leadership() -> None:
    """The documented words, also where all enumerations are found; each is one with that of its own module."""
    enums = importlib.import_module("app.coordination.enums")
    types = importlib.import_module("app.coordination.daemon_types")

    assert [role.value for role in LeadershipRole] == ["leader", "follower", "candidate", "provisional"]
    assert enums.LeadershipRole is LeadershipRole
    assert (enums.DaemonType, enums.DaemonState) == (types.DaemonType, types.DaemonState)
    assert all(issubclass(getattr(enums, name), enum.Enum) for name in enums.__all__)
