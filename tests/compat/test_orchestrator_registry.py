"""The documented orchestrator roles: one process holds each, several by one process, freed at its end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compat.subscribers import home
from ringrift_compat.embedded_node import embedded
from ringrift_compat.tasks.admission import program_tasks
from ringrift_compat.tasks.orchestrator_registry import (
    OrchestratorRole,
    acquire_orchestrator_role,
    has_orchestrator_role,
    release_orchestrator_role,
)

__all__ = ["home"]

HOLD = """
import sys
from app.coordination.orchestrator_registry import OrchestratorRole, acquire_orchestrator_role
print(acquire_orchestrator_role(OrchestratorRole.P2P_LEADER), flush=True)
sys.stdin.readline()
"""


def holder(path: Path) -> "subprocess.Popen[str]":
    """Start another program on the same home that acquires a role and waits."""
    environ = os.environ | {"RINGRIFT_HOME": str(path)}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", HOLD], env=environ, stdin=pipe, stdout=pipe, text=True)


def read_line(program: "subprocess.Popen[str]") -> str:
    """Its next line."""
    assert program.stdout is not None
    return program.stdout.readline().strip()


NAMES = """
cluster_orchestrator improvement_daemon pipeline_orchestrator p2p_leader tournament_runner model_sync data_sync
unified_loop distillation_leader promotion_leader external_sync_leader vast_pipeline_leader cluster_data_sync_leader
"""


def test_there_are_thirteen_roles() -> None:
    """Every role of the documents has a member of its name, and can be held."""
    names = [role.value for role in OrchestratorRole]

    assert names == NAMES.split()
    assert all(acquire_orchestrator_role(name) for name in names)
    assert all(has_orchestrator_role(role) for role in OrchestratorRole)


def test_a_process_may_hold_several() -> None:
    """Each by itself; releasing one leaves the others, releasing without a name all."""
    assert acquire_orchestrator_role(OrchestratorRole.DATA_SYNC, metadata={"why": "test"})
    assert acquire_orchestrator_role("model_sync")
    assert acquire_orchestrator_role("model_sync")

    assert release_orchestrator_role("model_sync")
    assert not release_orchestrator_role("model_sync")
    assert (has_orchestrator_role("data_sync"), has_orchestrator_role("model_sync")) == (True, False)
    assert release_orchestrator_role()
    assert not has_orchestrator_role("data_sync")
    with pytest.raises(ValueError, match="king"):
        acquire_orchestrator_role("king")


def test_another_process_is_kept_out_until_the_holder_ends(home: Path) -> None:
    """A second process is refused; when the first is killed its role is free at once."""
    first = holder(home)
    assert read_line(first) == "True"
    second = holder(home)
    assert read_line(second) == "False"

    assert not acquire_orchestrator_role("p2p_leader")
    for program in (first, second):
        program.kill()
        program.communicate()
    assert acquire_orchestrator_role("p2p_leader")


def test_a_role_can_be_taken_by_force(home: Path) -> None:
    """The first holder has lost it, and learns so at its next renewal."""
    assert acquire_orchestrator_role("p2p_leader")
    code = HOLD.replace("P2P_LEADER)", "P2P_LEADER, force=True)").replace("sys.stdin.readline()", "")
    environ = os.environ | {"RINGRIFT_HOME": str(home)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"

    embedded.call(program_tasks().renew())

    assert not has_orchestrator_role("p2p_leader")
    assert acquire_orchestrator_role("p2p_leader"), "it gave its role back when it ended"


def test_a_shutdown_frees_roles(home: Path) -> None:
    """The roles of a program that has closed its node are free at once, though its process lives."""
    acquire_orchestrator_role("p2p_leader")
    embedded.shutdown()

    other = holder(home)
    assert read_line(other) == "True"
    other.kill()
    other.communicate()


def test_an_unusable_home_gives_no_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a readable store no role is acquired."""
    monkeypatch.setenv("RINGRIFT_COORDINATOR_DB", "/dev/null/store.db")

    assert not acquire_orchestrator_role("p2p_leader")
