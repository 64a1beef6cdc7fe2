"""The guard of the master loop lets one process in."""

import enum
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compat.subscribers import home
from ringrift.kernel.errors import NotLeader
from ringrift_compat.tasks.master_loop_guard import LeadershipRole, has_coordinator, master_loop_guard
from ringrift_compat.variables import read_settings

__all__ = ["home"]


def test_a_guard_in_this_process_excludes_a_second_one() -> None:
    """While the guard is held a second one is refused, and named; checking it takes nothing away; later it is free."""
    store = read_settings().settings.store
    assert not has_coordinator(store)
    with master_loop_guard():
        assert has_coordinator(store)
        with pytest.raises(NotLeader, match=f"process {os.getpid()}"), master_loop_guard():
            raise AssertionError("there is one already")
        assert has_coordinator(store)

    assert not has_coordinator(store)
    with master_loop_guard():
        pass


def test_a_guard_of_another_process_holds_until_it_dies(home: Path) -> None:
    """A process that holds the guard keeps others out until it dies."""
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
        with pytest.raises(NotLeader, match=f"process {other.pid}"), master_loop_guard():
            raise AssertionError("another process has it")
        other.kill()
        other.wait(20)

    with master_loop_guard():
        pass


def test_the_roles_of_leadership() -> None:
    """The documented roles are also among all enumerations; each is identical to that of its own module."""
    enums = importlib.import_module("app.coordination.enums")
    types = importlib.import_module("app.coordination.daemon_types")

    assert [role.value for role in LeadershipRole] == ["leader", "follower", "candidate", "provisional"]
    assert enums.LeadershipRole is LeadershipRole
    assert (enums.DaemonType, enums.DaemonState) == (types.DaemonType, types.DaemonState)
    assert all(issubclass(getattr(enums, name), enum.Enum) for name in enums.__all__)
